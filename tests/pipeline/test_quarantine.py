"""Events that cannot be believed stop nothing: they are kept, listed with a reason, counted, and change no table."""

import asyncio
import datetime as dt
import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.contract.conftest import CODER
from tests.pipeline.bad_events import BACKWARD, FUTURE, PAST, REASONS, STRANGER, WHEN
from tests.pipeline.scenario import Home
from tests.pipeline.support import DAY_MS, MONDAY, rows_of, run
from tests.pipeline.worlds import Whole, whole
from tinyagi.pipeline.lake import Lake

# The lake of the first test that asks for it is made in its time.
pytestmark = pytest.mark.timeout(900)

DOUBTED = len(REASONS) + 1
"""And the end of the run whose clock went back."""


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return whole(spark, tmp_path_factory)


def test_each_is_listed_with_its_reason(home: Whole) -> None:
    listed = {row["id"]: row["reason"] for row in rows_of(home.lake, "quarantine.events")}

    reasons = {home.bad[label]: reason for label, reason in REASONS.items()}
    assert listed == reasons | {home.bad[BACKWARD]: "ended before it began"}


def test_bronze_has_them_all_as_they_were(home: Whole) -> None:
    stored = {row["id"]: row for row in rows_of(home.lake, "bronze.events")}

    assert {home.bad[label] for label in home.bad} <= stored.keys()
    assert stored[home.bad["unknown type"]]["type"] == "time_travelled"
    assert stored[home.bad["half a JSON"]]["payload"].endswith('"reas')
    assert stored[home.bad["nothing"]]["payload"] == ""


def test_they_are_counted(home: Whole) -> None:
    (told,) = rows_of(home.lake, "ops.runs")

    assert home.summary.quarantined == told["quarantined"] == DOUBTED
    assert json.loads(told["rows"])["quarantine.events"] == DOUBTED
    assert told["events"] == told["through_id"] == max(home.bad.values())


def test_none_of_them_changes_silver(home: Whole) -> None:
    """Compared row by row in test_silver; here what must not be there at all."""
    claims = {row["claim_id"] for row in rows_of(home.lake, "silver.runs")}
    lines = {row["id"] for row in rows_of(home.lake, "silver.agent_messages")}
    messages = {row["id"]: row for row in rows_of(home.lake, "silver.messages")}

    assert "odd" not in claims
    assert "backward" in claims
    assert not {9_901, 9_902} & lines
    assert [number for number in messages if number >= STRANGER] == [STRANGER + place for place in (1, 2, 3)]
    assert None not in messages


def test_no_duration_is_negative(home: Whole) -> None:
    messages = {row["id"]: row for row in rows_of(home.lake, "silver.messages")}
    runs = {row["claim_id"]: row for row in rows_of(home.lake, "silver.runs")}
    backward = messages[STRANGER + 3]

    assert runs["backward"]["outcome"] == "completed"
    assert runs["backward"]["ended_at"] < runs["backward"]["started_at"]
    assert runs["backward"]["run_ms"] is None
    assert (backward["status"], backward["run_ms"], backward["latency_ms"]) == ("completed", None, None)
    for row in (*messages.values(), *runs.values()):
        assert all((row.get(name) or 0) >= 0 for name in ("wait_ms", "run_ms", "latency_ms")), row


def test_days_are_bounded_however_wrong_a_clock_was(home: Whole) -> None:
    tomorrow = dt.datetime.now(dt.UTC).date() + dt.timedelta(days=1)
    stored = {row["id"]: row for row in rows_of(home.lake, "bronze.events")}
    past, future = stored[home.bad[PAST]], stored[home.bad[FUTURE]]

    assert (past["created_at"], future["created_at"]) == (WHEN[PAST], WHEN[FUTURE])
    assert past["date"] == dt.date(2020, 1, 1)
    assert tomorrow - dt.timedelta(days=1) <= future["date"] <= tomorrow
    for name in ("bronze.events", "silver.messages", "silver.runs", "silver.responses", "quarantine.events"):
        assert all(dt.date(2020, 1, 1) <= row["date"] <= tomorrow for row in rows_of(home.lake, name)), name


def test_the_next_run_goes_on_behind_a_wrong_clock(spark: SparkSession, home: Whole, tmp_path: Path) -> None:
    """The last event of this lake was recorded in the year 30000, and what comes next changes no message."""
    lake, database = Lake(tmp_path / "lake"), tmp_path / "tinyagi.db"
    shutil.copytree(home.lake.folder, lake.folder)
    shutil.copyfile(home.database, database)

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
