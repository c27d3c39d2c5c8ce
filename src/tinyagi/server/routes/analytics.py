"""Figures from the lake: its gold tables, read without Spark."""

from datetime import UTC, date, datetime
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Path, Query, Response

from tinyagi.api.analytics import AnalyticsRows, AnalyticsTable
from tinyagi.api.base import ID
from tinyagi.domain.ids import AgentId
from tinyagi.server.errors import responses
from tinyagi.server.services import Use

router = APIRouter(tags=["analytics"])

MOST: Final = 10_000
_LAST_INSTANT: Final = 253_402_300_799_999
"""The last millisecond that has a day."""

TableName = Annotated[
    str, Path(pattern=r"^[a-z][a-z_.]{0,63}$", description="As /api/analytics lists it, with or without `gold.`.")
]
Day = Annotated[int, Query(ge=0, le=_LAST_INSTANT)] | date
"""A day in UTC, by its date or by any of its instants in ms."""
Agent = Annotated[str | None, Query(pattern=ID, description="Rows about this agent only.")]
Limit = Annotated[int, Query(ge=1, le=MOST, description="How many at most.")]


@router.get("/api/analytics", response_model=list[AnalyticsTable])
async def list_analytics(services: Use) -> list[AnalyticsTable]:
    """List the tables of figures that the pipeline has made, with their rows and how fresh they are."""
    return [
        AnalyticsTable(
            table=one.name, meaning=one.meaning, rows=one.rows, through_id=one.through_id, written_at=one.written_at
        )
        for one in await services.archive.tables()
    ]


@router.get("/api/analytics/{table}", response_model=AnalyticsRows, responses=responses(404))
async def read_analytics(
    services: Use,
    table: TableName,
    since: Annotated[Day | None, Query(description="The first day: a date, or an instant in ms.")] = None,
    until: Annotated[Day | None, Query(description="The last day, which is included.")] = None,
    agent: Agent = None,
    limit: Limit = 1_000,
) -> Response:
    """Read a table of figures, newest first: days from `since` to `until`, of one agent or of all."""
    found = await services.archive.analytics(
        table,
        since=_day(since),
        until=_day(until),
        agent=None if agent is None else AgentId(agent),
        limit=limit,
    )
    told = {
        "table": found.table.name,
        "throughId": found.table.through_id,
        "writtenAt": found.table.written_at,
        "columns": found.fields,
        "rows": found.rows,
    }
    # Thousands of rows that are plain values already: to check each of them again would take longer than to read them.
    return Response(msgspec.json.encode(told), media_type="application/json")


def _day(given: int | date | None) -> date | None:
    return datetime.fromtimestamp(given / 1000, UTC).date() if isinstance(given, int) else given
