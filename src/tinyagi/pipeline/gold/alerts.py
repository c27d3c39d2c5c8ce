"""gold.alerts: hours that are far from what was usual. Every rule stands here, its numbers in `Thresholds`.

The alerts of a day follow from that day and the seven days before it, and from nothing else: what was usual, and what
still waits. So a day whose rows change asks for the alerts of that day and of the seven that follow, not of more; and
an hour is judged once it is over as of the newest event, so no clock is asked. `touched_dates` says which days that
makes, and judging those gives what judging all of them would give. An alert that is replaced keeps its key: it is not
told twice.
"""

import datetime as dt
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows

from tinyagi.domain.messages import PASSIVE_PRIORITY
from tinyagi.pipeline.clock import HOUR, day_of, hour_of, millis_of

DAY: Final = 24 * HOUR
USUAL_DAYS: Final = 7
"""How far back goes what an hour is compared with."""
STUCK: Final = 6 * DAY
"""A message that waits for longer is stuck and no part of a backlog: it counts within the seven days after it came."""

_OVER: Final = ("completed", "dead", "deleted")
_COLUMNS: Final = ("rule", "agent", "hour", "value", "usual", "text")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From where on something is worth a person's attention."""

    least_hours: int = 6
    """Active hours within the seven days before without which nothing is usual yet; for `cost_spike`, `slow_agent`."""
    cost_factor: float = 4.0
    """`cost_spike`: the cost of the hour is more than so many times the median of the agent's active hours, …"""
    cost_least: float = 1.0
    """… and at least this, in USD."""
    error_factor: float = 3.0
    """`error_rate`: the share of runs that failed is more than so many times the share in the seven days before, …"""
    error_least: float = 0.25
    """… and at least this, …"""
    error_runs: int = 5
    """… in an hour with at least so many runs."""
    slow_factor: float = 3.0
    """`slow_agent`: the hour's p95 of the runs is more than so many times the median of the p95 of its hours, …"""
    slow_least_ms: float = 30_000
    """… and at least this, …"""
    slow_runs: int = 5
    """… in an hour with at least so many runs."""
    backlog_least: int = 10
    """`backlog`: at least so many messages are due and not begun at the end of the hour, …"""
    backlog_hours: int = 3
    """… and they became more in each of so many hours, at most 23."""


def alerts(
    hourly: DataFrame,
    messages: DataFrame,
    *,
    dates: Collection[dt.date],
    until: int,
    thresholds: Thresholds | None = None,
) -> DataFrame:
    """All alerts of these days, of which there must be one at least, for hours that are over at the instant `until`.

    Of gold.agent_hourly and silver.messages, with at least what is from the seven days before the first of the days on:
    of messages those that came since then, in whichever partition.
    """
    limits = thresholds or Thresholds()
    since = millis_of(min(dates)) - USUAL_DAYS * DAY
    told = unusual_hours(hourly.where(F.col("hour") >= since), limits)
    told = told.unionByName(backlogs(messages.where(F.col("created_at") >= since), limits))
    is_over = F.col("hour") + HOUR <= until
    return told.where(is_over).withColumn("date", day_of(F.col("hour"))).where(F.col("date").isin(*dates))


def touched_dates(
    hourly: Collection[dt.date], messages: Collection[dt.date], *, before: int | None, until: int
) -> frozenset[dt.date]:
    """The days whose alerts may be others than before.

    `hourly` are the days that changed in gold.agent_hourly, `messages` those on which changed messages came. `before`
    and `until` are the instants of the newest events, last time and now: an hour in between is over only now.
    """
    last = _day(until)
    changed = {day + dt.timedelta(days=later) for day in (*hourly, *messages) for later in range(USUAL_DAYS + 1)}
    first = last if before is None else _day(before)
    ripened = {first + dt.timedelta(days=later) for later in range((last - first).days + 1)}
    return frozenset(day for day in changed | ripened if day <= last)


def unusual_hours(hourly: DataFrame, limits: Thresholds) -> DataFrame:
    """`cost_spike`, `error_rate` and `slow_agent`, each hour compared with the agent's active hours before it."""
    week = Window.partitionBy("agent").orderBy("hour").rangeBetween(-USUAL_DAYS * DAY, -1)
    known = hourly.withColumns(
        {
            "usual_cost": F.percentile("cost", 0.5).over(week),
            "cost_hours": F.count("cost").over(week),
            "usual_p95": F.percentile("run_p95", 0.5).over(week),
            "p95_hours": F.count("run_p95").over(week),
            # An agent that fails from its first hour on is worth a word as well.
            "usual_rate": F.coalesce(F.sum("failures").over(week) / F.sum("runs").over(week), F.lit(0.0)),
            "rate": F.col("failures") / F.col("runs"),
        }
    )
    rules = (_cost_spike(limits), _error_rate(limits), _slow_agent(limits))
    return known.select("agent", "hour", F.inline(F.array_compact(F.array(*rules)))).select(*_COLUMNS)


def backlogs(messages: DataFrame, limits: Thresholds) -> DataFrame:
    """`backlog`: what waits in a lane at the end of an hour, from when it is due until its first run or its end.

    Posts that wake nobody wait for nothing. Only hours in which the backlog changes have a row, and it grows in those.
    """
    started, available = F.col("first_started_at"), F.col("available_at")
    # Later than its first run it belongs to a further attempt, and when it was due at first is no longer known.
    is_first = available <= F.coalesce(started, available)
    due = F.when(is_first, F.greatest("created_at", available)).otherwise(F.col("created_at"))
    gone = F.coalesce(started, F.when(F.col("status").isin(*_OVER), F.col("updated_at")))
    counted = F.col("agent").isNotNull() & (F.coalesce("priority", F.lit(0)) > PASSIVE_PRIORITY)
    waits = messages.where(counted).select(
        "agent",
        hour_of(due).alias("came"),
        hour_of(F.least(gone, F.col("created_at") + STUCK)).alias("went"),
    )
    lasting = waits.where(F.col("came") < F.col("went"))
    steps = lasting.select("agent", F.col("came").alias("hour"), F.lit(1).alias("step")).unionAll(
        lasting.select("agent", F.col("went").alias("hour"), F.lit(-1).alias("step"))
    )
    lane = Window.partitionBy("agent").orderBy("hour")
    lately = lane.rangeBetween(-(limits.backlog_hours - 1) * HOUR, 0)
    grown = steps.groupBy("agent", "hour").agg(F.sum("step").alias("grown"))
    known = grown.withColumns(
        {
            "waiting": F.sum("grown").over(lane),
            "rises": F.count(F.when(F.col("grown") > 0, 1)).over(lately),
            "more": F.sum("grown").over(lately),
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
    return F.expr(f"cast(hour div {HOUR} % 24 as int)")


def _date() -> Column:
    return day_of(F.col("hour")).cast("string")


def _day(instant: int) -> dt.date:
    return dt.datetime.fromtimestamp(instant / 1000, dt.UTC).date()
