"""Updates of gold: tables whose days are recomputed when a source row of the day changed, and alerts.

As in silver, `changes` gives what changed since a table's last event, here the dates, and `plan` the new rows of them.
`recompute` gives a table from scratch.
"""

import datetime as dt
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tinyagi.domain.instants import DAY_MS, day_start
from tinyagi.pipeline.delta.snapshot import DataFile, Snapshot
from tinyagi.pipeline.instants import time_of
from tinyagi.pipeline.spark.lake_session import LakeSession, WritePlan
from tinyagi.pipeline.tables import gold, silver
from tinyagi.pipeline.tables.catalog import EVENTS
from tinyagi.pipeline.tables.gold import AGENT_HOURLY, ALERTS
from tinyagi.pipeline.tables.model import DATE, FIRST_DATE, FIRST_INSTANT, LAST_DATE, LAST_INSTANT, Table
from tinyagi.pipeline.tables.silver import MESSAGES, RUNS
from tinyagi.pipeline.transform.alerts import USUAL_DAYS, alerts, touched_dates
from tinyagi.pipeline.transform.columns import day_of, spark_schema
from tinyagi.pipeline.transform.fold import LAST_EVENT
from tinyagi.pipeline.transform.gold import (
    agent_hourly,
    channel_daily,
    channel_messages,
    conversations,
    dated_handoffs,
    dated_responses,
    dead_by_day,
    dead_letters,
    ended_runs,
    handoff_edges,
    texts_to_cut,
)
from tinyagi.pipeline.transform.memory_chunks import cut_lines
from tinyagi.pipeline.transform.rows import ArrowFunction, Rows, apply, as_frame

Transform = Callable[[DataFrame], DataFrame]
_KIND: Final = "kind"


@dataclass(frozen=True, slots=True)
class DatedSource:
    """Rows of a silver table, each on the day on which a gold table counts it."""

    table: str
    dated: Transform
    instant: str | None
    """The column that gives this day; None when it is the table's partition."""

    def changed_files(self, session: LakeSession, after: int) -> Sequence[DataFile]:
        return session.open(self.table).reaching(LAST_EVENT, after + 1)

    def changed_dates(self, session: LakeSession, after: int) -> DataFrame:
        return self.dated(session.changed_rows(self.table, after)).select(DATE)

    def of_dates(self, session: LakeSession, dates: Collection[dt.date]) -> DataFrame:
        rows = self.dated(session.read(session.open(self.table), self.files(session, dates)))
        return rows.where(F.col(DATE).isin(*sorted(dates)))

    def all(self, session: LakeSession) -> DataFrame:
        return self.dated(session.read_in_tasks(session.open(self.table)))

    def files(self, session: LakeSession, dates: Collection[dt.date]) -> Sequence[DataFile]:
        snapshot = session.open(self.table)
        if self.instant is None:
            return snapshot.of_dates(dates)
        near = {file.path for day in dates for file in snapshot.reaching(self.instant, *_bounds(day))}
        return [file for file in snapshot.files if file.path in near]


@dataclass(frozen=True, slots=True)
class RecomputedDays:
    """All rows of each day on which a source row changed."""

    table: Table
    sources: tuple[DatedSource, ...]
    rows: Callable[..., DataFrame]
    last_step: ArrowFunction | None = None

    def changes(self, session: LakeSession, snapshot: Snapshot, through_id: int) -> WritePlan:
        """The dates; None for all."""
        after = snapshot.through_id
        if not after and not snapshot.files:
            return WritePlan(None, through_id)
        by_query = [source for source in self.sources if source.instant is not None]
        if not by_query:
            return WritePlan(None, through_id)
        dates = reduce(DataFrame.unionAll, (source.changed_dates(session, after) for source in by_query)).distinct()
        is_small = session.are_few(*(source.changed_files(session, after) for source in by_query))
        return WritePlan(dates, through_id, is_small=is_small)

    def plan(self, session: LakeSession, snapshot: Snapshot, changes: WritePlan) -> WritePlan:
        through_id, after = changes.through_id, snapshot.through_id
        if not after and not snapshot.files:
            is_small = session.are_few(*(session.open(source.table).files for source in self.sources))
            rows = self.rows(*(source.all(session) for source in self.sources))
            return WritePlan(rows, through_id, is_small=is_small, last_step=self.last_step)
        dates = _dates_in(changes.rows) | {
            file.date
            for source in self.sources
            if source.instant is None
            for file in source.changed_files(session, after)
            if file.date is not None
        }
        if not dates:
            return WritePlan(None, through_id)
        rows = self.rows(*(source.of_dates(session, dates) for source in self.sources))
        return WritePlan(
            rows,
            through_id,
            snapshot.of_dates(dates),
            frozenset(dates),
            is_small=session.are_few(*(source.files(session, dates) for source in self.sources)),
            last_step=self.last_step,
        )

    def recompute(self, session: LakeSession) -> DataFrame:
        rows: Rows = self.rows(*(source.all(session) for source in self.sources))
        if self.last_step is not None:
            rows = apply(rows, self.last_step, spark_schema(self.table))
        return as_frame(session.spark, rows)


@dataclass(frozen=True, slots=True)
class AlertsTable:
    """Alerts of the changed days and of the days with hours that have ended since. Comes after gold.agent_hourly."""

    table: Table = ALERTS

    def changes(self, session: LakeSession, snapshot: Snapshot, through_id: int) -> WritePlan:
        """The dates of changed hours and those of changed arrivals, apart."""
        after = snapshot.through_id
        runs, messages = (session.changed_rows(table.name, after) for table in (RUNS, MESSAGES))
        hourly = ended_runs(runs).select(F.lit(RUNS.name).alias(_KIND), DATE)
        arrivals = _on_arrival_day(messages).select(F.lit(MESSAGES.name).alias(_KIND), DATE)
        files = (session.open(table.name).reaching(LAST_EVENT, after + 1) for table in (RUNS, MESSAGES))
        return WritePlan(hourly.unionAll(arrivals).distinct(), through_id, is_small=session.are_few(*files))

    def plan(self, session: LakeSession, snapshot: Snapshot, changes: WritePlan) -> WritePlan:
        until = newest_instant(session.open(EVENTS.name))
        if until is None:
            return WritePlan(None, changes.through_id)
        # Collected once: each of the two dates would run the query again.
        changed = _collected(changes.rows)
        hourly, arrivals = (_dates_in(changed, table.name) for table in (RUNS, MESSAGES))
        before = _instant_of(session, snapshot.through_id)
        dates = touched_dates(hourly, arrivals, before=before, until=until)
        rows, is_small = _alerts(session, dates, until)
        return WritePlan(rows, changes.through_id, snapshot.of_dates(dates), dates, is_small=is_small)

    def recompute(self, session: LakeSession) -> DataFrame:
        until = newest_instant(session.open(EVENTS.name))
        if until is None:
            return session.read_in_tasks(session.open(self.table.name), ())
        hourly = _dates_in(session.read_in_tasks(session.open(AGENT_HOURLY.name)).select(DATE))
        arrivals = _dates_in(_on_arrival_day(session.read_in_tasks(session.open(MESSAGES.name))).select(DATE))
        return _alerts(session, touched_dates(hourly, arrivals, before=None, until=until), until)[0]


def _unchanged(rows: DataFrame) -> DataFrame:
    return rows


FROM_SILVER: Final[tuple[RecomputedDays, ...]] = (
    RecomputedDays(gold.AGENT_HOURLY, (DatedSource(silver.RUNS.name, ended_runs, "ended_at"),), agent_hourly),
    RecomputedDays(
        gold.CONVERSATIONS,
        (DatedSource(silver.MESSAGES.name, _unchanged, None), DatedSource(silver.RUNS.name, _unchanged, None)),
        conversations,
    ),
    RecomputedDays(
        gold.HANDOFF_EDGES, (DatedSource(silver.HANDOFFS.name, dated_handoffs, "handed_at"),), handoff_edges
    ),
    RecomputedDays(
        gold.CHANNEL_DAILY,
        (
            DatedSource(silver.MESSAGES.name, channel_messages, "created_at"),
            DatedSource(silver.RESPONSES.name, dated_responses, "created_at"),
        ),
        channel_daily,
    ),
    RecomputedDays(gold.DEAD_LETTERS, (DatedSource(silver.MESSAGES.name, dead_by_day, "created_at"),), dead_letters),
    RecomputedDays(
        gold.MEMORY_CHUNKS,
        (DatedSource(silver.AGENT_MESSAGES.name, _unchanged, None),),
        texts_to_cut,
        last_step=cut_lines,
    ),
)
FROM_GOLD: Final[tuple[AlertsTable, ...]] = (AlertsTable(),)


def newest_instant(bronze: Snapshot) -> int | None:
    """The latest `created_at` in bronze, kept within the partitions: clocks may be wrong."""
    newest = [int(file.statistics.maximum["created_at"]) for file in bronze.files]
    days = [_end_of(file.date) for file in bronze.files if file.date is not None]
    return max(min(max(newest), max(days)), day_start(FIRST_DATE)) if newest and days else None


def _instant_of(session: LakeSession, event: int) -> int | None:
    """When the last event up to this id was recorded, within its partition; None when there is none."""
    bronze = session.open(EVENTS.name)
    files = bronze.reaching("id", event, event) if event else ()
    rows = bronze.dataset(files).to_table(["id", "created_at", DATE], filter=pc.field("id") <= event)
    if not rows.num_rows:
        return None
    last = rows.slice(pc.index(rows["id"], pc.max(rows["id"])).as_py(), 1).to_pylist()[0]
    return max(min(int(last["created_at"]), _end_of(last[DATE])), day_start(last[DATE]))


def _alerts(session: LakeSession, dates: frozenset[dt.date], until: int) -> tuple[DataFrame, bool]:
    """The alerts of these days, and whether they come from few rows."""
    since = min(dates) - dt.timedelta(days=USUAL_DAYS)
    hourly, messages = session.open(AGENT_HOURLY.name), session.open(MESSAGES.name)
    hours = [file for file in hourly.files if file.date is not None and file.date >= since]
    recent = messages.reaching("created_at", time_of(day_start(since)))
    found = alerts(session.read(hourly, hours), session.read(messages, recent), dates=dates, until=until)
    return found, session.are_few(hours, recent)


def _collected(rows: Rows | None) -> pa.Table | None:
    """The distinct rows."""
    return rows.distinct().toArrow() if isinstance(rows, DataFrame) else rows


def _dates_in(rows: Rows | None, kind: str | None = None) -> set[dt.date]:
    """The distinct values of the column `date`: a lake has a few hundred."""
    found = _collected(rows)
    if found is None:
        return set()
    chosen = found if kind is None else found.filter(pc.equal(found.column(_KIND), kind))
    return set(chosen.column(DATE).to_pylist()) - {None}


def _on_arrival_day(messages: DataFrame) -> DataFrame:
    return messages.withColumn(DATE, day_of(F.col("created_at")))


def _end_of(day: dt.date) -> int:
    return day_start(day) + DAY_MS - 1


def _bounds(day: dt.date) -> tuple[dt.datetime, dt.datetime]:
    """The instants of a day; the first and the last partition also hold everything beyond them."""
    low = time_of(day_start(day) if day > FIRST_DATE else FIRST_INSTANT)
    high = time_of(_end_of(day) if day < LAST_DATE else LAST_INSTANT)
    return low, high
