"""How each table is brought from its own last event to bronze's: one kind of step per way a table is kept."""

import datetime as dt
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows

from tinyagi.pipeline.clock import CEILING, FLOOR, HOUR, millis_of
from tinyagi.pipeline.delta.commit import Committed
from tinyagi.pipeline.delta.snapshot import DataFile, Snapshot
from tinyagi.pipeline.fold import LAST_EVENT, fold
from tinyagi.pipeline.frames import dates_in
from tinyagi.pipeline.tables.model import DATE, Table
from tinyagi.pipeline.workshop import Plan, Workshop

_DAY: Final = 24 * HOUR

Transform = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class Folded:
    """New row = fold(old row, later events): only files that hold touched rows are read and replaced."""

    table: Table
    sayings: Transform
    finish: Transform

    def bring(self, shop: Workshop, facts: DataFrame, through_id: int) -> Committed | None:
        def plan(snapshot: Snapshot) -> Plan | None:
            if snapshot.through_id >= through_id:
                return None
            sayings = self.sayings(facts.where(F.col("id") > snapshot.through_id))
            touched = snapshot.holding(keys_of(sayings, self.table)) if snapshot.files else ()
            return Plan(self._rows(shop.read(snapshot, touched), sayings), through_id, touched)

        return shop.write(self.table.name, plan)

    def everything(self, shop: Workshop, facts: DataFrame) -> DataFrame:
        """The table as it should be when these are all the facts."""
        return self._rows(shop.read(shop.open(self.table.name), ()), self.sayings(facts))

    def _rows(self, stored: DataFrame, sayings: DataFrame) -> DataFrame:
        return self.finish(fold(stored, sayings, self.table))


@dataclass(frozen=True, slots=True)
class Appended:
    """Facts that become rows and never change."""

    table: Table
    rows: Transform

    def bring(self, shop: Workshop, facts: DataFrame, through_id: int) -> Committed | None:
        def plan(snapshot: Snapshot) -> Plan | None:
            if snapshot.through_id >= through_id:
                return None
            return Plan(self.rows(facts.where(F.col("id") > snapshot.through_id)), through_id)

        return shop.write(self.table.name, plan)

    def everything(self, _: Workshop, facts: DataFrame) -> DataFrame:
        """The table as it should be when these are all the facts."""
        return self.rows(facts)


@dataclass(frozen=True, slots=True)
class Followed:
    """Rows that follow, one by one, from rows of another table."""

    table: Table
    source: str
    rows: Transform

    def bring(self, shop: Workshop, through_id: int) -> Committed | None:
        with ExitStack() as cached:

            def plan(snapshot: Snapshot) -> Plan | None:
                if snapshot.through_id >= through_id:
                    return None
                changed = self.rows(changed_rows(shop, self.source, snapshot.through_id)).persist()
                cached.callback(changed.unpersist)
                touched = snapshot.holding(keys_of(changed, self.table)) if snapshot.files else ()
                key = list(self.table.key)
                kept = shop.read(snapshot, touched).join(changed.select(*key), key, "left_anti")
                return Plan(kept.unionByName(changed), through_id, touched)

            return shop.write(self.table.name, plan)

    def everything(self, shop: Workshop) -> DataFrame:
        """The table as it should be."""
        return self.rows(shop.read(shop.open(self.source)))


@dataclass(frozen=True, slots=True)
class Dated:
    """Rows of a table, each on the day for which a gold table counts it."""

    table: str
    dated: Transform
    instant: str | None
    """The column that this day is worked out of; None when it is the day of the table's own partition."""

    def changed_dates(self, shop: Workshop, after: int) -> frozenset[dt.date]:
        if self.instant is None:
            changed = shop.open(self.table).reaching(LAST_EVENT, after + 1)
            return frozenset(file.date for file in changed if file.date is not None)
        return dates_in(self.dated(changed_rows(shop, self.table, after)))

    def of_dates(self, shop: Workshop, dates: frozenset[dt.date]) -> DataFrame:
        snapshot = shop.open(self.table)
        rows = self.dated(shop.read(snapshot, self._files(snapshot, dates)))
        return rows.where(F.col(DATE).isin(*sorted(dates)))

    def all(self, shop: Workshop) -> DataFrame:
        return self.dated(shop.read(shop.open(self.table)))

    def _files(self, snapshot: Snapshot, dates: frozenset[dt.date]) -> Sequence[DataFile]:
        if self.instant is None:
            return snapshot.of_dates(dates)
        near = {file.path for day in dates for file in snapshot.reaching(self.instant, *_bounds(day))}
        return [file for file in snapshot.files if file.path in near]


@dataclass(frozen=True, slots=True)
class Replaced:
    """All rows of the days that changed rows of its sources lie on."""

    table: Table
    sources: tuple[Dated, ...]
    rows: Callable[..., DataFrame]

    def bring(self, shop: Workshop, through_id: int) -> Committed | None:
        def plan(snapshot: Snapshot) -> Plan | None:
            if snapshot.through_id >= through_id:
                return None
            if not snapshot.through_id and not snapshot.files:
                return Plan(self.everything(shop), through_id)
            after = snapshot.through_id
            dates = frozenset[dt.date]().union(*(source.changed_dates(shop, after) for source in self.sources))
            if not dates:
                return Plan(None, through_id)
            rows = self.rows(*(source.of_dates(shop, dates) for source in self.sources))
            return Plan(rows, through_id, snapshot.of_dates(dates), dates)

        return shop.write(self.table.name, plan)

    def everything(self, shop: Workshop) -> DataFrame:
        """The table as it should be."""
        return self.rows(*(source.all(shop) for source in self.sources))


def changed_rows(shop: Workshop, name: str, after: int) -> DataFrame:
    """Rows of a table that an event beyond this one is part of."""
    snapshot = shop.open(name)
    return shop.read(snapshot, snapshot.reaching(LAST_EVENT, after + 1)).where(F.col(LAST_EVENT) > after)


def keys_of(rows: DataFrame, table: Table) -> pa.ChunkedArray:
    """The distinct keys, on the driver: at most as many as the slice has events."""
    return rows.select(table.key[0]).distinct().toArrow().column(0)


def _bounds(day: dt.date) -> tuple[int, int]:
    """Instants that count for a day; the first and the last day have what lies beyond as well."""
    low = millis_of(day) if day > FLOOR else -(2**63)
    high = millis_of(day) + _DAY - 1 if day < CEILING else 2**63 - 1
    return low, high
