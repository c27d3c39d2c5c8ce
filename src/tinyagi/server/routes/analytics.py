"""Analytics over HTTP: the gold tables of the lake, read without Spark."""

from datetime import UTC, date, datetime
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Path, Query, Response

from tinyagi.api.analytics import AnalyticsRows, AnalyticsTable
from tinyagi.api.base import ID
from tinyagi.api.schedules import LATEST
from tinyagi.domain.ids import AgentId
from tinyagi.server.dependencies import ServicesDep
from tinyagi.server.errors import responses

router = APIRouter(tags=["analytics"])

MAX_ROWS: Final = 10_000

TableName = Annotated[
    str, Path(pattern=r"^[a-z][a-z_.]{0,63}$", description="A name from /api/analytics, with or without `gold.`.")
]
Day = Annotated[int, Query(ge=0, le=LATEST)] | date
"""A day in UTC: its date, or any instant of it in ms."""
AgentQuery = Annotated[str | None, Query(pattern=ID, description="Only rows about this agent.")]
LimitQuery = Annotated[int, Query(ge=1, le=MAX_ROWS, description="Maximum number of rows.")]


@router.get("/api/analytics", response_model=list[AnalyticsTable])
async def list_analytics(services: ServicesDep) -> list[AnalyticsTable]:
    """List the tables that the pipeline computed, with their row counts and freshness."""
    return [
        AnalyticsTable(
            table=one.name, meaning=one.meaning, rows=one.rows, through_id=one.through_id, written_at=one.written_at
        )
        for one in await services.archive.tables()
    ]


@router.get("/api/analytics/{table}", response_model=AnalyticsRows, responses=responses(404))
async def read_analytics(
    services: ServicesDep,
    table: TableName,
    since: Annotated[Day | None, Query(description="The first day: a date, or an instant in ms.")] = None,
    until: Annotated[Day | None, Query(description="The last day, inclusive.")] = None,
    agent: AgentQuery = None,
    limit: LimitQuery = 1_000,
) -> Response:
    """Read a table, newest rows first: days from `since` to `until`, of one agent or all."""
    found = await services.archive.analytics(
        table,
        since=_day(since),
        until=_day(until),
        agent=None if agent is None else AgentId(agent),
        limit=limit,
    )
    answer = {
        "table": found.table.name,
        "throughId": found.table.through_id,
        "writtenAt": found.table.written_at,
        "columns": found.fields,
        "rows": found.rows,
    }
    # Thousands of rows of plain values: validating them again would take longer than reading them.
    return Response(msgspec.json.encode(answer), media_type="application/json")


def _day(value: int | date | None) -> date | None:
    return datetime.fromtimestamp(value / 1000, UTC).date() if isinstance(value, int) else value
