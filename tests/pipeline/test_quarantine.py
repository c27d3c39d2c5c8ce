"""Invalid events stop no run: they are kept, listed with a reason, counted, and change no table."""

import asyncio
import datetime as dt
import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.contract.conftest import CODER
from tests.pipeline.bad_events import BACKWARD, FIRST, FIRST_UNKNOWN, FUTURE, LAST, PAST, REASONS, WHEN
from tests.pipeline.scenario import Home
from tests.pipeline.support import DAY_MS, MONDAY, insert_events, rows_of, run
from tests.pipeline.worlds import Whole, whole
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.tables.model import FIRST_INSTANT, LAST_INSTANT

# The first test that needs the lake also makes it.
pytestmark = pytest.mark.timeout(900)

QUARANTINED = len(REASONS) + 1
"""Including the end of the run whose clock went back."""


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return whole(spark, tmp_path_factory)


def test_each_invalid_event_is_listed_with_its_reason(home: Whole) -> None:
    listed = {row["id"]: row["reason"] for row in rows_of(home.lake, "quarantine.events")}

    reasons = {home.bad[label]: reason for label, reason in REASONS.items()}
    assert listed == reasons | {home.bad[BACKWARD]: "ended before it began"}


def test_bronze_has_all_invalid_events_unchanged(home: Whole) -> None:
    stored = {row["id"]: row for row in rows_of(home.lake, "bronze.events")}

    assert {home.bad[label] for label in home.bad} <= stored.keys()
    assert stored[home.bad["unknown type"]]["type"] == "time_travelled"
    assert stored[home.bad["half a JSON"]]["payload"].endswith('"reas')
    assert stored[home.bad["nothing"]]["payload"] == ""


def test_invalid_events_are_counted(home: Whole) -> None:
    (ops_run,) = rows_of(home.lake, "ops.runs")

    assert home.summary.quarantined == ops_run["quarantined"] == QUARANTINED
    assert json.loads(ops_run["rows"])["quarantine.events"] == QUARANTINED
    assert ops_run["events"] == ops_run["through_id"] == max(home.bad.values())


def test_invalid_events_do_not_change_silver(home: Whole) -> None:
    """test_silver compares row by row; here are rows that must not exist."""
    claims = {row["claim_id"] for row in rows_of(home.lake, "silver.runs")}
    lines = {row["id"] for row in rows_of(home.lake, "silver.agent_messages")}
    messages = {row["id"]: row for row in rows_of(home.lake, "silver.messages")}

    assert "odd" not in claims
    assert "backward" in claims
    assert not {9_901, 9_902} & lines
    assert [number for number in messages if number >= FIRST_UNKNOWN] == [
        FIRST_UNKNOWN + place for place in range(1, 6)
    ]
    assert None not in messages


def test_no_duration_is_negative(home: Whole) -> None:
    messages = {row["id"]: row for row in rows_of(home.lake, "silver.messages")}
    runs = {row["claim_id"]: row for row in rows_of(home.lake, "silver.runs")}
    backward = messages[FIRST_UNKNOWN + 3]

    assert runs["backward"]["outcome"] == "completed"
    assert runs["backward"]["ended_at"] < runs["backward"]["started_at"]
    assert runs["backward"]["run_ms"] is None
    assert (backward["status"], backward["run_ms"], backward["latency_ms"]) == ("completed", None, None)
    for row in (*messages.values(), *runs.values()):
        assert all((row.get(name) or 0) >= 0 for name in ("wait_ms", "run_ms", "latency_ms")), row


def test_dates_are_bounded_for_wrong_clocks(home: Whole) -> None:
    tomorrow = dt.datetime.now(dt.UTC).date() + dt.timedelta(days=1)
    stored = {row["id"]: row for row in rows_of(home.lake, "bronze.events")}
    past, future = stored[home.bad[PAST]], stored[home.bad[FUTURE]]

    assert (past["created_at"], future["created_at"]) == (WHEN[PAST], WHEN[FUTURE])
    assert past["date"] == dt.date(2020, 1, 1)
    assert tomorrow - dt.timedelta(days=1) <= future["date"] <= tomorrow
    for name in ("bronze.events", "silver.messages", "silver.runs", "silver.responses", "quarantine.events"):
        assert all(dt.date(2020, 1, 1) <= row["date"] <= tomorrow for row in rows_of(home.lake, name)), name


def test_silver_has_times_of_the_years_1_to_9999(home: Whole) -> None:
    by_id = {row["id"]: row for row in rows_of(home.lake, "silver.messages")}

    places = {PAST: 1, FUTURE: 2, FIRST: 4, LAST: 5}
    found = {label: by_id[FIRST_UNKNOWN + place]["created_at"] for label, place in places.items()}
    assert found == {PAST: 5, FUTURE: LAST_INSTANT, FIRST: FIRST_INSTANT, LAST: LAST_INSTANT}


@pytest.mark.parametrize("at", [None, -(2**62), 2**62 - 1])
def test_the_next_run_continues_after_a_wrong_clock(
    at: int | None, spark: SparkSession, home: Whole, tmp_path: Path
) -> None:
    """The last event of this lake is from the year 30000 or any other, and the next one changes no message."""
    lake, database = Lake(tmp_path / "lake"), tmp_path / "tinyagi.db"
    shutil.copytree(home.lake.folder, lake.folder)
    shutil.copyfile(home.database, database)

    if at is not None:
        insert_events(database, [{"type": "lane_held", "agent": "coder", "payload": "{}", "created_at": at}])
        run(spark, lake, database)

    async def pause() -> int:
        async with await Home(database, MONDAY + 4 * DAY_MS).open() as store:
            await store.lanes.pause(CODER)
            return (await store.events.bounds()).head

    head = asyncio.run(pause())
    summary = run(spark, lake, database)

    manifest = lake.manifest()
    assert manifest is not None
    assert summary.events == 1
    assert {pin.through_id for name, pin in manifest.tables.items() if name != "ops.erasures"} == {head}
