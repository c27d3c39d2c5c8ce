"""History and traces from the database, and read-through versions that continue in the archive.

A read-through reads the database first: rows are pruned only after they are archived, so a row missing here is in the
archive. A row pruned between the two reads comes from both and is returned once.
"""

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec

from tinyagi.domain.ids import AgentId, ConversationId, TeamId
from tinyagi.domain.messages import Message, Status
from tinyagi.domain.responses import ChatMessage, HistoryEntry, Role
from tinyagi.domain.traces import RUN_EVENTS, Attempt, ConversationSummary, RunEvent, TracedMessage, build_trace
from tinyagi.store.archive import Archive, ArchiveUnreadable, History, Traces
from tinyagi.store.readers import BEYOND_ALL_IDS, Readers, fill_page, is_full
from tinyagi.store.transaction import encode_json

log = logging.getLogger(__name__)
Line = TypeVar("Line", bound=HistoryEntry | ChatMessage)

_ENDED: Final = frozenset({Status.COMPLETED, Status.DEAD})
"""A message that only the archive has must have ended; the archive may not know yet that it was deleted."""


class ReadThroughHistory:
    """Lines of the database and, when they do not fill the page, of the archive.

    The oldest lines are pruned first, so a full page has no gaps. An unreadable archive is an error: a short page would
    mean that there is nothing older.
    """

    def __init__(self, hot: History, archive: Archive) -> None:
        self._hot = hot
        self._archive = archive

    async def of_agent(
        self,
        agent: AgentId | None = None,
        *,
        since: int = 0,
        before: int | None = None,
        limit: int = 100,
        internal: bool = True,
    ) -> tuple[HistoryEntry, ...]:
        hot = await self._hot.of_agent(agent, since=since, before=before, limit=limit, internal=internal)
        if len(hot) >= limit or is_full(hot):
            return hot
        archived = await self._archive.of_agent(agent, since=since, before=before, limit=limit, internal=internal)
        return _page(hot, archived, limit)

    async def of_room(
        self, team: TeamId, *, since: int = 0, before: int | None = None, limit: int = 100
    ) -> tuple[ChatMessage, ...]:
        hot = await self._hot.of_room(team, since=since, before=before, limit=limit)
        if len(hot) >= limit or is_full(hot):
            return hot
        return _page(hot, await self._archive.of_room(team, since=since, before=before, limit=limit), limit)


class ReadThroughTraces:
    """Conversations of the database, completed from the archive, and older ones.

    While the archive cannot be read, return the database's part alone: a live view must not depend on the lake.
    """

    def __init__(self, hot: Traces, archive: Archive) -> None:
        self._hot = hot
        self._archive = archive

    async def conversation(self, conversation: ConversationId) -> tuple[TracedMessage, ...]:
        hot = await self._hot.conversation(conversation)
        # An id may be reused once its conversation is pruned: complete only the conversation found here.
        started_at = hot[0].message.conversation_started_at if hot else None
        try:
            archived = await self._archive.conversation(conversation, started_at=started_at)
        except ArchiveUnreadable as error:
            if not hot:
                raise
            log.warning("conversation %s is shown without its archive: %s", conversation, error)
            return hot
        return _joined(hot, archived)

    async def recent(self, *, limit: int = 50) -> tuple[ConversationSummary, ...]:
        hot = await self._hot.recent(limit=limit)
        try:
            archived = await self._archive.recent(limit=limit)
        except ArchiveUnreadable as error:
            if not hot:
                raise
            log.warning("conversations are listed without the archive: %s", error)
            return hot
        known = {(one.id, one.started_at): one for one in archived}
        merged = [_summary(one, known.pop((one.id, one.started_at), None)) for one in hot]
        # A conversation that died long ago may still be in the database, so sort both together.
        newest = sorted((*merged, *known.values()), key=lambda one: one.started_at, reverse=True)
        return tuple(newest[:limit])


def _page(hot: Iterable[Line], archived: Iterable[Line], limit: int) -> tuple[Line, ...]:
    lines = {line.id: line for line in (*archived, *hot)}
    return tuple(fill_page(lines[number] for number in sorted(lines, reverse=True)[:limit]))


def _joined(hot: tuple[TracedMessage, ...], archived: tuple[TracedMessage, ...]) -> tuple[TracedMessage, ...]:
    here = {one.message.id: one for one in hot}
    there = {one.message.id: one for one in archived if one.message.id in here or one.message.status in _ENDED}
    # The conversation may have got its team after a message was stored; the database has the latest.
    team = next((one.message.conversation_team for one in (*hot, *archived)), None)
    joined = [
        _both(here[number], there[number]) if number in here and number in there else here.get(number) or there[number]
        for number in sorted({*here, *there})
    ]
    return tuple(replace(one, message=one.message._replace(conversation_team=team)) for one in joined)


def _both(hot: TracedMessage, archived: TracedMessage) -> TracedMessage:
    is_newer = archived.message.last_event_id > hot.message.last_event_id
    return TracedMessage(
        archived.message if is_newer else hot.message,
        _attempts(hot.attempts, archived.attempts),
        archived.answer if hot.answer is None else hot.answer,
    )


def _attempts(hot: tuple[Attempt, ...], archived: tuple[Attempt, ...]) -> tuple[Attempt, ...]:
    """The archive's attempts, which are the older ones, then those that only the database has.

    For a run that has ended the archive wins: the database may have pruned its start.
    """
    here = {run.claim_id: run for run in hot}
    known = [here.get(run.claim_id, run) if run.ended_at is None else run for run in archived]
    archived_ids = {run.claim_id for run in known}
    return (*known, *(run for run in hot if run.claim_id not in archived_ids))


def _summary(hot: ConversationSummary, archived: ConversationSummary | None) -> ConversationSummary:
    """The database's summary, with the archive's counts for rows that were pruned."""
    if archived is None:
        return hot
    return replace(
        hot,
        hops=max(hot.hops, archived.hops),
        tokens=max(hot.tokens, archived.tokens),
        cost=max(hot.cost, archived.cost),
        updated_at=max(hot.updated_at, archived.updated_at),
    )


class HotHistory:
    def __init__(self, readers: Readers) -> None:
        self._readers = readers

    async def of_agent(
        self,
        agent: AgentId | None = None,
        *,
        since: int = 0,
        before: int | None = None,
        limit: int = 100,
        internal: bool = True,
    ) -> tuple[HistoryEntry, ...]:
        page = {"agent": agent, "internal": internal, **_history_page(since, before, limit)}
        rows = await self._readers.page("history_of_all" if agent is None else "history_page", page)
        return tuple(map(_entry, rows))

    async def of_room(
        self, team: TeamId, *, since: int = 0, before: int | None = None, limit: int = 100
    ) -> tuple[ChatMessage, ...]:
        rows = await self._readers.page("room_page", {"team": team, **_history_page(since, before, limit)})
        return tuple(map(ChatMessage._make, rows))


def _entry(row: tuple[Any, ...]) -> HistoryEntry:
    entry = HistoryEntry._make(row)
    return entry._replace(role=Role(entry.role))


def _history_page(since: int, before: int | None, limit: int) -> dict[str, int]:
    return {"since": since, "before": BEYOND_ALL_IDS if before is None else before, "limit": limit}


class HotTraces:
    def __init__(self, readers: Readers) -> None:
        self._readers = readers

    async def conversation(self, conversation: ConversationId) -> tuple[TracedMessage, ...]:
        rows = await self._readers.rows("messages_of_conversation", (conversation,))
        messages = [message._replace(status=Status(message.status)) for message in map(Message._make, rows)]
        last_events = encode_json([message.last_event_id for message in messages])
        log = await self._readers.rows("runs_of_conversation", (conversation, last_events))
        return build_trace(messages, map(_run_event, log))

    async def recent(self, *, limit: int = 50) -> tuple[ConversationSummary, ...]:
        rows = await self._readers.page("recent_conversations", {"limit": limit})
        return tuple(ConversationSummary(*row) for row in rows)


def _run_event(row: tuple[Any, ...]) -> tuple[int, RunEvent]:
    event_type, payload, at = row
    return at, msgspec.json.decode(payload, type=RUN_EVENTS[event_type])
