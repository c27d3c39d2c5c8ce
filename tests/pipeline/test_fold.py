"""Folding: each rule on a few rows, and any split of a log into slices gives the same tables."""

import datetime as dt
import random
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.pipeline.support import assert_same, contents, hurried, log_of, raw_events, rows_of
from tests.pipeline.tables import DAY
from tests.pipeline.worlds import Whole, whole
from tinyagi.pipeline.ingest.bronze import BRONZE
from tinyagi.pipeline.ingest.log_source import LogSource
from tinyagi.pipeline.instants import in_millis
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.progress import Progress
from tinyagi.pipeline.run import Pipeline
from tinyagi.pipeline.spark.lake_session import FEW_ROWS, LakeSession
from tinyagi.pipeline.tables.catalog import find_table
from tinyagi.pipeline.tables.model import LAST_EVENT_ID, Column, Kept, Merge, Table
from tinyagi.pipeline.transform.columns import spark_schema
from tinyagi.pipeline.transform.fold import fold
from tinyagi.pipeline.transform.parsed_events import parsed_events, valid_events
from tinyagi.pipeline.transform.silver import run_updates, with_run_outcome

# The first test that needs the lake also makes it.
pytestmark = pytest.mark.timeout(900)

CUTS: Final = (None, BRONZE, "silver.messages", "silver.runs", "silver.handoffs", "gold.agent_hourly")
ARRIVED: Final = DAY + dt.timedelta(days=1)
THINGS: Final = Table(
    name="silver.things",
    meaning="A thing with a column for every rule.",
    key=("id",),
    kept=Kept.FOLDED,
    date="the first event",
    columns=(
        Column("id", "long", "Its name.", merge=Merge.FIRST),
        Column("first", "string", "Said once.", merge=Merge.FIRST),
        Column("last", "string", "Said again and again.", merge=Merge.LAST),
        Column("number", "long", "Said again and again.", merge=Merge.LAST),
        Column("total", "long", "Added.", merge=Merge.SUM),
        Column("most", "int", "The highest.", merge=Merge.MAX),
        Column("all", "array<string>", "Everything.", merge=Merge.GATHER),
        Column("derived", "long", "Worked out elsewhere."),
        LAST_EVENT_ID,
    ),
)
UPDATES: Final[tuple[tuple[int, dict[str, Any]], ...]] = (
    (1, {"first": "a", "last": "a", "number": 5, "total": 1, "most": 3, "all": ["x", "y"]}),
    (1, {}),
    (2, {"last": "only", "most": -1}),
    (1, {"first": "b", "last": "b", "number": 0, "total": 10, "most": 2, "all": ["z"]}),
    (1, {"last": None, "number": None, "total": None, "most": None, "all": None}),
    (3, {"last": "taken back", "all": []}),
    (1, {"total": 100, "most": 7}),
    (3, {"last": ""}),
    (2, {"first": "late"}),
    (1, {"first": "c", "all": ["x"]}),
)
"""The values that ten events set, in order, each for one thing."""
FOLDED: Final[dict[int, dict[str, Any]]] = {
    1: {"first": "a", "last": "b", "number": 0, "total": 111, "most": 7, "all": ["x", "y", "z", "x"]},
    2: {"first": "late", "last": "only", "number": None, "total": None, "most": -1, "all": []},
    3: {"first": None, "last": None, "number": None, "total": None, "most": None, "all": []},
}


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return whole(spark, tmp_path_factory)


@pytest.mark.parametrize("cuts", [(), (1,), (4, 7), (2, 3, 5, 8)], ids=str)
def test_ten_events_fold_into_three_rows_for_any_split(spark: SparkSession, cuts: tuple[int, ...]) -> None:
    schema = spark_schema(THINGS)
    updates = [
        {"id": thing, **said, "last_event_id": event, "date": DAY}
        for event, (thing, said) in enumerate(UPDATES, start=1)
    ]
    rows = _frame(spark, [])
    with hurried(spark):
        for start, end in zip((0, *cuts), (*cuts, len(updates)), strict=True):
            folded = _folded(rows, _updates(spark, updates[start:end]), THINGS).withColumn("derived", F.lit(None))
            rows = spark.createDataFrame([row.asDict() for row in folded.collect()], schema)
        found = {row["id"]: row.asDict() for row in rows.collect()}

    assert {number: {name: found[number][name] for name in said} for number, said in FOLDED.items()} == FOLDED
    assert {number: row["last_event_id"] for number, row in found.items()} == {1: 10, 2: 9, 3: 8}
    assert {row["date"] for row in found.values()} == {DAY}


def test_a_row_without_a_start_gets_the_date_of_its_first_event(spark: SparkSession) -> None:
    updates = _updates(spark, [{"id": 1, "last": "x", "last_event_id": 4}, {"id": 1, "last_event_id": 5}])

    (row,) = _folded(_frame(spark, []), updates, THINGS).collect()

    assert row["date"] == ARRIVED


def test_updates_without_a_key_are_dropped(spark: SparkSession) -> None:
    updates = _updates(spark, [{"last": "odd", "last_event_id": 1}, {"id": 1, "last": "x", "last_event_id": 2}])

    (row,) = _folded(_frame(spark, []), updates, THINGS).collect()

    assert (row["id"], row["last"]) == (1, "x")


def test_a_run_that_ends_in_a_later_slice_is_the_same(spark: SparkSession, home: Whole) -> None:
    session = LakeSession(spark, home.lake, Progress(), is_pinned=True)
    runs = find_table("silver.runs")
    schema = spark_schema(runs)
    with hurried(spark):
        read = valid_events(parsed_events(session.read(session.open(BRONZE))))
        begins = F.col("type") == "chain_step_start"
        begun = with_run_outcome(_folded(_nothing(spark, runs), run_updates(read.where(begins)), runs))
        stored = spark.createDataFrame(begun.select(*schema.names).toArrow(), schema)
        ended = with_run_outcome(_folded(stored, run_updates(read.where(~begins)), runs)).select(*schema.names)
        found = sorted(in_millis(ended.toArrow()).to_pylist(), key=lambda row: str(row["claim_id"]))

    assert found == rows_of(home.lake, "silver.runs")
    assert {row["outcome"] for row in stored.collect()} == {"running"}


def test_a_split_of_the_log_gives_the_same_tables(spark: SparkSession, home: Whole) -> None:
    _assert_split_makes_no_difference(spark, home, sorted(random.uniform(0.02, 0.98) for _ in range(2)))


@pytest.mark.soak
@settings(
    max_examples=10,
    deadline=None,
    # Each example makes a lake, so a failure is reported without shrinking.
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(shares=st.lists(st.floats(0.02, 0.98), min_size=1, max_size=4, unique=True))
def test_any_split_of_the_log_gives_the_same_tables(spark: SparkSession, home: Whole, shares: list[float]) -> None:
    _assert_split_makes_no_difference(spark, home, sorted(shares))


def _assert_split_makes_no_difference(spark: SparkSession, home: Whole, shares: list[float]) -> None:
    """Each part is done by the driver or in tasks, and some are cut off between two commits."""
    head = raw_events(home.database)[-1].id
    with tempfile.TemporaryDirectory() as folder, hurried(spark):
        lake = Lake(Path(folder))
        for upto in (*(int(head * share) for share in shares), head):
            log = Shorter(log_of(home.database).options, upto)
            with suppress(Cut):
                _pipeline(spark, lake, log, CutOff(random.choice(CUTS))).run()
            _pipeline(spark, lake, log, Progress()).run()
        found, expected = contents(lake), contents(home.lake)

    assert_same(found, expected)


def _pipeline(spark: SparkSession, lake: Lake, log: LogSource, progress: Progress) -> Pipeline:
    return Pipeline(LakeSession(spark, lake, progress, few_rows=random.choice((0, FEW_ROWS))), log)


@dataclass(frozen=True, slots=True)
class Shorter(LogSource):
    """The log as it was at an earlier event."""

    last: int

    def head(self) -> int:
        return min(self.last, LogSource.head(self))


class Cut(Exception):
    """The end of a run, as by a kill."""


class CutOff(Progress):
    """Ends the run when this table is committed, so that the watermarks of the tables differ."""

    def __init__(self, table: str | None) -> None:
        self._table = table

    def committed(self, table: str, rows: int) -> None:
        if table == self._table:
            raise Cut


def _folded(stored: DataFrame, updates: DataFrame, table: Table) -> DataFrame:
    rows = fold(stored, updates, table)
    assert isinstance(rows, DataFrame)
    return rows


def _nothing(spark: SparkSession, table: Table) -> DataFrame:
    return spark.createDataFrame([], spark_schema(table))


def _updates(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    """Updates with the date of their event."""
    return _frame(spark, rows).withColumn("event_date", F.lit(ARRIVED))


def _frame(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    schema = spark_schema(THINGS)
    return spark.createDataFrame([{name: row.get(name) for name in schema.names} for row in rows], schema)
