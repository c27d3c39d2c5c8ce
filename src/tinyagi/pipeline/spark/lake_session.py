"""A Spark session on one lake: opens it for reading or writing, reads tables, and commits rows to them."""

import datetime as dt
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from tinyagi.pipeline.delta.commit import Change, Committed, commit, discard, repair_logs
from tinyagi.pipeline.delta.parquet_files import WRITTEN_DDL, FilesByDay, WrittenFile, bounded_columns, write_files
from tinyagi.pipeline.delta.snapshot import DataFile, Snapshot, open_pinned, open_snapshot
from tinyagi.pipeline.errors import LakeBroken, LakeChanged
from tinyagi.pipeline.instants import stored_schema
from tinyagi.pipeline.lake import Lake, writer_lock
from tinyagi.pipeline.progress import Progress
from tinyagi.pipeline.spark.session import SparkSetup, open_spark
from tinyagi.pipeline.tables.model import DATE, LAST_EVENT_ID
from tinyagi.pipeline.tables.schema import arrow_schema
from tinyagi.pipeline.transform.columns import instant, spark_schema
from tinyagi.pipeline.transform.rows import ArrowFunction, Rows, apply, as_frame, cast, collect

ATTEMPTS: Final = 3
_LAST_ID: Final = 2**63 - 1
FEW_ROWS: Final = 50_000
FEW_BYTES: Final = 64 * 1024 * 1024
"""Up to this size rows are handled here: a task with a Python process costs a second or more."""


@dataclass(frozen=True, slots=True)
class WritePlan:
    """One commit, planned on one snapshot."""

    rows: Rows | None
    """None when only the last event id changes."""
    through_id: int
    replaced: Sequence[DataFile] = ()
    dates: frozenset[dt.date] | None = None
    """The only days that rows may belong to; None allows any."""
    is_small: bool = False
    """True when the rows are few, so that they are collected and written here."""
    last_step: ArrowFunction | None = None
    """Makes the table's rows from `rows`."""
    sort_by_day: bool = True
    inspect: Callable[[Sequence[WrittenFile]], "Inspected | None"] | None = None
    """Checks the written files before the commit; when it returns None, nothing is committed."""


@dataclass(frozen=True, slots=True)
class Inspected:
    """What a check of the written files found."""

    through_id: int
    metadata: Mapping[str, object]
    """Stored in the commit."""


@dataclass(frozen=True, slots=True)
class LakeSession:
    """Reads and writes the tables of one lake with one Spark session."""

    spark: SparkSession
    lake: Lake
    progress: Progress
    is_pinned: bool = False
    """Read-only: sees every table as of the manifest."""
    few_rows: int = FEW_ROWS
    """0 does everything in tasks."""
    _without_news: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By table, a version and the last event that it includes although no commit says so."""
    _opened: dict[str, Snapshot] = field(default_factory=dict)
    """The newest version of each table, as far as known."""

    def open(self, name: str) -> Snapshot:
        if self.is_pinned:
            return open_pinned(self.lake, name)
        snapshot = self._opened.get(name)
        if snapshot is None or snapshot.has_successor():
            snapshot = self._opened[name] = open_snapshot(self.lake, name)
        version, through_id = self._without_news.get(name, (-1, 0))
        return snapshot if version != snapshot.version else snapshot.reached(through_id)

    def are_few(self, *files: Sequence[DataFile]) -> bool:
        """True when all rows of these files can be handled here, by the statistics of the log."""
        rows = sum(file.statistics.rows for group in files for file in group)
        return rows < self.few_rows and sum(file.size for group in files for file in group) < FEW_BYTES

    def read(self, snapshot: Snapshot, files: Sequence[DataFile] | None = None) -> DataFrame:
        """The rows of these files, or of all."""
        chosen = snapshot.files if files is None else files
        if chosen and not self.is_pinned and self.are_few(chosen):
            return as_frame(self.spark, snapshot.dataset(chosen).to_table())
        return read_files(self.spark, snapshot, chosen)

    def read_in_tasks(self, snapshot: Snapshot, files: Sequence[DataFile] | None = None) -> DataFrame:
        return read_files(self.spark, snapshot, files)

    def read_range(self, snapshot: Snapshot, after: int, through: int, column: str = "id") -> DataFrame:
        """The rows with a value above `after`, up to and including `through`."""
        files = snapshot.reaching(column, after + 1, through)
        if self.are_few(files):
            value = pc.field(column)
            rows = snapshot.dataset(files).to_table(filter=(value > after) & (value <= through))
            return as_frame(self.spark, rows)
        return read_files(self.spark, snapshot, files).where((F.col(column) > after) & (F.col(column) <= through))

    def changed_rows(self, name: str, after: int) -> DataFrame:
        """Rows of a table that include an event after this id."""
        return self.read_range(self.open(name), after, _LAST_ID, LAST_EVENT_ID.name)

    def write(self, name: str, plan: Callable[[Snapshot], WritePlan | None]) -> Committed | None:
        """Plan on the newest snapshot and commit; None when there is nothing to do. On a conflict, plan again."""
        for attempt in range(1, ATTEMPTS + 1):
            snapshot = self.open(name)
            planned = plan(snapshot)
            if planned is None:
                return None
            try:
                return self.carry_out(snapshot, planned)
            except LakeChanged:
                if attempt == ATTEMPTS:
                    raise
        return None

    def settle(self, plans: Mapping[str, WritePlan], what: str) -> dict[str, WritePlan]:
        """Collect the rows of all small plans by one query."""
        frames = {name: plan.rows for name, plan in plans.items() if plan.is_small and isinstance(plan.rows, DataFrame)}
        with self.described(what):
            found = collect(frames)
        return {name: _with_rows(plan, found[name]) if name in found else plan for name, plan in plans.items()}

    def carry_out(self, snapshot: Snapshot, plan: WritePlan) -> Committed | None:
        """Write the files and commit them; raise LakeChanged when the table has changed since the plan."""
        name = snapshot.table.name
        self.progress.planned(name)
        files = [] if plan.rows is None else self._write_files(snapshot, plan.rows, plan)
        try:
            done = self._commit(snapshot, plan, files)
        except BaseException:
            discard(snapshot, files)
            raise
        self.progress.committed(name, 0 if done is None else done.rows)
        return done

    def _write_files(self, snapshot: Snapshot, rows: Rows, plan: WritePlan) -> list[WrittenFile]:
        table = snapshot.table
        if plan.last_step is not None:
            rows = apply(rows, plan.last_step, spark_schema(table))
        if isinstance(rows, pa.Table):
            # One sorted file per date, as in tasks.
            by = [(name, "ascending") for name in (DATE, *table.key)]
            batches = cast(rows, arrow_schema(table)).sort_by(by).combine_chunks().to_batches()
            written = write_files(snapshot.folder, table, iter(batches))
        else:
            with self.described(f"{table.name}: write"):
                written = self._write_in_tasks(snapshot, rows, sort_by_day=plan.sort_by_day)
        self.progress.written(table.name)
        return written

    def _write_in_tasks(self, snapshot: Snapshot, rows: DataFrame, *, sort_by_day: bool) -> list[WrittenFile]:
        """With `sort_by_day`, one sorted file per date, more for very many rows. Otherwise each task writes as it
        reads."""
        table = snapshot.table
        # Spark may infer a wider or narrower type for a computed column than the declared one.
        chosen = rows.select(*(F.col(one.name).cast(one.dataType) for one in spark_schema(table).fields))
        if sort_by_day:
            chosen = chosen.repartition(F.col(DATE)).sortWithinPartitions(DATE, *table.key)
        writer = FilesByDay(str(snapshot.folder), bounded_columns(table))
        found = [WrittenFile(**row.asDict()) for row in chosen.mapInArrow(writer, WRITTEN_DDL).collect()]
        return sorted(found, key=lambda file: file.path)

    def _commit(self, snapshot: Snapshot, plan: WritePlan, files: Sequence[WrittenFile]) -> Committed | None:
        found = Inspected(plan.through_id, {}) if plan.inspect is None else plan.inspect(files)
        if found is None:
            return None
        if not files and not plan.replaced and found.through_id >= snapshot.through_id:
            # No news: the manifest alone raises the last event that the table includes.
            self._without_news[snapshot.table.name] = (snapshot.version, found.through_id)
            return None
        return commit(snapshot, Change(found.through_id, files, plan.replaced, plan.dates, found.metadata))

    @contextmanager
    def described(self, what: str) -> Iterator[None]:
        """Name this thread's Spark jobs, so that Spark's UI and event log read like the plan."""
        context = self.spark.sparkContext
        context.setJobDescription(what)
        try:
            yield
        finally:
            context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]


def _with_rows(plan: WritePlan, rows: pa.Table) -> WritePlan:
    return replace(plan, rows=rows if rows.num_rows else None)


@contextmanager
def open_for_writing(lake: Lake, setup: SparkSetup, purpose: str, progress: Progress) -> Iterator[LakeSession]:
    """Take the writer lock or raise LakeBusy, repair torn logs, then start Spark."""
    with writer_lock(lake.folder, purpose):
        repair_logs(lake)
        with open_spark(lake, setup) as spark:
            yield LakeSession(spark, lake, progress)


@contextmanager
def open_for_reading(lake: Lake, setup: SparkSetup) -> Iterator[LakeSession]:
    """Open every table as of the manifest; raise LakeBroken when there is no manifest yet."""
    if lake.manifest() is None:
        raise LakeBroken(f"There is no lake at {lake.folder} yet. Run `tinyagi pipeline run`.")
    with open_spark(lake, setup) as spark:
        yield LakeSession(spark, lake, Progress(), is_pinned=True)


def read_files(spark: SparkSession, snapshot: Snapshot, files: Iterable[DataFile] | None = None) -> DataFrame:
    """The rows of these files, or of all, with the declared schema: a column that an older file lacks is null."""
    locations = snapshot.locations(snapshot.files if files is None else files)
    schema = spark_schema(snapshot.table)
    if not locations:
        # Not from an empty list, which would start a Python process.
        return as_frame(spark, arrow_schema(snapshot.table).empty_table())
    stored = from_arrow_schema(stored_schema(snapshot.table, snapshot.handle))
    rows = spark.read.schema(stored).option("basePath", str(snapshot.folder)).parquet(*locations)
    # An older lake stores instants as milliseconds.
    old = [field.name for field, known in zip(schema, stored, strict=True) if field.dataType != known.dataType]
    return rows.withColumns({name: instant(F.col(name)) for name in old}) if old else rows


def now_ms() -> int:
    return time.time_ns() // 1_000_000
