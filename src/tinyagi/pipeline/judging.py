"""Brings gold.alerts up to date: the one gold table that is made of another, and that time alone can change."""

import datetime as dt
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows

from tinyagi.pipeline.clock import HOUR, day_of, millis_of
from tinyagi.pipeline.delta.commit import Committed
from tinyagi.pipeline.delta.snapshot import Snapshot
from tinyagi.pipeline.frames import dates_in
from tinyagi.pipeline.gold.agent_hourly import ended_runs
from tinyagi.pipeline.gold.alerts import USUAL_DAYS, alerts, touched_dates
from tinyagi.pipeline.steps import Dated, changed_rows
from tinyagi.pipeline.tables.bronze import EVENTS
from tinyagi.pipeline.tables.gold import AGENT_HOURLY, ALERTS
from tinyagi.pipeline.tables.model import DATE, Table
from tinyagi.pipeline.tables.silver import MESSAGES, RUNS
from tinyagi.pipeline.workshop import Plan, Workshop


@dataclass(frozen=True, slots=True)
class Judged:
    """Alerts of the days that changed, and of those whose hours are over only now."""

    table: Table = ALERTS

    def bring(self, shop: Workshop, through_id: int) -> Committed | None:
        def plan(snapshot: Snapshot) -> Plan | None:
            after = snapshot.through_id
            if after >= through_id:
                return None
            until = newest_instant(shop.open(EVENTS.name))
            if until is None:
                return Plan(None, through_id)
            hourly = Dated(RUNS.name, ended_runs, "ended_at").changed_dates(shop, after)
            came = dates_in(_by_arrival(changed_rows(shop, MESSAGES.name, after)))
            dates = touched_dates(hourly, came, before=_instant_of(shop, after), until=until)
            return Plan(_judge(shop, dates, until), through_id, snapshot.of_dates(dates), dates)

        return shop.write(self.table.name, plan)

    def everything(self, shop: Workshop) -> DataFrame:
        """The table as it should be."""
        until = newest_instant(shop.open(EVENTS.name))
        if until is None:
            return shop.read(shop.open(self.table.name), ())
        hourly = dates_in(shop.read(shop.open(AGENT_HOURLY.name)))
        came = dates_in(_by_arrival(shop.read(shop.open(MESSAGES.name))))
        return _judge(shop, touched_dates(hourly, came, before=None, until=until), until)


def newest_instant(bronze: Snapshot) -> int | None:
    """The latest that any event tells, but not beyond the days that events lie on: clocks may be wrong."""
    told = [int(file.statistics.maximum["created_at"]) for file in bronze.files]
    days = [_end_of(file.date) for file in bronze.files if file.date is not None]
    return min(max(told), max(days)) if told and days else None


def _instant_of(shop: Workshop, event: int) -> int | None:
    """When the last event before was recorded, as far as its clock can be believed; None when there was none."""
    bronze = shop.open(EVENTS.name)
    known = shop.read(bronze, bronze.reaching("id", event, event)).where(F.col("id") <= event)
    found = known.agg(F.max_by(F.struct("created_at", DATE), "id")).collect()[0][0] if event else None
    return None if found is None else min(found["created_at"], _end_of(found[DATE]))


def _judge(shop: Workshop, dates: frozenset[dt.date], until: int) -> DataFrame:
    since = min(dates) - dt.timedelta(days=USUAL_DAYS)
    hourly, messages = shop.open(AGENT_HOURLY.name), shop.open(MESSAGES.name)
    lately = [file for file in hourly.files if file.date is not None and file.date >= since]
    return alerts(
        shop.read(hourly, lately),
        shop.read(messages, messages.reaching("created_at", millis_of(since))),
        dates=dates,
        until=until,
    )


def _by_arrival(messages: DataFrame) -> DataFrame:
    return messages.withColumn(DATE, day_of(F.col("created_at")))


def _end_of(day: dt.date) -> int:
    return millis_of(day) + 24 * HOUR - 1
