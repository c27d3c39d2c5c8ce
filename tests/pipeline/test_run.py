"""Runs of the pipeline: each event once, also with repeats, deletions and concurrent writers."""

import asyncio
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import apsw
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from tests.contract.conftest import CODER
from tests.pipeline.support import (
    append_history,
    assert_same,
    assert_swept,
    contents,
    disagreeing,
    hurried,
    log_of,
    raw_events,
    rows_of,
    run,
    write_history,
)
from tests.pipeline.worlds import Traffic, traffic
from tinyagi.domain.messages import NewMessage
from tinyagi.domain.runs import Outcome
from tinyagi.pipeline.delta.snapshot import Snapshot, open_snapshot
from tinyagi.pipeline.errors import LakeBroken, LakeChanged, PipelineError
from tinyagi.pipeline.ingest.bronze import BRONZE, BronzeIngest
from tinyagi.pipeline.ingest.log_source import LogSource
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.progress import Progress
from tinyagi.pipeline.run import Pipeline
from tinyagi.pipeline.spark.lake_session import ATTEMPTS, LakeSession
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.store.store import Store

# Spark starts slowly, and the first test that needs the lakes also makes them.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def office(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Traffic:
    return traffic(spark, tmp_path_factory)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture
def database(tmp_path: Path, office: Traffic) -> Path:
    """A copy of the early database."""
    return Path(shutil.copyfile(office.early_database, tmp_path / "tinyagi.db"))


class Meddler(Progress):
    """Runs an action once at a given step of a table; counts the plans per table."""

    def __init__(self, actions: dict[tuple[str, str], Callable[[], object]]) -> None:
        self.actions = actions
        self.plans: Counter[str] = Counter()

    def planned(self, table: str) -> None:
        self.plans[table] += 1
        self._do("planned", table)

    def written(self, table: str) -> None:
        self._do("written", table)

    def _do(self, point: str, table: str) -> None:
        self.actions.pop((point, table), lambda: None)()


class Forgetful(LakeSession):
    """Reports bronze as empty at first, like a position that is older than the lake."""

    def open(self, name: str) -> Snapshot:
        snapshot = LakeSession.open(self, name)
        if name != BRONZE or (mark := self.lake.folder / "forgot").exists():
            return snapshot
        mark.touch()
        return replace(snapshot, through_id=0)


def test_ingest_continues_at_the_end_of_bronze(spark: SparkSession, lake: Lake, database: Path) -> None:
    session = LakeSession(spark, lake, Progress())

    def take() -> int:
        return BronzeIngest(session, log_of(database), batch_events=120).run()

    with hurried(spark):
        first = take()
        append_history(database, 100)
        second, third = take(), take()
        repeated = BronzeIngest(Forgetful(spark, lake, Progress()), log_of(database), batch_events=120).run()

    events = [event.id for event in raw_events(database)]
    assert (first, third, repeated) == (events[-1] - second, 0, 0)
    assert second > 0
    stored = session.read(session.open(BRONZE)).select("id").toArrow().column("id").to_pylist()
    assert sorted(stored) == events
    assert session.open(BRONZE).through_id == events[-1]


def test_a_batch_that_differs_from_the_log_is_refused(spark: SparkSession, lake: Lake, database: Path) -> None:
    @dataclass(frozen=True, slots=True)
    class Longer(LogSource):
        def tally(self, after: int, through: int) -> tuple[int, int]:
            count, total = LogSource.tally(self, after, through)
            return count + 1, total

    session = LakeSession(spark, lake, Progress())
    with hurried(spark), pytest.raises(LakeBroken, match=r"The log has \d+ events after 0 .* Nothing was written"):
        BronzeIngest(session, Longer(log_of(database).options), batch_events=1_000).run()

    assert session.open(BRONZE).files == ()
    assert_swept(lake)


def test_a_database_older_than_its_lake_is_refused(
    spark: SparkSession, lake: Lake, database: Path, tmp_path: Path
) -> None:
    backup = Path(shutil.copyfile(database, tmp_path / "backup.db"))
    append_history(database, 100, seed=1)
    session = LakeSession(spark, lake, Progress())

    def take(path: Path) -> int:
        return BronzeIngest(session, log_of(path), batch_events=1_000).run()

    with hurried(spark):
        taken = take(database)
        before = session.open(BRONZE)
        for _ in range(2):
            refused = f"The lake's last event, {before.through_id}, is missing or different"
            with pytest.raises(PipelineError, match=refused):
                take(backup)
            # Now its log is longer than the lake, and the ids do not show that its events differ.
            append_history(backup, 300, seed=2)
            assert log_of(backup).head() > before.through_id
        assert session.open(BRONZE) == before
        append_history(database, 100, seed=3)
        assert 0 < take(database) < taken


def test_a_pruned_event_counts_as_matching(database: Path) -> None:
    log, last = log_of(database), raw_events(database)[-1]
    assert log.has(last.id, last.type, last.created_at)
    assert not log.has(last.id, last.type, last.created_at + 1)
    assert not log.has(last.id, "another", last.created_at)
    assert not log.has(last.id + 1, last.type, last.created_at)

    with closing(apsw.Connection(str(database))) as connection:
        connection.execute("DELETE FROM events WHERE id = ?", (last.id,))

    assert log.has(last.id, "another", last.created_at)


def test_concurrent_rewrites_between_plan_and_commit_double_no_rows(
    spark: SparkSession, lake: Lake, office: Traffic
) -> None:
    shutil.copytree(office.early_lake.folder, lake.folder)
    meddler = Meddler(
        {
            ("planned", BRONZE): lambda: _compact(lake, BRONZE),
            ("written", "silver.messages"): lambda: _rewrite(lake, "silver.messages"),
            ("written", "silver.runs"): lambda: _rewrite(lake, "silver.runs"),
            ("planned", "silver.responses"): lambda: _rewrite(lake, "silver.responses"),
            ("written", "silver.agent_messages"): lambda: _append_nothing(lake, "silver.agent_messages"),
            ("written", "gold.conversations"): lambda: _rewrite(lake, "gold.conversations"),
        }
    )
    tables, cached = {table for _, table in meddler.actions}, _cached(spark)

    run(spark, lake, office.database, meddler, slice_events=150)

    assert meddler.actions == {}
    silver = {name: meddler.plans[name] for name in tables if name.startswith("silver.")}
    assert set(silver.values()) == {meddler.plans["silver.chat_messages"] + 1}, "each was planned once more"
    assert meddler.plans[BRONZE] == meddler.plans["gold.conversations"] == 2
    assert meddler.plans["silver.chat_messages"] >= 2, "in slices"
    assert_same(contents(lake), contents(office.lake))
    assert_swept(lake)
    assert _cached(spark) == cached, "a process that follows the log for weeks would fill up"


def test_repeated_concurrent_writes_are_reported(spark: SparkSession, lake: Lake, database: Path) -> None:
    class Busybody(Progress):
        def written(self, table: str) -> None:
            _append_nothing(lake, table)

    session = LakeSession(spark, lake, Busybody())
    with hurried(spark), pytest.raises(LakeChanged, match=r"bronze\.events was changed by another writer"):
        BronzeIngest(session, log_of(database), batch_events=1_000).run()

    assert open_snapshot(lake, BRONZE).version == ATTEMPTS
    assert open_snapshot(lake, BRONZE).files == ()
    assert_swept(lake)


def test_a_backfill_makes_the_same_tables_again(spark: SparkSession, lake: Lake, office: Traffic) -> None:
    shutil.copytree(office.lake.folder, lake.folder)
    before = contents(lake)
    session = LakeSession(spark, lake, Progress())

    with hurried(spark):
        summary = Pipeline(session, log_of(office.database)).backfill()

    assert_same(contents(lake), before)
    assert summary.rows["silver.messages"] == len(before["silver.messages"])
    assert summary.events == 0
    assert [row["kind"] for row in sorted(rows_of(lake, "ops.runs"), key=_ended_at)] == ["run", "backfill"]
    assert_swept(lake)


def test_a_run_without_new_events_changes_nothing(spark: SparkSession, lake: Lake, office: Traffic) -> None:
    shutil.copytree(office.lake.folder, lake.folder)
    before = {name: DeltaTable(lake.path(name)).version() for name in TABLES}
    manifest = lake.manifest_file.read_bytes()

    summary = run(spark, lake, office.database)

    assert (summary.events, summary.rows) == (0, {})
    assert {name: DeltaTable(lake.path(name)).version() for name in TABLES} == before
    assert lake.manifest_file.read_bytes() == manifest


@pytest.mark.parametrize("events", [1_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_events_written_during_a_run_are_not_lost(spark: SparkSession, lake: Lake, tmp_path: Path, events: int) -> None:
    database = tmp_path / "tinyagi.db"
    write_history(database, events, days=3)
    preloaded = raw_events(database)[-1].id

    with _busy_queue(database) as busy:
        first = run(spark, lake, database, busy, batch_events=events // 4)
    head = raw_events(database)[-1].id
    second = run(spark, lake, database)

    assert preloaded < first.through_id < head == second.through_id
    assert first.events + second.events == len(raw_events(database))
    stored = [row["id"] for row in rows_of(lake, BRONZE)]
    assert stored == [event.id for event in raw_events(database)]
    assert disagreeing(spark, lake, database) == []
    assert_swept(lake)


class Busy(Progress):
    """Lets the queue process more messages at every step of the run."""

    def __init__(self) -> None:
        self.nudges = threading.Semaphore(1)

    def planned(self, table: str) -> None:
        self.nudges.release()

    def written(self, table: str) -> None:
        self.nudges.release()

    def committed(self, table: str, rows: int) -> None:
        self.nudges.release()


@contextmanager
def _busy_queue(database: Path) -> Iterator[Busy]:
    """A queue that works in a thread during the block; it has started when the block starts."""
    busy, began, enough = Busy(), threading.Event(), threading.Event()

    async def work() -> None:
        async with await Store.open(database) as store:
            while not enough.is_set():
                await asyncio.to_thread(busy.nudges.acquire)
                await store.queue.enqueue_many([NewMessage(f"while it runs {number}", CODER) for number in range(5)])
                while claim := await store.queue.claim(CODER):
                    await store.queue.complete(claim, Outcome("done"))
                began.set()

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    try:
        assert began.wait(60)
        yield busy
    finally:
        enough.set()
        busy.nudges.release()
        thread.join()


def _compact(lake: Lake, name: str) -> None:
    removed = DeltaTable(lake.path(name)).optimize.compact()["numFilesRemoved"]
    assert removed > 1, "there was nothing to compact"


def _rewrite(lake: Lake, name: str) -> None:
    """The same rows in other files."""
    handle = DeltaTable(lake.path(name))
    before = set(handle.file_uris())
    write_deltalake(handle, handle.to_pyarrow_table(), mode="overwrite")
    assert not before & set(handle.file_uris())


def _append_nothing(lake: Lake, name: str) -> None:
    handle = DeltaTable(lake.path(name))
    handle.alter.set_table_properties({"delta.appendOnly": "false"})


def _cached(spark: SparkSession) -> int:
    """The number of cached frames."""
    return int(spark.sparkContext._jsc.getPersistentRDDs().size())


def _ended_at(row: dict[str, int]) -> int:
    return row["ended_at"]
