"""Figures over HTTP: the lake's gold tables."""

import asyncio
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from tests.server.conftest import Premises
from tests.support.lakes import write_lake
from tinyagi import api_wiring
from tinyagi.client.client import AsyncClient

FIRST = date(2026, 3, 1)


def instant(day: int, hour: int = 0) -> int:
    return int(datetime(2026, 3, 1 + day, hour, tzinfo=UTC).timestamp() * 1000)


def hourly(day: int, hour: int, agent: str) -> dict[str, Any]:
    return {
        "agent": agent,
        "hour": instant(day, hour),
        "runs": 3,
        "run_p50": 1.5,
        "run_hist": [0, 3],
        "date": FIRST + timedelta(days=day),
    }


@pytest.fixture
def lake(premises: Premises) -> Premises:
    rows = [hourly(day, hour, agent) for day in range(3) for hour in (8, 9) for agent in ("coder", "writer")]
    write_lake(premises.home.lake, {"gold.agent_hourly": rows, "gold.channel_daily": []}, through_id=42)
    return premises


async def hours(premises: Premises, **query: str | int) -> list[int]:
    answer = await premises.http.get("/api/analytics/agent_hourly", params={"agent": "coder", **query})
    assert answer.status_code == 200, answer.text
    return [row["hour"] for row in answer.json()["rows"]]


async def test_a_table_comes_with_its_columns_and_its_freshness(lake: Premises) -> None:
    answer = (await lake.http.get("/api/analytics/agent_hourly", params={"limit": 1})).json()

    assert (answer["table"], answer["throughId"], answer["writtenAt"]) == ("agent_hourly", 42, 0)
    (row,) = answer["rows"]
    assert list(row) == [column["name"] for column in answer["columns"]]
    assert (row["agent"], row["hour"], row["run_p50"], row["run_hist"]) == ("coder", instant(2, 9), 1.5, [0, 3])
    assert (row["date"], row["cost"]) == ("2026-03-03", None)
    assert answer["columns"][1] == {
        "name": "hour",
        "type": "long",
        "unit": "ms since 1970 UTC",
        "meaning": "The start of the hour in which the runs ended.",
    }
    assert (await lake.http.get("/api/analytics/gold.agent_hourly", params={"limit": 1})).json() == answer


async def test_days_are_chosen_by_date_or_by_instant(lake: Premises) -> None:
    every = [instant(day, hour) for day in (2, 1, 0) for hour in (9, 8)]

    assert await hours(lake) == every
    assert await hours(lake, since="2026-03-02") == every[:4]
    assert await hours(lake, until=instant(1, 23)) == every[2:]
    assert await hours(lake, since=instant(1, 12), until="2026-03-02", limit=1) == every[2:3]
    assert await hours(lake, since="2030-01-01") == []


async def test_tables_are_listed_with_rows_and_freshness(lake: Premises) -> None:
    assert (await lake.http.get("/api/analytics")).json() == [
        {
            "table": "agent_hourly",
            "meaning": "One agent in one hour: its runs, their times and their cost.",
            "rows": 12,
            "throughId": 42,
            "writtenAt": 0,
        },
        {
            "table": "channel_daily",
            "meaning": "One channel on one day: messages, people and responses.",
            "rows": 0,
            "throughId": 42,
            "writtenAt": 0,
        },
    ]


async def test_a_missing_lake_is_answered_with_the_command_to_run(premises: Premises) -> None:
    assert (await premises.http.get("/api/analytics")).json() == []
    answer = await premises.http.get("/api/analytics/agent_hourly")

    assert answer.status_code == 404
    assert "tinyagi pipeline run" in answer.json()["error"]


async def test_missing_pipeline_packages_are_answered_with_the_install_command(
    closed_premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_wiring, "find_spec", lambda _: None)
    async with closed_premises.serve() as premises:
        write_lake(premises.home.lake, {"gold.alerts": []})
        answer = await premises.http.get("/api/analytics/alerts")

        assert answer.status_code == 404
        assert "tinyagi[pipeline]" in answer.json()["error"]
        assert (await premises.http.get("/api/agent-messages")).json() == []


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("memory_chunks", 404, "Choose one of agent_hourly,"),
        ("silver.runs", 404, "Choose one of agent_hourly,"),
        ("gold.alerts", 404, "tinyagi pipeline run"),
        ("channel_daily?agent=coder", 400, "has no agent column"),
        ("agent_hourly?limit=10001", 400, "limit"),
        ("agent_hourly?since=yesterday", 400, "since"),
        ("agent_hourly?until=253402300800000", 400, "until"),
        ("agent_hourly?agent=A", 400, "agent"),
        ("Agents", 400, "table"),
    ],
)
async def test_an_invalid_query_is_refused_with_a_reason(lake: Premises, path: str, status: int, words: str) -> None:
    answer = await lake.http.get(f"/api/analytics/{path}")

    assert answer.status_code == status
    assert words in answer.json()["error"]


async def test_the_python_client_reads_the_tables(lake: Premises) -> None:
    async with AsyncClient(str(lake.http.base_url)) as client:
        (first, _) = await client.analytics.tables()
        read = await client.analytics.rows(first.table, since="2026-03-03", agent="writer", limit=5)

    assert (read.through_id, [row["hour"] for row in read.rows]) == (42, [instant(2, 9), instant(2, 8)])
    assert read.columns[0].name == "agent"


async def test_only_files_of_the_wanted_days_are_opened_and_the_table_version_is_cached(
    premises: Premises,
) -> None:
    write_lake(premises.home.lake, {"gold.agent_hourly": [hourly(day, 8, "coder") for day in range(28)]})
    folder = premises.home.lake / "gold" / "agent_hourly"
    for day in range(24):
        shutil.rmtree(folder / f"date={FIRST + timedelta(days=day)}")

    first = await hours(premises, since="2026-03-25")
    shutil.rmtree(folder / "_delta_log")

    assert first == await hours(premises, since="2026-03-25") == [instant(day, 8) for day in (27, 26, 25, 24)]


async def test_the_lake_is_read_while_every_asyncio_thread_is_busy(lake: Premises) -> None:
    """Child processes that end slowly can occupy all of those threads."""
    busy, free = ThreadPoolExecutor(1), threading.Event()
    asyncio.get_running_loop().set_default_executor(busy)
    blocked = busy.submit(free.wait)
    try:
        async with asyncio.timeout(20):
            answer = await lake.http.get("/api/analytics/agent_hourly", params={"limit": 1})
        assert answer.status_code == 200
        async with asyncio.timeout(20):
            recalled = await lake.http.get("/api/recall", params={"agent": "coder", "q": "invoice"})
        assert "the lake holds no histories yet" in recalled.text
        assert not blocked.done()
    finally:
        free.set()
