"""gold.alerts: hours that differ much from the week before. Holds every rule; their limits are in `Thresholds`.

The alerts of a day depend only on that day and the seven days before it. So a changed day affects its own alerts and
those of the seven days after it. An hour is checked once it has ended as of the newest event, not by a clock.
`touched_dates` lists the affected days; recomputing those gives the same result as recomputing all. A recomputed alert
keeps its key, so it is not sent twice. The texts are stored: `pipeline verify` reports a difference when one changes.
"""

import datetime as dt
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tinyagi.domain.instants import DAY_MS, HOUR_MS, day_start, utc_day
from tinyagi.domain.messages import PASSIVE_PRIORITY
from tinyagi.pipeline.tables.gold import BASELINE_DAYS
from tinyagi.pipeline.transform.columns import day_of, hour_of, instant

USUAL_DAYS: Final = 7
"""An hour is compared with this many days before it."""
STUCK: Final = 6 * DAY_MS
"""A message that waits longer is stuck and no longer counts as backlog, so it matters for seven days only."""

_ENDED: Final = ("completed", "dead", "deleted")
_COLUMNS: Final = ("rule", "agent", "hour", "value", "usual", "text")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Limits beyond which an alert is raised."""

    least_days: int = BASELINE_DAYS
    """Every rule but `backlog`: days, of the seven before, on which the agent must have worked."""
    least_hours: int = 6
    """`cost_spike` and `slow_agent`: active hours needed within the seven days before."""
    cost_factor: float = 4.0
    """`cost_spike`: the cost of the hour exceeds the median of the agent's active hours by this factor, …"""
    cost_least: float = 1.0
    """… and at least this, in USD."""
    error_factor: float = 3.0
    """`error_rate`: the share of failed runs exceeds that of the seven days before by this factor, …"""
    error_least: float = 0.25
    """… and at least this, …"""
    error_runs: int = 5
    """… in an hour with at least this many runs."""
    slow_factor: float = 3.0
    """`slow_agent`: the p95 run time of the hour exceeds the median p95 of its active hours by this factor, …"""
    slow_least_ms: float = 30_000
    """… and at least this, …"""
    slow_runs: int = 5
    """… in an hour with at least this many runs."""
    backlog_least: int = 10
    """`backlog`: at least this many messages are due and not started at the end of the hour, …"""
    backlog_hours: int = 3
    """… and their number grew in each of this many hours, at most 23."""


def alerts(
    hourly: DataFrame,
    messages: DataFrame,
    *,
    dates: Collection[dt.date],
    until: int,
    thresholds: Thresholds | None = None,
) -> DataFrame:
    """All alerts of these days, at least one day, for hours that have ended by the instant `until`.

    From gold.agent_hourly and silver.messages. Both must reach back seven days before the first day; messages by
    arrival, whatever their partition.
    """
    limits = thresholds or Thresholds()
    since = instant(F.lit(day_start(min(dates)) - USUAL_DAYS * DAY_MS))
    found = unusual_hours(hourly.where(F.col("hour") >= since), limits)
    found = found.unionByName(backlogs(messages.where(F.col("created_at") >= since), limits))
    is_over = F.unix_millis("hour") + HOUR_MS <= until
    return found.where(is_over).withColumn("date", day_of(F.col("hour"))).where(F.col("date").isin(*dates))


def touched_dates(
    hourly: Collection[dt.date], messages: Collection[dt.date], *, before: int | None, until: int
) -> frozenset[dt.date]:
    """The days whose alerts may have changed.

    `hourly` are the changed days of gold.agent_hourly, `messages` the arrival days of changed messages. `before` and
    `until` are the instants of the newest event, last time and now: hours in between have ended since.
    """
    last = utc_day(until)
    changed = {day + dt.timedelta(days=later) for day in (*hourly, *messages) for later in range(USUAL_DAYS + 1)}
    first = last if before is None else utc_day(before)
    ended = {first + dt.timedelta(days=later) for later in range((last - first).days + 1)}
    return frozenset(day for day in changed | ended if day <= last)


def unusual_hours(hourly: DataFrame, limits: Thresholds) -> DataFrame:
    """`cost_spike`, `error_rate` and `slow_agent`, each hour compared with the agent's active hours before it."""
    week = Window.partitionBy("agent").orderBy(F.unix_millis("hour")).rangeBetween(-USUAL_DAYS * DAY_MS, -1)
    day = day_of(F.col("hour"))
    known = hourly.withColumns(
        {
            "earlier_days": F.size(F.array_remove(F.collect_set(day).over(week), day)),
            "usual_cost": F.percentile("cost", 0.5).over(week),
            "cost_hours": F.count("cost").over(week),
            "usual_p95": F.percentile("run_p95", 0.5).over(week),
            "p95_hours": F.count("run_p95").over(week),
            "usual_rate": F.sum("failures").over(week) / F.sum("runs").over(week),
            "rate": F.col("failures") / F.col("runs"),
        }
    )
    rules = (_cost_spike(limits), _error_rate(limits), _slow_agent(limits))
    return (
        known.where(F.col("earlier_days") >= limits.least_days)
        .select("agent", "hour", F.inline(F.array_compact(F.array(*rules))))
        .select(*_COLUMNS)
    )


def backlogs(messages: DataFrame, limits: Thresholds) -> DataFrame:
    """`backlog`: messages waiting in a lane at the end of an hour. A message waits from its due time to its first run.

    Posts that wake no agent do not count. Only hours in which the backlog changes have a row.
    """
    started, available = F.col("first_started_at"), F.col("available_at")
    # A later `available_at` belongs to a retry; the first due time is no longer known.
    is_first = available <= F.coalesce(started, available)
    due = F.when(is_first, F.greatest("created_at", available)).otherwise(F.col("created_at"))
    gone = F.coalesce(started, F.when(F.col("status").isin(*_ENDED), F.col("updated_at")))
    counted = F.col("agent").isNotNull() & (F.coalesce("priority", F.lit(0)) > PASSIVE_PRIORITY)
    waits = messages.where(counted).select(
        "agent",
        hour_of(due).alias("arrived"),
        hour_of(F.least(gone, instant(F.unix_millis("created_at") + STUCK))).alias("left"),
    )
    lasting = waits.where(F.col("arrived") < F.col("left"))
    steps = lasting.select("agent", F.col("arrived").alias("hour"), F.lit(1).alias("step")).unionAll(
        lasting.select("agent", F.col("left").alias("hour"), F.lit(-1).alias("step"))
    )
    lane = Window.partitionBy("agent").orderBy(F.unix_millis("hour"))
    recent = lane.rangeBetween(-(limits.backlog_hours - 1) * HOUR_MS, 0)
    grown = steps.groupBy("agent", "hour").agg(F.sum("step").alias("grown"))
    known = grown.withColumns(
        {
            "waiting": F.sum("grown").over(lane),
            "rises": F.count(F.when(F.col("grown") > 0, 1)).over(recent),
            "more": F.sum("grown").over(recent),
        }
    )
    is_alert = (F.col("waiting") >= limits.backlog_least) & (F.col("rises") == limits.backlog_hours)
    shape = f"%d messages wait for @%s at %s, %d more than {limits.backlog_hours} hours before."
    return known.where(is_alert).select(
        F.lit("backlog").alias("rule"),
        "agent",
        "hour",
        F.col("waiting").cast("double").alias("value"),
        (F.col("waiting") - F.col("more")).cast("double").alias("usual"),
        F.format_string(shape, "waiting", "agent", _end(), "more").alias("text"),
    )


def _cost_spike(limits: Thresholds) -> Column:
    cost, usual = F.col("cost"), F.col("usual_cost")
    is_known = F.col("cost_hours") >= limits.least_hours
    is_far = (cost >= limits.cost_least) & (cost > usual * limits.cost_factor)
    shape = "@%s cost %.2f USD %s; %.2f USD in an hour is usual."
    return _alert("cost_spike", is_known & is_far, cost, usual, F.format_string(shape, "agent", cost, _hour(), usual))


def _error_rate(limits: Thresholds) -> Column:
    rate, usual = F.col("rate"), F.col("usual_rate")
    is_known = F.col("runs") >= limits.error_runs
    is_far = (rate >= limits.error_least) & (rate > usual * limits.error_factor)
    shape = "@%s failed in %d of %d runs %s; %.0f %% is usual."
    text = F.format_string(shape, "agent", "failures", "runs", _hour(), usual * 100)
    return _alert("error_rate", is_known & is_far, rate, usual, text)


def _slow_agent(limits: Thresholds) -> Column:
    p95, usual = F.col("run_p95"), F.col("usual_p95")
    is_known = (F.col("p95_hours") >= limits.least_hours) & (F.col("runs") >= limits.slow_runs)
    is_far = (p95 >= limits.slow_least_ms) & (p95 > usual * limits.slow_factor)
    shape = "@%s was slow %s: of its runs 95 %% took up to %.1f s; %.1f s is usual."
    text = F.format_string(shape, "agent", _hour(), p95 / 1000, usual / 1000)
    return _alert("slow_agent", is_known & is_far, p95, usual, text)


def _alert(rule: str, fires: Column, value: Column, usual: Column, text: Column) -> Column:
    fields = (F.lit(rule).alias("rule"), value.alias("value"), usual.alias("usual"), text.alias("text"))
    return F.when(fires, F.struct(*fields))


def _hour() -> Column:
    begin, end = _number_of_hour(), _number_of_hour() + 1
    return F.format_string("from %02d:00 to %02d:00 UTC on %s", begin, end, _date())


def _end() -> Column:
    return F.format_string("%02d:00 UTC on %s", _number_of_hour() + 1, _date())


def _number_of_hour() -> Column:
    return F.hour("hour")


def _date() -> Column:
    return day_of(F.col("hour")).cast("string")
