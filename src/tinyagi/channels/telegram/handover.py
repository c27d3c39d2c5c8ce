"""Hands updates over: chats side by side, each chat in order; says which updates may be confirmed."""

import asyncio
from collections.abc import Awaitable, Callable


class Handover:
    """Updates on their way to the receiver."""

    def __init__(self) -> None:
        self._open: dict[int, asyncio.Task[None]] = {}
        self._last_of_chat: dict[str, asyncio.Task[None]] = {}
        self._done: set[int] = set()
        self._next = 0

    @property
    def offset(self) -> int:
        """The first update that is not handed over; 0 for the first that Telegram has."""
        return min(self._open, default=self._next)

    @property
    def is_busy(self) -> bool:
        return bool(self._open)

    def rest(self) -> None:
        """All updates are confirmed. After a quiet week Telegram numbers from anywhere, even from lower numbers."""
        self._next = 0
        self._done.clear()

    def skip(self, update: int) -> None:
        """Confirm an update that holds nothing to hand over."""
        self._done.add(update)
        self._next = max(self._next, update + 1)

    def knows(self, update: int) -> bool:
        """Telegram repeats the later updates while an earlier one is open."""
        return update in self._open or update in self._done

    def add(self, update: int, chat: str, deliver: Callable[[], Awaitable[None]]) -> None:
        """Hand an update over after the earlier ones of its chat."""
        task = asyncio.create_task(_after(self._last_of_chat.get(chat), deliver))
        self._open[update] = task
        self._last_of_chat[chat] = task
        self._next = max(self._next, update + 1)

    async def settle(self, seconds: float) -> None:
        """Wait until all are handed over, at most so long; raise what the receiver raised."""
        if self._open:
            await asyncio.wait(self._open.values(), timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        for update, task in list(self._open.items()):
            if task.done():
                task.result()
                del self._open[update]
                self._done.add(update)
        self._last_of_chat = {chat: task for chat, task in self._last_of_chat.items() if not task.done()}
        self._done = {update for update in self._done if update >= self.offset}

    async def cancel(self) -> None:
        """Give up what is open; Telegram hands it over again."""
        tasks = list(self._open.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._open.clear()


async def _after(earlier: asyncio.Task[None] | None, deliver: Callable[[], Awaitable[None]]) -> None:
    if earlier is not None:
        await asyncio.wait([earlier])
        earlier.result()
    await deliver()
