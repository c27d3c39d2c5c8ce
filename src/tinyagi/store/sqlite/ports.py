"""The smaller ports on SQLite: lanes, responses, history, sessions, spending and the event log."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from tinyagi.domain.events import Event, RecordedEvent
from tinyagi.domain.ids import AgentId, ClaimId, TeamId
from tinyagi.domain.responses import ChatMessage, HistoryEntry, NewResponse, Response, ResponseStatus, Role
from tinyagi.domain.retry import RetryPolicy
from tinyagi.domain.sessions import Turn
from tinyagi.domain.spending import Spent
from tinyagi.store.base import Lane, LogBounds
from tinyagi.store.sqlite.operations.deliver import DeliveryFailure, ack, fail_delivery, park_responses, send
from tinyagi.store.sqlite.operations.lanes import HoldRequest, hold_lanes, pause, resume
from tinyagi.store.sqlite.operations.log import AppendRequest, CursorRequest, acknowledge, append, detach
from tinyagi.store.sqlite.operations.sessions import ResetRequest, reset
from tinyagi.store.sqlite.readers import BEYOND_ALL_IDS, Readers
from tinyagi.store.sqlite.writer import Writer

STRETCH: Final = 20_000
"""Events that one read looks through for a type."""


class SqliteLanes:
    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def pause(self, agent: AgentId) -> bool:
        return await self._writer.write(pause, agent)

    async def resume(self, agent: AgentId) -> bool:
        return await self._writer.write(resume, agent)

    async def hold(self, agent: AgentId, *, until: int, reason: str) -> None:
        await self._writer.write(hold_lanes, HoldRequest(agent, until, reason))

    async def all(self) -> tuple[Lane, ...]:
        rows = await self._readers.rows("lane_rows")
        return tuple(Lane(AgentId(agent), bool(paused), *rest) for agent, paused, *rest in rows)


class SqliteResponses:
    def __init__(self, writer: Writer, readers: Readers, policy: RetryPolicy, clock: Callable[[], int]) -> None:
        self._writer = writer
        self._readers = readers
        self._policy = policy
        self._clock = clock

    async def send(self, response: NewResponse) -> Response:
        return await self._writer.write(send, response)

    async def pending(self, channel: str, *, limit: int = 20) -> tuple[Response, ...]:
        while True:
            page = {"channel": channel, "now": self._clock(), "limit": limit}
            rows = await self._readers.rows("pending_responses", page)
            due = [row for row in rows if not row[-1]]
            # What a failed delivery holds back is set aside once, and not read again before its chat goes on.
            if len(due) == len(rows) or not await self._writer.write(park_responses, channel):
                return tuple([_response(row[:-1]) for row in due])

    async def recent(self, *, limit: int = 20) -> tuple[Response, ...]:
        return tuple(map(_response, await self._readers.rows("recent_responses", (limit,))))

    async def ack(self, response: int) -> None:
        await self._writer.write(ack, response)

    async def fail(self, response: int, reason: str, *, policy: RetryPolicy | None = None) -> bool:
        return await self._writer.write(fail_delivery, DeliveryFailure(response, reason, policy or self._policy))


class SqliteHistory:
    def __init__(self, readers: Readers) -> None:
        self._readers = readers

    async def of_agent(
        self, agent: AgentId | None = None, *, since: int = 0, before: int | None = None, limit: int = 100
    ) -> tuple[HistoryEntry, ...]:
        page = {"agent": agent, **_page(since, before, limit)}
        rows = await self._readers.rows("history_of_all" if agent is None else "history_page", page)
        return tuple(map(_entry, rows))

    async def of_room(
        self, team: TeamId, *, since: int = 0, before: int | None = None, limit: int = 100
    ) -> tuple[ChatMessage, ...]:
        rows = await self._readers.rows("room_page", {"team": team, **_page(since, before, limit)})
        return tuple(map(ChatMessage._make, rows))


class SqliteSessions:
    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def find(self, agent: AgentId, thread: str, provider: str) -> str | None:
        row = await self._readers.row("session", (agent, thread, provider))
        session_id: str | None = None if row is None else row[0]
        return session_id

    async def turns(self, agent: AgentId, thread: str, *, limit: int = 200) -> tuple[Turn, ...]:
        newest = await self._readers.rows("newest_turns", {"agent": agent, "thread": thread, "limit": limit})
        return tuple(Turn(Role(role), content) for role, content in reversed(newest))

    async def reset(self, agent: AgentId, *, by: str, starting: ClaimId | None = None) -> int:
        return await self._writer.write(reset, ResetRequest(agent, by, starting))


class SqliteSpending:
    def __init__(self, readers: Readers) -> None:
        self._readers = readers

    async def of_day(self, day: str) -> Mapping[str, Spent]:
        rows = await self._readers.rows("spend_of_day", (day,))
        return {scope: Spent(tokens, cost) for scope, tokens, cost in rows}


class SqliteEventLog:
    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def append(self, event: Event, *, agent: AgentId | None = None) -> int:
        return await self._writer.write(append, AppendRequest(event, agent))

    async def read_after(
        self, cursor: int, *, event_type: str | None = None, limit: int = 1000
    ) -> tuple[RecordedEvent, ...]:
        if event_type is None:
            return await self._read(cursor, BEYOND_ALL_IDS, None, limit)
        # One read per stretch of the log: a search for a rare type lets other reads have their turn.
        head = (await self.bounds()).head
        found: tuple[RecordedEvent, ...] = ()
        while len(found) < limit and cursor < head:
            found += await self._read(cursor, cursor + STRETCH, event_type, limit - len(found))
            cursor += STRETCH
        return found

    async def _read(self, after: int, through: int, event_type: str | None, limit: int) -> tuple[RecordedEvent, ...]:
        page = {"after": after, "through": through, "type": event_type, "limit": limit}
        return tuple(map(_event, await self._readers.rows("events_after", page)))

    async def bounds(self) -> LogBounds:
        return LogBounds(*await self._readers.row("event_bounds"))

    async def acknowledge(self, consumer: str, cursor: int) -> None:
        await self._writer.write(acknowledge, CursorRequest(consumer, cursor))

    async def cursor(self, consumer: str) -> int | None:
        row = await self._readers.row("cursor", (consumer,))
        position: int | None = None if row is None else row[0]
        return position

    async def detach(self, consumer: str) -> None:
        await self._writer.write(detach, consumer)


def _response(row: tuple[Any, ...]) -> Response:
    response = Response._make(row)
    return response._replace(status=ResponseStatus(response.status))


def _entry(row: tuple[Any, ...]) -> HistoryEntry:
    entry = HistoryEntry._make(row)
    return entry._replace(role=Role(entry.role))


def _event(row: tuple[Any, ...]) -> RecordedEvent:
    event = RecordedEvent(*row)
    return replace(event, payload=msgspec.json.decode(row[7]))


def _page(since: int, before: int | None, limit: int) -> dict[str, int]:
    return {"since": since, "before": BEYOND_ALL_IDS if before is None else before, "limit": limit}
