"""What Spark is asked to do: no Python per row, no unexpected shuffle, and few jobs for few events."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.pipeline.support import append_history, hurried, log_of, run, write_history
from tests.pipeline.worlds import Traffic, traffic
from tinyagi.pipeline.gold_updates import FROM_GOLD, FROM_SILVER
from tinyagi.pipeline.ingest.bronze import BRONZE
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.progress import Progress
from tinyagi.pipeline.run import Pipeline
from tinyagi.pipeline.silver_updates import AFTER_SILVER, FROM_EVENTS, NewEvents
from tinyagi.pipeline.spark.lake_session import LakeSession
from tinyagi.pipeline.transform.parsed_events import parsed_events

# The first test that needs the lakes also makes them.
pytestmark = pytest.mark.timeout(900)

SHUFFLES: Final = {
    "silver.messages": 1,
    "silver.runs": 1,
    "silver.responses": 1,
    "silver.agent_messages": 0,
    "silver.chat_messages": 0,
    "silver.handoffs": 0,
    "quarantine.events": 0,
    "gold.agent_hourly": 1,
    "gold.conversations": 2,
    "gold.handoff_edges": 1,
    "gold.channel_daily": 3,
    "gold.dead_letters": 1,
    "gold.memory_chunks": 0,
    "gold.alerts": 3,
}
"""Of a table's rows, without the last one by day, which writes the files."""
MOST_JOBS: Final = 12


@pytest.fixture(scope="module")
def office(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Traffic:
    return traffic(spark, tmp_path_factory)


def test_no_table_runs_python_per_row_or_shuffles_more_than_expected(spark: SparkSession, office: Traffic) -> None:
    session = LakeSession(spark, office.lake, Progress(), is_pinned=True, few_rows=0)
    bronze = session.open(BRONZE)
    events = NewEvents(parsed_events(session.read_in_tasks(bronze)), bronze.through_id, are_few=False)
    with _setting(spark, "spark.sql.adaptive.enabled", "false"):
        plans = {one.table.name: _plan(one.recompute(session, events)) for one in (*FROM_EVENTS, *AFTER_SILVER)}
        plans |= {one.table.name: _plan(one.recompute(session)) for one in FROM_SILVER}
        plans |= {one.table.name: _plan(one.recompute(session)) for one in FROM_GOLD}

    assert {name: len(re.findall(r"\bExchange\b", plan)) for name, plan in plans.items()} == SHUFFLES
    assert [name for name, plan in plans.items() if "EvalPython" in plan or "CartesianProduct" in plan] == []


def test_a_run_over_few_events_has_few_jobs_and_one_over_none_has_none(spark: SparkSession, tmp_path: Path) -> None:
    lake, database = Lake(tmp_path / "lake"), tmp_path / "tinyagi.db"
    write_history(database, 300)
    run(spark, lake, database)
    append_history(database, 60)
    with _setting(spark, "spark.sql.adaptive.enabled", "false"):
        before = _jobs(spark)
        summary = run(spark, lake, database)
        after = _jobs(spark)
        run(spark, lake, database)

    assert summary.events > 0
    assert 0 < after - before <= MOST_JOBS
    assert _jobs(spark) == after


def test_jobs_are_named_by_table_and_step(spark: SparkSession, tmp_path: Path) -> None:
    database = tmp_path / "tinyagi.db"
    write_history(database, 100)
    found: list[str] = []

    class Named(LakeSession):
        @contextmanager
        def described(self, what: str) -> Iterator[None]:
            with LakeSession.described(self, what):
                found.append(spark.sparkContext.getLocalProperty("spark.job.description") or "")
                yield

    with hurried(spark):
        Pipeline(Named(spark, Lake(tmp_path / "lake"), Progress()), log_of(database)).run()

    assert found[0] == "bronze.events: new events"
    assert any(name.startswith("silver.messages, ") and name.endswith(": changes") for name in found)
    assert spark.sparkContext.getLocalProperty("spark.job.description") is None


def _plan(rows: DataFrame) -> str:
    return str(rows._jdf.queryExecution().executedPlan().toString())


def _jobs(spark: SparkSession) -> int:
    """The number of jobs that this session has started."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


@contextmanager
def _setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before or "")
