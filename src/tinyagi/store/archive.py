"""Ports of history, traces, recall and the archive, which reads pruned rows from the lake; and the versions without a
lake.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Protocol, TypeAlias

from tinyagi.domain.errors import NotFound, StoreError
from tinyagi.domain.ids import AgentId, ConversationId, TeamId
from tinyagi.domain.responses import ChatMessage, HistoryEntry
from tinyagi.domain.traces import ConversationSummary, TracedMessage

Cell: TypeAlias = "str | int | float | bool | Sequence[Cell] | Mapping[str, Cell] | None"
"""A value in an analytics table; days are ISO 8601."""


class ArchiveUnreadable(StoreError):
    """The lake's files cannot be read; nothing else is affected."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column of an analytics table."""

    name: str
    type: str
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class TableSummary:
    """An analytics table and how fresh it is."""

    name: str
    meaning: str
    rows: int
    through_id: int
    """The last event in it."""
    written_at: int


@dataclass(frozen=True, slots=True)
class Analytics:
    """Rows of an analytics table, newest first."""

    table: TableSummary
    fields: tuple[Field, ...]
    rows: tuple[Mapping[str, Cell], ...]


class History(Protocol):
    """History of agents and chat rooms, page by page."""

    async def of_agent(
        self,
        agent: AgentId | None = None,
        *,
        since: int = 0,
        before: int | None = None,
        limit: int = 100,
        internal: bool = True,
    ) -> tuple[HistoryEntry, ...]:
        """Lines of one agent or of all, newest first, between two ids.

        Without `internal`, lines that teammates and rooms sent to the agent are left out; its answers stay.
        """

    async def of_room(
        self, team: TeamId, *, since: int = 0, before: int | None = None, limit: int = 100
    ) -> tuple[ChatMessage, ...]:
        """Lines of a chat room, newest first."""


class Traces(Protocol):
    """Conversations with their runs, as long as their messages are kept."""

    async def conversation(self, conversation: ConversationId) -> tuple[TracedMessage, ...]:
        """Its messages, oldest first, each with its runs; empty for an unknown conversation."""

    async def recent(self, *, limit: int = 50) -> tuple[ConversationSummary, ...]:
        """The latest conversations, newest first."""


class Archive(Protocol):
    """Rows in the lake as of the pipeline's last run. It never has more than the store has recorded."""

    async def of_agent(
        self,
        agent: AgentId | None = None,
        *,
        since: int = 0,
        before: int | None = None,
        limit: int = 100,
        internal: bool = True,
    ) -> tuple[HistoryEntry, ...]:
        """As `History.of_agent`."""

    async def of_room(
        self, team: TeamId, *, since: int = 0, before: int | None = None, limit: int = 100
    ) -> tuple[ChatMessage, ...]:
        """As `History.of_room`."""

    async def conversation(
        self, conversation: ConversationId, *, started_at: int | None = None
    ) -> tuple[TracedMessage, ...]:
        """As `Traces.conversation`: the one that started at `started_at`, or the newest with that id."""

    async def recent(self, *, limit: int = 50) -> tuple[ConversationSummary, ...]:
        """As `Traces.recent`; long texts are cut."""

    async def tables(self) -> tuple[TableSummary, ...]:
        """All analytics tables."""

    async def analytics(
        self,
        table: str,
        *,
        since: date | None = None,
        until: date | None = None,
        agent: AgentId | None = None,
        limit: int = 1000,
    ) -> Analytics:
        """Rows of these days, both included; raise NotFound when the table does not exist or is not built yet."""


class NoArchive:
    """The archive of an installation without a lake: no rows and no tables."""

    async def of_agent(
        self,
        agent: AgentId | None = None,  # noqa: ARG002 - the port's names
        *,
        since: int = 0,  # noqa: ARG002
        before: int | None = None,  # noqa: ARG002
        limit: int = 100,  # noqa: ARG002
        internal: bool = True,  # noqa: ARG002
    ) -> tuple[HistoryEntry, ...]:
        return ()

    async def of_room(
        self,
        team: TeamId,  # noqa: ARG002
        *,
        since: int = 0,  # noqa: ARG002
        before: int | None = None,  # noqa: ARG002
        limit: int = 100,  # noqa: ARG002
    ) -> tuple[ChatMessage, ...]:
        return ()

    async def conversation(
        self,
        conversation: ConversationId,  # noqa: ARG002
        *,
        started_at: int | None = None,  # noqa: ARG002
    ) -> tuple[TracedMessage, ...]:
        return ()

    async def recent(self, *, limit: int = 50) -> tuple[ConversationSummary, ...]:  # noqa: ARG002
        return ()

    async def tables(self) -> tuple[TableSummary, ...]:
        return ()

    async def analytics(
        self,
        table: str,
        *,
        since: date | None = None,  # noqa: ARG002
        until: date | None = None,  # noqa: ARG002
        agent: AgentId | None = None,  # noqa: ARG002
        limit: int = 1000,  # noqa: ARG002
    ) -> Analytics:
        raise NotFound(
            f"There is no table {table!r}: this installation has no pipeline. "
            "Install `tinyagi[pipeline]`, restart the daemon, then run `tinyagi pipeline run`."
        )


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage of the agent's history."""

    history_id: int
    role: str
    message_id: str
    conversation_id: str | None
    created_at: int
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Recollection:
    """Search results in the archive, best first."""

    hits: tuple[Hit, ...]
    through_id: int
    """The last event that the search covered."""


class Recall(Protocol):
    async def search(self, agent: AgentId, query: str, *, limit: int = 10) -> Recollection:
        """The best matches in this agent's history; raise NotFound when nothing is archived yet."""


class NoRecall:
    """Recall of an installation without a lake: always NotFound."""

    async def search(self, agent: AgentId, query: str, *, limit: int = 10) -> Recollection:  # noqa: ARG002 - the port's
        raise NotFound(
            "There is nothing to recall: this installation has no pipeline. "
            "Install `tinyagi[pipeline]`, restart the daemon, then run `tinyagi pipeline run`."
        )
