"""Rows of the lake as the store's own types: histories, rooms, conversations, and gold tables for analytics."""

from collections.abc import Mapping
from datetime import date
from functools import reduce
from operator import or_
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tinyagi.domain.errors import InvalidInput, NotFound
from tinyagi.domain.ids import AgentId, MessageId, TeamId
from tinyagi.domain.messages import ROOM_CHANNEL
from tinyagi.domain.responses import ChatMessage, HistoryEntry, Role
from tinyagi.domain.traces import ConversationSummary
from tinyagi.pipeline.serve.lake_reader import ASCENDING, DESCENDING, Order, PinnedLake, PinnedTable, Row, plain_rows
from tinyagi.pipeline.tables.gold import AGENT_HOURLY, ALERTS, CHANNEL_DAILY, CONVERSATIONS, DEAD_LETTERS, HANDOFF_EDGES
from tinyagi.pipeline.tables.model import DATE, INSTANT, TIMESTAMP, Column, Table
from tinyagi.pipeline.tables.silver import AGENT_MESSAGES, CHAT_MESSAGES
from tinyagi.store.archive import Analytics, Field, TableSummary

_LAYER: Final = "gold."
_ORDERED_BY: Final[Mapping[Table, str | None]] = {
    AGENT_HOURLY: "hour",
    CONVERSATIONS: "started_at",
    HANDOFF_EDGES: None,
    CHANNEL_DAILY: None,
    DEAD_LETTERS: "last_at",
    ALERTS: "hour",
}
"""The tables for analytics, each with the column that orders its rows within a day."""
_TABLES: Final = {table.name: table for table in _ORDERED_BY}
_AGENTS: Final = ("agent", "from_agent", "to_agent")


def agent_lines(
    lake: PinnedLake, agent: AgentId | None, *, since: int, before: int | None, limit: int, internal: bool
) -> tuple[HistoryEntry, ...]:
    table = lake.table(AGENT_MESSAGES.name)
    if table is None:
        return ()
    where = pc.scalar(True) if agent is None else pc.field("agent_id") == agent
    if not internal:
        where &= (pc.field("role") != Role.USER.value) | ~_is_internal()
    return tuple(map(_entry, table.newest_by_id(where, since=since, before=before, limit=limit)))


def archived_room_lines(
    lake: PinnedLake, team: TeamId, *, since: int, before: int | None, limit: int
) -> tuple[ChatMessage, ...]:
    table = lake.table(CHAT_MESSAGES.name)
    if table is None:
        return ()
    where = pc.field("team_id") == team
    return tuple(map(_line, table.newest_by_id(where, since=since, before=before, limit=limit)))


def archived_conversations(lake: PinnedLake, limit: int) -> tuple[ConversationSummary, ...]:
    table = lake.table(CONVERSATIONS.name)
    if table is None:
        return ()
    order = [("started_at", DESCENDING), ("first_id", DESCENDING)]
    # Skip conversations whose messages were all deleted: the store does not list them either.
    found = table.newest_by_day(pc.field("messages") > 0, order, limit, table.files)
    return tuple(map(_listed, plain_rows(found)))


def summaries(lake: PinnedLake) -> tuple[TableSummary, ...]:
    tables = [lake.table(name) for name in _TABLES]
    return tuple(_summary(lake, table) for table in tables if table is not None)


def analytics(
    lake: PinnedLake, name: str, *, since: date | None, until: date | None, agent: AgentId | None, limit: int
) -> Analytics:
    declared = _TABLES.get(_LAYER + name.removeprefix(_LAYER))
    if declared is None:
        raise NotFound(
            f"There is no table {name!r} for analytics. Choose one of {', '.join(map(_short_name, _TABLES))}."
        )
    where = None if agent is None else _is_about(declared, agent)
    table = lake.table(declared.name)
    if table is None:
        raise NotFound(f"The lake has no {declared.name} yet. Run `tinyagi pipeline run`.")
    found = table.newest_by_day(where, _order(declared), limit, table.of_days(since, until))
    return Analytics(
        _summary(lake, table),
        tuple(map(_field, declared.all_columns)),
        tuple(plain_rows(_fit_for_json(found))),
    )


def _field(column: Column) -> Field:
    """As the rows have it: instants in milliseconds."""
    kind, unit = ("long", INSTANT) if column.type == TIMESTAMP else (column.type, column.unit)
    return Field(column.name, kind, unit, column.meaning)


def _entry(row: Row) -> HistoryEntry:
    # Texts of a forgotten person are null.
    return HistoryEntry(
        row["id"],
        AgentId(row["agent_id"]),
        Role(row["role"]),
        row["channel"],
        row["sender"] or "",
        MessageId(row["message_id"] or ""),
        row["content"] or "",
        row["created_at"],
        None if row["from_agent"] is None else AgentId(row["from_agent"]),
    )


def _line(row: Row) -> ChatMessage:
    return ChatMessage(
        row["id"], TeamId(row["team_id"]), row["from_agent"] or "", row["message"] or "", row["created_at"]
    )


def _is_internal() -> pc.Expression:
    """True for a line from a teammate or a room. Lakes of earlier versions have no `from_agent`."""
    is_handoff = pc.field("from_agent").is_valid() | pc.coalesce(
        pc.starts_with(pc.field("message_id"), pattern="internal_"), pc.scalar(False)
    )
    return is_handoff | (pc.field("channel") == ROOM_CHANNEL)


def _listed(row: Row) -> ConversationSummary:
    return ConversationSummary(
        id=row["conversation_id"],
        team=row["team"],
        channel=row["channel"] or "",
        sender=row["sender"] or "",
        agent=row["agent"] or "",
        message=row["message"] or "",
        open=row["open"] or 0,
        total=row["messages"] or 0,
        dead=row["dead"] or 0,
        hops=row["depth"] or 0,
        tokens=row["tokens"] or 0,
        cost=row["cost"] or 0.0,
        started_at=row["started_at"],
        updated_at=row["updated_at"] or row["started_at"],
    )


def _summary(lake: PinnedLake, table: PinnedTable) -> TableSummary:
    declared, manifest = table.table, lake.manifest
    return TableSummary(
        _short_name(declared.name), declared.meaning, table.rows, table.pin.through_id, manifest.written_at
    )


def _short_name(name: str) -> str:
    return name.removeprefix(_LAYER)


def _is_about(table: Table, agent: AgentId) -> pc.Expression:
    named = [column.name for column in table.columns if column.name in _AGENTS]
    if not named:
        raise InvalidInput(f"{table.name} has no agent column. Leave out `agent`.")
    return reduce(or_, [pc.field(column) == agent for column in named])


def _order(table: Table) -> Order:
    instant = _ORDERED_BY[table]
    first = [] if instant is None else [(instant, DESCENDING)]
    return [*first, *((column, ASCENDING) for column in table.key if column not in {instant, DATE})]


def _fit_for_json(found: pa.Table) -> pa.Table:
    """Days as text, and null for NaN and infinity: JSON has neither."""
    for place, column in enumerate(found.columns):
        name, kind = found.column_names[place], column.type
        if pa.types.is_date(kind):
            found = found.set_column(place, name, column.cast(pa.string()))
        elif pa.types.is_floating(kind):
            found = found.set_column(place, name, pc.if_else(pc.is_finite(column), column, None))
    return found
