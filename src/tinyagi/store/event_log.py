"""The event log: reads by cursor, events that no other operation records, and the cursors of durable readers."""

from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from tinyagi.domain.events import Event, RecordedEvent
from tinyagi.domain.ids import AgentId
from tinyagi.store.readers import BEYOND_ALL_IDS, Readers, is_full
from tinyagi.store.transaction import Transaction
from tinyagi.store.writer import Writer

STRETCH: Final = 20_000
"""Ids that one read searches for a type."""


@dataclass(frozen=True, slots=True)
class LogBounds:
    """Ids of the log: the oldest that is still stored (0 when empty) and the newest ever assigned."""

    oldest: int
    head: int


class EventLog:
    """The ordered log of every event; readers keep a cursor."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def append(self, event: Event, *, agent: AgentId | None = None) -> int:
        """Record an event that no queue operation records, and return its id."""
        return await self._writer.run(Transaction.record_alone, event, agent)

    async def read_after(
        self, cursor: int, *, event_type: str | None = None, limit: int = 1000, bounded: bool = False
    ) -> tuple[RecordedEvent, ...]:
        """Events beyond the cursor in order; `bounded` stops at the event that fills a page of text."""
        if event_type is None:
            return tuple(map(_event, await self._read(cursor, BEYOND_ALL_IDS, None, limit, bounded)))
        # One read per range of ids, so that a search for a rare type does not block other reads.
        head = (await self.bounds()).head
        found: list[Any] = []
        while len(found) < limit and cursor < head and not (bounded and is_full(found)):
            found += await self._read(cursor, cursor + STRETCH, event_type, limit - len(found), bounded)
            cursor += STRETCH
        return tuple(map(_event, found))

    async def _read(self, after: int, through: int, event_type: str | None, limit: int, bounded: bool) -> list[Any]:
        page = {"after": after, "through": through, "type": event_type, "limit": limit}
        return await (self._readers.page if bounded else self._readers.rows)("events_after", page)

    async def bounds(self) -> LogBounds:
        """The oldest and the newest id."""
        return LogBounds(*await self._readers.row("event_bounds"))

    async def acknowledge(self, consumer: str, cursor: int) -> None:
        """Record that this reader has durably stored all events through the cursor, which never moves back."""
        await self._writer.run(acknowledge, consumer, cursor)

    async def cursor(self, consumer: str) -> int | None:
        """The cursor of this reader, or None when it has never acknowledged."""
        row = await self._readers.row("cursor", (consumer,))
        position: int | None = None if row is None else row[0]
        return position

    async def detach(self, consumer: str) -> None:
        """Forget the reader: pruning no longer waits for it."""
        await self._writer.run(detach, consumer)


def _event(row: tuple[Any, ...]) -> RecordedEvent:
    event = RecordedEvent(*row)
    return replace(event, payload=msgspec.json.decode(row[7]))


def acknowledge(tx: Transaction, consumer: str, cursor: int) -> None:
    tx.connection.execute(tx.sql["move_cursor"], (consumer, cursor, tx.now))


def detach(tx: Transaction, consumer: str) -> None:
    tx.connection.execute(tx.sql["drop_cursor"], (consumer,))
