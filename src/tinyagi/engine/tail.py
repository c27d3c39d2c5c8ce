"""Follows the event log from a cursor: what is there, then what comes."""

from collections.abc import Callable
from typing import Final

from tinyagi.domain.events import RecordedEvent
from tinyagi.store.base import Store

PAGE: Final = 200
"""Events handed on before others have their turn."""


class Tail:
    """Hands every event beyond a cursor to `tell`, in order."""

    def __init__(self, store: Store, tell: Callable[[RecordedEvent], None], after: int) -> None:
        self._store = store
        self._tell = tell
        self._cursor = after

    async def catch_up(self) -> None:
        """Tell everything that is in the log by now."""
        while page := await self._store.events.read_after(self._cursor, limit=PAGE):
            for event in page:
                self._tell(event)
            self._cursor = page[-1].id

    async def follow(self) -> None:
        """Tell what comes, for ever."""
        while True:
            seen = self._store.changes.version
            await self.catch_up()
            await self._store.changes.beyond(seen)
