"""Wakes waiting tasks when something has changed. It says that a change happened, not what changed."""

import asyncio
from collections.abc import Callable


class Changes:
    """A counter that tasks can wait on. Read it before reading the data, and no wake-up is lost."""

    def __init__(self) -> None:
        self._version = 0
        self._listeners: list[Callable[[], None]] = []
        self._next: asyncio.Future[None] | None = None

    @property
    def version(self) -> int:
        return self._version

    def notify(self) -> None:
        """Wake all waiting tasks; called in the event loop."""
        self._version += 1
        for listener in self._listeners:
            listener()
        if self._next is not None:
            waiting, self._next = self._next, None
            if not waiting.done():
                waiting.set_result(None)

    def call(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call the listener on every change, in the event loop; the returned function removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def beyond(self, version: int) -> int:
        """Wait until the version is greater than the given one, and return it."""
        while self._version <= version:
            if self._next is None:
                self._next = asyncio.get_running_loop().create_future()
            # All waiting tasks share the future: cancelling one must not cancel the others.
            await asyncio.shield(self._next)
        return self._version
