"""Goes on in the archive where the hot store ends, so that nobody has to know where a row lies.

The hot store is read first. What it has pruned by then is in the archive, because nothing is pruned before it is there;
what it prunes afterwards was read already and comes twice, and is told once.
"""

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeVar

from tinyagi.domain.ids import AgentId, ConversationId, TeamId
from tinyagi.domain.messages import Status
from tinyagi.domain.responses import ChatMessage, HistoryEntry
from tinyagi.domain.traces import Attempt, ConversationSummary, TracedMessage
from tinyagi.store.archive import Archive, ArchiveUnreadable
from tinyagi.store.base import History
from tinyagi.store.records import Traces

log = logging.getLogger(__name__)
Line = TypeVar("Line", bound=HistoryEntry | ChatMessage)

_ENDED: Final = frozenset({Status.COMPLETED, Status.DEAD})
"""What only the archive has must have ended. Of a message that was deleted it may not know that yet."""


class ReadThroughHistory:
    """Lines of the hot store and, where a page is not full, of the archive.

    The oldest are pruned first, so a full page has no gaps. An archive that cannot be read is an error: a short page
    would say that there is nothing older.
    """

    def __init__(self, hot: History, archive: Archive) -> None:
        self._hot = hot
        self._archive = archive

    async def of_agent(
        self, agent: AgentId | None = None, *, since: int = 0, before: int | None = None, limit: int = 100
    ) -> tuple[HistoryEntry, ...]:
        hot = await self._hot.of_agent(agent, since=since, before=before, limit=limit)
        if len(hot) >= limit:
            return hot
        return _page(hot, await self._archive.of_agent(agent, since=since, before=before, limit=limit), limit)

    async def of_room(
        self, team: TeamId, *, since: int = 0, before: int | None = None, limit: int = 100
    ) -> tuple[ChatMessage, ...]:
        hot = await self._hot.of_room(team, since=since, before=before, limit=limit)
        if len(hot) >= limit:
            return hot
        return _page(hot, await self._archive.of_room(team, since=since, before=before, limit=limit), limit)


class ReadThroughTraces:
    """Conversations of the hot store, completed by what the archive knows of them, and older ones.

    While the archive cannot be read, what the hot store has is told alone: a live view must not depend on the lake.
    """

    def __init__(self, hot: Traces, archive: Archive) -> None:
        self._hot = hot
        self._archive = archive

    async def conversation(self, conversation: ConversationId) -> tuple[TracedMessage, ...]:
        hot = await self._hot.conversation(conversation)
        # A name may come again when its conversation is pruned: only the one that is here is completed.
        started_at = hot[0].message.conversation_started_at if hot else None
        try:
            archived = await self._archive.conversation(conversation, started_at=started_at)
        except ArchiveUnreadable as error:
            if not hot:
                raise
            log.warning("conversation %s is told without its archive: %s", conversation, error)
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
        # One that died long ago is still hot, so the archive's do not simply follow.
        newest = sorted((*merged, *known.values()), key=lambda one: one.started_at, reverse=True)
        return tuple(newest[:limit])


def _page(hot: Iterable[Line], archived: Iterable[Line], limit: int) -> tuple[Line, ...]:
    lines = {line.id: line for line in (*archived, *hot)}
    return tuple([lines[number] for number in sorted(lines, reverse=True)[:limit]])


def _joined(hot: tuple[TracedMessage, ...], archived: tuple[TracedMessage, ...]) -> tuple[TracedMessage, ...]:
    here = {one.message.id: one for one in hot}
    there = {one.message.id: one for one in archived if one.message.id in here or one.message.status in _ENDED}
    # The team may have been given to the conversation after a message came; the hot store knows the last word.
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
    """Those of the archive, which has none that is younger, then what only the hot store knows.

    A run that ended is told by the archive: the hot store may have pruned its beginning.
    """
    here = {run.claim_id: run for run in hot}
    known = [here.get(run.claim_id, run) if run.ended_at is None else run for run in archived]
    told = {run.claim_id for run in known}
    return (*known, *(run for run in hot if run.claim_id not in told))


def _summary(hot: ConversationSummary, archived: ConversationSummary | None) -> ConversationSummary:
    """As the hot store tells it; what it has pruned is counted by the archive."""
    if archived is None:
        return hot
    return replace(
        hot,
        hops=max(hot.hops, archived.hops),
        tokens=max(hot.tokens, archived.tokens),
        cost=max(hot.cost, archived.cost),
        updated_at=max(hot.updated_at, archived.updated_at),
    )
