"""A Spark session on one lake: opens it for reading or writing, reads tables, and commits DataFrames to them."""

import datetime as dt
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from tinyagi.pipeline.delta.commit import Change, Committed, Staged, commit, remove_leftovers, staging
from tinyagi.pipeline.delta.parquet_files import WRITTEN_DDL, FilesByDay
from tinyagi.pipeline.delta.snapshot import DataFile, Snapshot, open_pinned, open_snapshot
from tinyagi.pipeline.errors import LakeBroken, LakeChanged
from tinyagi.pipeline.instants import stored_schema
from tinyagi.pipeline.lake import Lake, writer_lock
from tinyagi.pipeline.progress import Progress
from tinyagi.pipeline.spark.session import SparkSetup, open_spark
from tinyagi.pipeline.tables.model import DATE
from tinyagi.pipeline.transform.columns import instant, spark_schema

ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class Inspected:
    """What a check of the staged files found."""

    through_id: int
    metadata: Mapping[str, object]
    """Stored in the commit."""


@dataclass(frozen=True, slots=True)
class WritePlan:
    """One commit, planned on one snapshot."""

    rows: DataFrame | None
    """None when only the last event id changes."""
    through_id: int
    replaced: Sequence[DataFile] = ()
    dates: frozenset[dt.date] | None = None
    """The only days that rows may belong to; None allows any."""
    sort_by_day: bool = True
    inspect: Callable[[Staged], Inspected | None] | None = None
    """Checks the staged files before the commit; when it returns None, nothing is committed."""


@dataclass(frozen=True, slots=True)
class LakeSession:
    """Reads and writes the tables of one lake with one Spark session."""

    spark: SparkSession
    lake: Lake
    progress: Progress
    is_pinned: bool = False
    """Read-only: sees every table as of the manifest."""

    def open(self, name: str) -> Snapshot:
        return open_pinned(self.lake, name) if self.is_pinned else open_snapshot(self.lake, name)

    def read(self, snapshot: Snapshot, files: Sequence[DataFile] | None = None) -> DataFrame:
        return read_files(self.spark, snapshot, files)

    def write(self, name: str, plan: Callable[[Snapshot], WritePlan | None]) -> Committed | None:
        """Plan on the newest snapshot and commit; None when there is nothing to do. On a conflict, plan again."""
        for attempt in range(1, ATTEMPTS + 1):
            snapshot = self.open(name)
            planned = plan(snapshot)
            if planned is None:
                return None
            self.progress.planned(name)
            try:
                done = self._stage_and_commit(snapshot, planned)
            except LakeChanged:
                if attempt == ATTEMPTS:
                    raise
                continue
            if done is not None:
                self.progress.committed(name, done.rows)
            return done
        return None

    def _stage_and_commit(self, snapshot: Snapshot, plan: WritePlan) -> Committed | None:
        name = snapshot.table.name
        if plan.rows is None:
            return commit(snapshot, Change(plan.through_id, replaced=plan.replaced))
        with staged(plan.rows, snapshot, sort_by_day=plan.sort_by_day) as files:
            self.progress.staged(name)
            found = Inspected(plan.through_id, {}) if plan.inspect is None else plan.inspect(files)
            if found is None:
                return None
            change = Change(found.through_id, files, plan.replaced, plan.dates, found.metadata)
            return commit(snapshot, change, moved=lambda: self.progress.moved(name))


@contextmanager
def open_for_writing(lake: Lake, setup: SparkSetup, purpose: str, progress: Progress) -> Iterator[LakeSession]:
    """Take the writer lock or raise LakeBusy, remove leftovers of a killed writer, then start Spark."""
    with writer_lock(lake.folder, purpose):
        remove_leftovers(lake)
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
        return spark.createDataFrame([], schema)
    stored = from_arrow_schema(stored_schema(snapshot.table, snapshot.handle))
    rows = spark.read.schema(stored).option("basePath", str(snapshot.folder)).parquet(*locations)
    # An older lake stores instants as milliseconds.
    old = [field.name for field, known in zip(schema, stored, strict=True) if field.dataType != known.dataType]
    return rows.withColumns({name: instant(F.col(name)) for name in old}) if old else rows


@contextmanager
def staged(rows: DataFrame, snapshot: Snapshot, *, sort_by_day: bool = True) -> Iterator[Staged]:
    """Write the rows as Parquet files below the table's folder; files that are not committed are deleted afterwards.

    With `sort_by_day`, one sorted file per date, more for very many rows. Otherwise each task writes as it reads.
    """
    table = snapshot.table
    # Spark may infer a wider or narrower type for a computed column than the declared one.
    schema = spark_schema(table)
    chosen = rows.select(*(F.col(field.name).cast(field.dataType) for field in schema.fields))
    if sort_by_day:
        chosen = chosen.repartition(F.col(DATE)).sortWithinPartitions(DATE, *table.key)
    with staging(snapshot.folder) as folder:
        written = chosen.mapInArrow(FilesByDay(str(folder)), WRITTEN_DDL).collect()
        yield Staged(folder, tuple(sorted(row["path"] for row in written)))


def dates_in(rows: DataFrame) -> frozenset[dt.date]:
    """The distinct values of the column `date`, collected on the driver: a lake has a few hundred."""
    return frozenset(row[0] for row in rows.select(DATE).distinct().collect() if row[0] is not None)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
