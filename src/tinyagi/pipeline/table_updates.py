"""Updates of silver and gold: one class per kind of table, and the ordered lists of all tables.

`update` brings a stored table from its own last event to a given one; `recompute` gives the table from scratch.
"""

import datetime as dt
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tinyagi.domain.instants import DAY_MS, day_start
from tinyagi.pipeline.delta.commit import Committed
from tinyagi.pipeline.delta.snapshot import DataFile, Snapshot
from tinyagi.pipeline.instants import time_of
from tinyagi.pipeline.spark.lake_session import LakeSession, WritePlan, dates_in
from tinyagi.pipeline.tables import gold, silver
from tinyagi.pipeline.tables.catalog import EVENTS
from tinyagi.pipeline.tables.gold import AGENT_HOURLY, ALERTS
from tinyagi.pipeline.tables.model import DATE, FIRST_DATE, FIRST_INSTANT, LAST_DATE, LAST_INSTANT, Table
from tinyagi.pipeline.tables.silver import MESSAGES, RUNS
from tinyagi.pipeline.transform.alerts import USUAL_DAYS, alerts, touched_dates
from tinyagi.pipeline.transform.columns import day_of
from tinyagi.pipeline.transform.fold import LAST_EVENT, fold
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
    memory_chunks,
)
from tinyagi.pipeline.transform.silver import (
    chat_lines,
    handoffs,
    history_lines,
    message_updates,
    response_updates,
    run_updates,
    with_delivery_time,
    with_message_durations,
    with_run_outcome,
)

Transform = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class FoldedTable:
    """New row = fold(old row, later events): only files that hold touched rows are read and replaced."""

    table: Table
    updates: Transform
    finish: Transform

    def update(self, session: LakeSession, events: DataFrame, through_id: int) -> Committed | None:
        def plan(snapshot: Snapshot) -> WritePlan | None:
            if snapshot.through_id >= through_id:
                return None
            updates = self.updates(events.where(F.col("id") > snapshot.through_id))
            touched = snapshot.holding(keys_of(updates, self.table)) if snapshot.files else ()
            return WritePlan(self._rows(session.read(snapshot, touched), updates), through_id, touched)

        return session.write(self.table.name, plan)

    def recompute(self, session: LakeSession, events: DataFrame) -> DataFrame:
        return self._rows(session.read(session.open(self.table.name), ()), self.updates(events))

    def _rows(self, stored: DataFrame, updates: DataFrame) -> DataFrame:
        return self.finish(fold(stored, updates, self.table))


@dataclass(frozen=True, slots=True)
class AppendedTable:
    """Events that become rows and never change."""

    table: Table
    rows: Transform

    def update(self, session: LakeSession, events: DataFrame, through_id: int) -> Committed | None:
        def plan(snapshot: Snapshot) -> WritePlan | None:
            if snapshot.through_id >= through_id:
                return None
            return WritePlan(self.rows(events.where(F.col("id") > snapshot.through_id)), through_id)

        return session.write(self.table.name, plan)

    def recompute(self, _: LakeSession, events: DataFrame) -> DataFrame:
        return self.rows(events)


@dataclass(frozen=True, slots=True)
class DerivedTable:
    """Rows that are each computed from one row of another table."""

    table: Table
    source: str
    rows: Transform

    def update(self, session: LakeSession, through_id: int) -> Committed | None:
        with ExitStack() as cached:

            def plan(snapshot: Snapshot) -> WritePlan | None:
                if snapshot.through_id >= through_id:
                    return None
                changed = self.rows(changed_rows(session, self.source, snapshot.through_id)).persist()
                cached.callback(changed.unpersist)
                touched = snapshot.holding(keys_of(changed, self.table)) if snapshot.files else ()
                key = list(self.table.key)
                kept = session.read(snapshot, touched).join(changed.select(*key), key, "left_anti")
                return WritePlan(kept.unionByName(changed), through_id, touched)

            return session.write(self.table.name, plan)

    def recompute(self, session: LakeSession) -> DataFrame:
        return self.rows(session.read(session.open(self.source)))


@dataclass(frozen=True, slots=True)
class DatedSource:
    """Rows of a silver table, each on the day on which a gold table counts it."""

    table: str
    dated: Transform
    instant: str | None
    """The column that gives this day; None when it is the table's partition."""

    def changed_dates(self, session: LakeSession, after: int) -> frozenset[dt.date]:
        if self.instant is None:
            changed = session.open(self.table).reaching(LAST_EVENT, after + 1)
            return frozenset(file.date for file in changed if file.date is not None)
        return dates_in(self.dated(changed_rows(session, self.table, after)))

    def of_dates(self, session: LakeSession, dates: frozenset[dt.date]) -> DataFrame:
        snapshot = session.open(self.table)
        rows = self.dated(session.read(snapshot, self._files(snapshot, dates)))
        return rows.where(F.col(DATE).isin(*sorted(dates)))

    def all(self, session: LakeSession) -> DataFrame:
        return self.dated(session.read(session.open(self.table)))

    def _files(self, snapshot: Snapshot, dates: frozenset[dt.date]) -> Sequence[DataFile]:
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

    def update(self, session: LakeSession, through_id: int) -> Committed | None:
        def plan(snapshot: Snapshot) -> WritePlan | None:
            if snapshot.through_id >= through_id:
                return None
            if not snapshot.through_id and not snapshot.files:
                return WritePlan(self.recompute(session), through_id)
            after = snapshot.through_id
            dates = frozenset[dt.date]().union(*(source.changed_dates(session, after) for source in self.sources))
            if not dates:
                return WritePlan(None, through_id)
            rows = self.rows(*(source.of_dates(session, dates) for source in self.sources))
            return WritePlan(rows, through_id, snapshot.of_dates(dates), dates)

        return session.write(self.table.name, plan)

    def recompute(self, session: LakeSession) -> DataFrame:
        return self.rows(*(source.all(session) for source in self.sources))


@dataclass(frozen=True, slots=True)
class AlertsTable:
    """Alerts of the changed days and of the days with hours that have ended since."""

    table: Table = ALERTS

    def update(self, session: LakeSession, through_id: int) -> Committed | None:
        def plan(snapshot: Snapshot) -> WritePlan | None:
            after = snapshot.through_id
            if after >= through_id:
                return None
            until = newest_instant(session.open(EVENTS.name))
            if until is None:
                return WritePlan(None, through_id)
            hourly = DatedSource(RUNS.name, ended_runs, "ended_at").changed_dates(session, after)
            arrivals = dates_in(_on_arrival_day(changed_rows(session, MESSAGES.name, after)))
            dates = touched_dates(hourly, arrivals, before=_instant_of(session, after), until=until)
            return WritePlan(_alerts(session, dates, until), through_id, snapshot.of_dates(dates), dates)

        return session.write(self.table.name, plan)

    def recompute(self, session: LakeSession) -> DataFrame:
        until = newest_instant(session.open(EVENTS.name))
        if until is None:
            return session.read(session.open(self.table.name), ())
        hourly = dates_in(session.read(session.open(AGENT_HOURLY.name)))
        arrivals = dates_in(_on_arrival_day(session.read(session.open(MESSAGES.name))))
        return _alerts(session, touched_dates(hourly, arrivals, before=None, until=until), until)


def _unchanged(rows: DataFrame) -> DataFrame:
    return rows


FROM_EVENTS: Final[tuple[FoldedTable | AppendedTable, ...]] = (
    FoldedTable(silver.MESSAGES, message_updates, with_message_durations),
    FoldedTable(silver.RUNS, run_updates, with_run_outcome),
    FoldedTable(silver.RESPONSES, response_updates, with_delivery_time),
    AppendedTable(silver.AGENT_MESSAGES, history_lines),
    AppendedTable(silver.CHAT_MESSAGES, chat_lines),
)

HANDOFFS_UPDATE: Final = DerivedTable(silver.HANDOFFS, silver.MESSAGES.name, handoffs)

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
    RecomputedDays(gold.MEMORY_CHUNKS, (DatedSource(silver.AGENT_MESSAGES.name, _unchanged, None),), memory_chunks),
)
FROM_GOLD: Final[tuple[AlertsTable, ...]] = (AlertsTable(),)


def changed_rows(session: LakeSession, name: str, after: int) -> DataFrame:
    """Rows of a table that include an event after this id."""
    snapshot = session.open(name)
    return session.read(snapshot, snapshot.reaching(LAST_EVENT, after + 1)).where(F.col(LAST_EVENT) > after)


def keys_of(rows: DataFrame, table: Table) -> pa.ChunkedArray:
    """The distinct keys, collected on the driver: at most one per event of the slice."""
    return rows.select(table.key[0]).distinct().toArrow().column(0)


def newest_instant(bronze: Snapshot) -> int | None:
    """The latest `created_at` in bronze, kept within the partitions: clocks may be wrong."""
    newest = [int(file.statistics.maximum["created_at"]) for file in bronze.files]
    days = [_end_of(file.date) for file in bronze.files if file.date is not None]
    return max(min(max(newest), max(days)), day_start(FIRST_DATE)) if newest and days else None


def _instant_of(session: LakeSession, event: int) -> int | None:
    """When the last event up to this id was recorded, within its partition; None when there is none."""
    bronze = session.open(EVENTS.name)
    known = session.read(bronze, bronze.reaching("id", event, event)).where(F.col("id") <= event)
    found = known.agg(F.max_by(F.struct("created_at", DATE), "id")).collect()[0][0] if event else None
    return None if found is None else max(min(found["created_at"], _end_of(found[DATE])), day_start(found[DATE]))


def _alerts(session: LakeSession, dates: frozenset[dt.date], until: int) -> DataFrame:
    since = min(dates) - dt.timedelta(days=USUAL_DAYS)
    hourly, messages = session.open(AGENT_HOURLY.name), session.open(MESSAGES.name)
    recent = [file for file in hourly.files if file.date is not None and file.date >= since]
    return alerts(
        session.read(hourly, recent),
        session.read(messages, messages.reaching("created_at", time_of(day_start(since)))),
        dates=dates,
        until=until,
    )


def _on_arrival_day(messages: DataFrame) -> DataFrame:
    return messages.withColumn(DATE, day_of(F.col("created_at")))


def _end_of(day: dt.date) -> int:
    return day_start(day) + DAY_MS - 1


def _bounds(day: dt.date) -> tuple[dt.datetime, dt.datetime]:
    """The instants of a day; the first and the last partition also hold everything beyond them."""
    low = time_of(day_start(day) if day > FIRST_DATE else FIRST_INSTANT)
    high = time_of(_end_of(day) if day < LAST_DATE else LAST_INSTANT)
    return low, high
