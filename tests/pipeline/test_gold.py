"""Gold after a run, compared value by value with plain Python on the same log."""

from typing import Any, Final

import pytest
from pyspark.sql import Row as SparkRow
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.pipeline.support import raw_events, rows_of
from tests.pipeline.worlds import traffic, whole
from tests.support import gold
from tests.support.gold import expected_gold
from tinyagi.domain.events import RecordedEvent
from tinyagi.domain.instants import HOUR_MS, day_start
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.pipeline.tables.gold import HISTOGRAM_EDGES
from tinyagi.pipeline.tables.model import FIRST_INSTANT, LAST_INSTANT
from tinyagi.pipeline.transform.columns import arrival_day, day_of, histogram, hour_of, instant, percentile, total_cost
from tinyagi.pipeline.transform.gold import fingerprint

# The first test that needs the lakes also makes them.
pytestmark = pytest.mark.timeout(900)

ERRORS: Final = (
    ("exit code 7 after 12 s", "exit code 9 after 3 s"),
    ("cannot open '/home/ada/notes.txt'", "cannot open '/tmp/x'"),
    ("no such file /usr/lib/x/y.so", "no such file /opt/other/z.so"),
    ("https://example.org/x?y=1 answered 503", "http://other.test/ answered 500"),
    ("claim_ab12cd34 of 0123456789abcdef-0123 is lost", "claim_zz99xx88 of fedcba9876543210-ffff is lost"),
    ('Bad "key"  here', 'bad "other"\there'),
)


@pytest.fixture(scope="module", params=["traffic", "every kind of event"])
def lake_and_log(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Lake, list[RecordedEvent]]:
    if request.param == "traffic":
        office = traffic(spark, tmp_path_factory)
        return office.lake, raw_events(office.database)
    home = whole(spark, tmp_path_factory)
    return home.lake, home.valid_events()


def test_gold_matches_the_log(lake_and_log: tuple[Lake, list[RecordedEvent]]) -> None:
    lake, events = lake_and_log

    for name, expected in expected_gold(events).items():
        found, key = rows_of(lake, name), TABLES[name].key
        should = {tuple(row[column] for column in key): row for row in expected}
        assert [tuple(row[column] for column in key) for row in found] == list(should), name
        for row in found:
            _assert_alike(row, should[tuple(row[column] for column in key)], name)


def test_a_partition_has_the_rows_of_its_date(lake_and_log: tuple[Lake, list[RecordedEvent]]) -> None:
    lake, _ = lake_and_log

    for row in rows_of(lake, "gold.agent_hourly"):
        assert day_start(row["date"]) <= row["hour"] < day_start(row["date"]) + 24 * HOUR_MS
        assert sum(row["run_hist"]) <= row["runs"]


def test_the_two_histograms_have_the_same_edges() -> None:
    assert gold.EDGES == HISTOGRAM_EDGES


def test_measures_of_ten_rows(spark: SparkSession) -> None:
    waits = [0, 1, 2, 3, 10, 51, 100, 1_000, 99_999_999, None]
    costs = [0.1, 0.2, 0.3, 1e-9, None, 0.1234567895, 3.0, 0.7, 0.0, 1e-12]
    frame = spark.createDataFrame(list(zip(waits, costs, strict=True)), "wait_ms bigint, cost double")

    found: SparkRow = frame.agg(
        *(percentile("wait_ms", share) for share in (50, 95, 99)), histogram("wait_ms").alias("hist"), total_cost()
    ).collect()[0]

    assert [found[f"wait_p{share}"] for share in (50, 95, 99)] == pytest.approx(
        [gold.percentile(waits, share) for share in (50, 95, 99)]
    )
    assert found["wait_p50"] == 10
    assert found["hist"] == gold.histogram(waits)
    assert found["cost"] == gold.cost_of([{"cost": cost} for cost in costs]) == 4.423456791


def test_errors_of_one_shape_have_one_fingerprint(spark: SparkSession) -> None:
    lines = [(line,) for pair in ERRORS for line in pair]

    shapes = [
        row[0] for row in spark.createDataFrame(lines, "line string").select(fingerprint(F.col("line"))).collect()
    ]

    assert shapes[::2] == shapes[1::2]
    assert len(set(shapes)) == len(ERRORS)
    assert shapes == [gold.fingerprint(line) for (line,) in lines]


def test_dates_are_kept_within_bounds(spark: SparkSession) -> None:
    now = 1_772_409_600_000
    instants = [(value,) for value in (-(2**62), 0, now - 1, now, now + 2 * 24 * HOUR_MS, 2**62, None)]
    frame = spark.createDataFrame(instants, "ms bigint").withColumn("at", instant(F.col("ms")))

    rows = frame.select(
        day_of(F.col("at")), arrival_day(F.col("ms"), now), F.unix_millis(hour_of(F.col("at"))), F.unix_millis("at")
    ).collect()

    assert [str(row[0]) for row in rows] == [
        "2020-01-01", "2020-01-01", "2026-03-01", "2026-03-02", "2026-03-04", "2100-01-01", "None",
    ]  # fmt: skip
    assert [str(row[1]) for row in rows][2:6] == ["2026-03-01", "2026-03-02", "2026-03-03", "2026-03-03"]
    assert [row[2] for row in rows][1:4] == [0, now - HOUR_MS, now]
    assert [row[3] for row in rows] == [FIRST_INSTANT, *(value for (value,) in instants[1:5]), LAST_INSTANT, None]


def _assert_alike(found: dict[str, Any], expected: dict[str, Any], name: str) -> None:
    for column, value in expected.items():
        close = pytest.approx(value, rel=1e-12) if isinstance(value, float) else value
        assert found[column] == close, f"{name} {column} of {found}"
