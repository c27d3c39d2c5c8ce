"""Waits for a state of another process, which has no event for it."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable

PAUSE = 0.02


async def eventually(holds: Callable[[], bool | Awaitable[bool]], *, seconds: float = 60, pause: float = PAUSE) -> None:
    """Return once the condition holds; raise TimeoutError."""
    async with asyncio.timeout(seconds):
        while True:
            found = holds()
            if await found if inspect.isawaitable(found) else found:
                return
            await asyncio.sleep(pause)
