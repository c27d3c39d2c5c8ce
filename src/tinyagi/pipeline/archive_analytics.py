"""Gold tables from the lake: for the analytics of the API, and the list of conversations."""

from collections.abc import Mapping
from datetime import date
from functools import reduce
from operator import or_
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tinyagi.domain.errors import InvalidInput, NotFound
from tinyagi.domain.ids import AgentId
from tinyagi.domain.traces import ConversationSummary
from tinyagi.pipeline.archive_tables import ASCENDING, DESCENDING, Order, PinnedTable, Row, Snapshot, plain_rows
from tinyagi.pipeline.tables.gold import (
    AGENT_HOURLY,
    ALERTS,
    CHANNEL_DAILY,
    CONVERSATIONS,
    DEAD_LETTERS,
    HANDOFF_EDGES,
)
from tinyagi.pipeline.tables.model import DATE, Table
from tinyagi.store.archive import Analytics, Field, TableSummary

_LAYER: Final = "gold."
_INSTANTS: Final[Mapping[Table, str | None]] = {
    AGENT_HOURLY: "hour",
    CONVERSATIONS: "started_at",
    HANDOFF_EDGES: None,
    CHANNEL_DAILY: None,
    DEAD_LETTERS: "last_at",
    ALERTS: "hour",
}
"""The tables that are shown, each with what orders its rows within a day."""
_SHOWN: Final = {table.name: table for table in _INSTANTS}
_AGENTS: Final = ("agent", "from_agent", "to_agent")


def summaries(snapshot: Snapshot) -> tuple[TableSummary, ...]:
    tables = [snapshot.table(name) for name in _SHOWN]
    return tuple(_summary(snapshot, table) for table in tables if table is not None)


def analytics(
    snapshot: Snapshot, name: str, *, since: date | None, until: date | None, agent: AgentId | None, limit: int
) -> Analytics:
    declared = _SHOWN.get(_LAYER + name.removeprefix(_LAYER))
    if declared is None:
        raise NotFound(f"There is no table {name!r} for analytics. There are {', '.join(map(_short, _SHOWN))}.")
    where = None if agent is None else _is_about(declared, agent)
    table = snapshot.table(declared.name)
    if table is None:
        raise NotFound(f"The lake has no {declared.name} yet. Run `tinyagi pipeline run`.")
    found = table.newest_by_day(where, _order(declared), limit, table.of_days(since, until))
    return Analytics(
        _summary(snapshot, table),
        tuple(Field(column.name, column.type, column.unit, column.meaning) for column in declared.all_columns),
        tuple(plain_rows(_fit_for_json(found))),
    )


def recent_conversations(snapshot: Snapshot, limit: int) -> tuple[ConversationSummary, ...]:
    table = snapshot.table(CONVERSATIONS.name)
    if table is None:
        return ()
    order = [("started_at", DESCENDING), ("first_id", DESCENDING)]
    # All its messages were deleted: for the store it is none any more.
    found = table.newest_by_day(pc.field("messages") > 0, order, limit, table.files)
    return tuple(map(_listed, plain_rows(found)))


def _short(name: str) -> str:
    return name.removeprefix(_LAYER)


def _summary(snapshot: Snapshot, table: PinnedTable) -> TableSummary:
    declared, manifest = table.table, snapshot.manifest
    return TableSummary(_short(declared.name), declared.meaning, table.rows, table.pin.through_id, manifest.written_at)


def _is_about(table: Table, agent: AgentId) -> pc.Expression:
    named = [column.name for column in table.columns if column.name in _AGENTS]
    if not named:
        raise InvalidInput(f"{table.name} does not tell agents apart. Leave out `agent`.")
    return reduce(or_, [pc.field(column) == agent for column in named])


def _order(table: Table) -> Order:
    instant = _INSTANTS[table]
    first = [] if instant is None else [(instant, DESCENDING)]
    return [*first, *((column, ASCENDING) for column in table.key if column not in {instant, DATE})]


def _fit_for_json(found: pa.Table) -> pa.Table:
    """With days as text, and null for what is no number: JSON has no word for these."""
    for place, column in enumerate(found.columns):
        name, kind = found.column_names[place], column.type
        if pa.types.is_date(kind):
            found = found.set_column(place, name, column.cast(pa.string()))
        elif pa.types.is_floating(kind):
            found = found.set_column(place, name, pc.if_else(pc.is_finite(column), column, None))
    return found


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
