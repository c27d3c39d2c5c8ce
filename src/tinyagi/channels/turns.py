"""One after another within a chat, side by side between chats."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator


class Turns:
    """A lock for each key, in the order of the calls; a key without callers takes no memory."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._callers: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def of(self, key: str) -> AsyncIterator[None]:
        """Wait for the earlier callers of this key."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._callers[key] += 1
        try:
            async with lock:
                yield
        finally:
            self._callers[key] -= 1
            if not self._callers[key]:
                del self._callers[key], self._locks[key]
