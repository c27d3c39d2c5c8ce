"""Port of the archive: rows that went into the lake, so that what is pruned can still be asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Protocol, TypeAlias

from tinyagi.domain.errors import NotFound, StoreError
from tinyagi.domain.ids import AgentId, ConversationId, TeamId
from tinyagi.domain.responses import ChatMessage, HistoryEntry
from tinyagi.domain.traces import ConversationSummary, TracedMessage

Cell: TypeAlias = "str | int | float | bool | Sequence[Cell] | Mapping[str, Cell] | None"
"""What stands in a column of an analytics table; days are ISO 8601."""


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
    """The last event that is part of it."""
    written_at: int


@dataclass(frozen=True, slots=True)
class Analytics:
    """Rows of an analytics table, newest first."""

    table: TableSummary
    fields: tuple[Field, ...]
    rows: tuple[Mapping[str, Cell], ...]


class Archive(Protocol):
    """What the store has handed to the lake, as of the pipeline's last run. Never more than the store has recorded."""

    async def of_agent(
        self, agent: AgentId | None = None, *, since: int = 0, before: int | None = None, limit: int = 100
    ) -> tuple[HistoryEntry, ...]:
        """As `History.of_agent`."""

    async def of_room(
        self, team: TeamId, *, since: int = 0, before: int | None = None, limit: int = 100
    ) -> tuple[ChatMessage, ...]:
        """As `History.of_room`."""

    async def conversation(
        self, conversation: ConversationId, *, started_at: int | None = None
    ) -> tuple[TracedMessage, ...]:
        """As `Traces.conversation`: the one that began then, or the newest of that name."""

    async def recent(self, *, limit: int = 50) -> tuple[ConversationSummary, ...]:
        """As `Traces.recent`; of a long text the beginning."""

    async def tables(self) -> tuple[TableSummary, ...]:
        """The analytics tables there are."""

    async def analytics(
        self,
        table: str,
        *,
        since: date | None = None,
        until: date | None = None,
        agent: AgentId | None = None,
        limit: int = 1000,
    ) -> Analytics:
        """Rows of these days, both included; raise NotFound when there is no such table, or none yet."""


class NoArchive:
    """Where nothing is archived: the store is all there is."""

    async def of_agent(
        self,
        agent: AgentId | None = None,  # noqa: ARG002 - the port's names
        *,
        since: int = 0,  # noqa: ARG002
        before: int | None = None,  # noqa: ARG002
        limit: int = 100,  # noqa: ARG002
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
