"""Wake-ups: tells waiting tasks that the store has changed, whoever changed it."""

import asyncio
from collections.abc import Callable


class Changes:
    """A counter that tasks can wait on. Reading it before looking at the store makes a lost wake-up impossible."""

    def __init__(self) -> None:
        self._version = 0
        self._listeners: list[Callable[[], None]] = []
        self._next: asyncio.Future[None] | None = None

    @property
    def version(self) -> int:
        return self._version

    def notify(self) -> None:
        """Wake everybody who waits; called in the event loop."""
        self._version += 1
        for listener in self._listeners:
            listener()
        if self._next is not None:
            waiting, self._next = self._next, None
            if not waiting.done():
                waiting.set_result(None)

    def call(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call this on every change, in the event loop, until the function that is returned is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def beyond(self, version: int) -> int:
        """Return the version as soon as it is beyond the given one."""
        while self._version <= version:
            if self._next is None:
                self._next = asyncio.get_running_loop().create_future()
            # Shared by all who wait: one who is cancelled must not take the others with it.
            await asyncio.shield(self._next)
        return self._version
