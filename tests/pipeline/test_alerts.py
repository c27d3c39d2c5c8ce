import datetime as dt
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.lakes import full_rows
from tinyagi.pipeline.instants import in_millis
from tinyagi.pipeline.tables.catalog import find_table
from tinyagi.pipeline.transform.alerts import Thresholds, alerts, touched_dates
from tinyagi.pipeline.transform.columns import spark_schema

HOUR = 3_600_000
DAY = 24 * HOUR
MONDAY = dt.date(2026, 1, 5)
NOON = int(dt.datetime(2026, 1, 5, 12, tzinfo=dt.UTC).timestamp() * 1000)
SIMPLE = Thresholds(least_days=0, least_hours=2, backlog_least=3)

Rows = Sequence[Mapping[str, Any]]


def frame(spark: SparkSession, name: str, rows: Rows) -> DataFrame:
    table = find_table(name)
    return spark.createDataFrame(full_rows(table, rows), spark_schema(table))


def day_of(instant: int) -> dt.date:
    return dt.datetime.fromtimestamp(instant / 1000, dt.UTC).date()


def hour(hours_before: int, **figures: Any) -> dict[str, Any]:
    """An hour of the coder that ends `hours_before` hours before noon; by default five quick runs for 10 cents."""
    begin = NOON - (hours_before + 1) * HOUR
    usual = {"agent": "coder", "runs": 5, "failures": 0, "run_p95": 10_000.0, "cost": 0.1}
    return {**usual, "hour": begin, "date": day_of(begin), **figures}


def waiting(number: int, came: int, **fields: Any) -> dict[str, Any]:
    usual = {"id": number, "agent": "coder", "priority": 0, "status": "pending", "available_at": 0, "created_at": came}
    return {**usual, "date": day_of(came), **fields}


def find_alerts(
    spark: SparkSession, hourly: Rows = (), messages: Rows = (), *, until: int = NOON, limits: Thresholds = SIMPLE
) -> list[dict[str, Any]]:
    found = alerts(
        frame(spark, "gold.agent_hourly", hourly),
        frame(spark, "silver.messages", messages),
        dates=[MONDAY],
        until=until,
        thresholds=limits,
    )
    assert set(found.columns) == set(spark_schema(find_table("gold.alerts")).names)
    rows: list[dict[str, Any]] = in_millis(found.orderBy("rule", "agent", "hour").toArrow()).to_pylist()
    return rows


def test_an_hour_with_unusual_cost_gives_an_alert(spark: SparkSession) -> None:
    (alert,) = find_alerts(spark, [hour(3), hour(2, cost=0.3), hour(0, cost=4.5)])

    assert alert == {
        "rule": "cost_spike",
        "agent": "coder",
        "hour": NOON - HOUR,
        "value": 4.5,
        "usual": 0.2,
        "text": "@coder cost 4.50 USD from 11:00 to 12:00 UTC on 2026-01-05; 0.20 USD in an hour is usual.",
        "date": MONDAY,
    }


def test_other_costs_give_no_alert(spark: SparkSession) -> None:
    cases = {
        "below-the-least": [hour(3), hour(2), hour(0, cost=0.9)],
        "not-far-above": [hour(3, cost=2.0), hour(2, cost=2.0), hour(0, cost=7.9)],
        "nothing-is-usual-yet": [hour(2), hour(0, cost=9.0)],
        "usual-long-ago": [hour(7 * 24 + 1), hour(7 * 24 + 2), hour(0, cost=9.0)],
    }

    assert find_alerts(spark, [{**row, "agent": agent} for agent, rows in cases.items() for row in rows]) == []


def test_an_hour_with_an_unusual_error_rate_gives_an_alert(spark: SparkSession) -> None:
    (alert,) = find_alerts(
        spark, [hour(3, runs=20, failures=1), hour(2, runs=20, failures=3), hour(0, runs=8, failures=4)]
    )

    assert (alert["rule"], alert["value"], alert["usual"]) == ("error_rate", 0.5, 0.1)
    assert alert["text"] == "@coder failed in 4 of 8 runs from 11:00 to 12:00 UTC on 2026-01-05; 10 % is usual."


def test_constant_failures_and_few_runs_give_no_alert(spark: SparkSession) -> None:
    broken = [hour(ago, agent="writer", runs=10, failures=6) for ago in range(3)]
    rare = [hour(3), hour(0, runs=4, failures=4)]

    assert find_alerts(spark, [*broken, *rare]) == []


def test_an_agent_gives_no_alert_before_its_third_day(spark: SparkSession) -> None:
    bad = {"runs": 10, "failures": 9, "cost": 9.0, "run_p95": 95_000.0}
    first_day = [hour(ago) for ago in range(1, 9)]
    yesterday, before = (
        [hour(ago + 24 * days, agent=agent) for ago in range(8) for days in range(1, many + 1)]
        for agent, many in (("second-day", 1), ("third-day", 2))
    )
    now = [hour(0, agent=agent, **bad) for agent in ("coder", "second-day", "third-day")]

    found = find_alerts(spark, [*first_day, *yesterday, *before, *now], limits=Thresholds())

    assert {alert["agent"] for alert in found} == {"third-day"}
    assert [alert["rule"] for alert in found] == ["cost_spike", "error_rate", "slow_agent"]


def test_an_hour_of_slow_runs_gives_an_alert(spark: SparkSession) -> None:
    (alert,) = find_alerts(spark, [hour(3), hour(2, run_p95=None), hour(1), hour(0, run_p95=95_000.0)])

    assert (alert["rule"], alert["value"], alert["usual"]) == ("slow_agent", 95_000, 10_000)
    assert alert["text"] == (
        "@coder was slow from 11:00 to 12:00 UTC on 2026-01-05: of its runs 95 % took up to 95.0 s; 10.0 s is usual."
    )


def test_few_or_quick_runs_give_no_alert(spark: SparkSession) -> None:
    few = [hour(3), hour(2), hour(0, run_p95=95_000.0, runs=4)]
    quick = [hour(ago, agent="writer", run_p95=20.0) for ago in (3, 2)] + [hour(0, agent="writer", run_p95=29_000.0)]

    assert find_alerts(spark, [*few, *quick]) == []


def test_a_growing_backlog_gives_an_alert(spark: SparkSession) -> None:
    messages = [waiting(number, NOON - ago * HOUR + 5) for number, ago in enumerate((4, 3, 3, 2, 1, 1), 1)]

    (last, first) = sorted(find_alerts(spark, messages=messages), key=lambda alert: -alert["hour"])

    assert (last["rule"], last["hour"], last["value"], last["usual"]) == ("backlog", NOON - HOUR, 6, 1)
    assert last["text"] == "6 messages wait for @coder at 12:00 UTC on 2026-01-05, 5 more than 3 hours before."
    assert (first["hour"], first["value"], first["usual"]) == (NOON - 2 * HOUR, 4, 0)


GROWING = [waiting(number, NOON - ago * HOUR + 5) for number, ago in enumerate((3, 2, 1), 1)]


def test_messages_that_do_not_wait_are_no_backlog(spark: SparkSession) -> None:
    cases: dict[str, dict[str, Any]] = {
        "waits": {},
        "begun": {"first_started_at": NOON - 2 * HOUR - 1},
        "deleted": {"status": "deleted", "updated_at": NOON - 2 * HOUR - 1},
        "wakes-nobody": {"priority": -2},
        "not-due": {"available_at": NOON + 1},
        "was-not-due": {"available_at": NOON - 2 * HOUR + 1, "first_started_at": NOON + 1},
        "waited-and-is-tried-again": {"available_at": NOON + 10, "first_started_at": NOON + 5},
        "stuck": {"created_at": NOON - 6 * DAY - HOUR},
    }
    messages = [
        {**row, "agent": agent} for agent, change in cases.items() for row in ({**GROWING[0], **change}, *GROWING[1:])
    ]

    assert [alert["agent"] for alert in find_alerts(spark, messages=messages)] == ["waited-and-is-tried-again", "waits"]


def test_an_hour_is_checked_when_it_is_over(spark: SparkSession) -> None:
    hourly = [hour(3), hour(2), hour(0, cost=9.0)]

    assert find_alerts(spark, hourly, GROWING, until=NOON - 1) == []
    assert len(find_alerts(spark, hourly, GROWING, until=NOON)) == 2


def test_a_changed_day_affects_itself_the_next_week_and_newly_finished_hours() -> None:
    def days(*numbers: int) -> set[dt.date]:
        return {MONDAY + dt.timedelta(days=number) for number in numbers}

    later = NOON + 20 * DAY

    assert touched_dates([MONDAY], [], before=None, until=later) == days(*range(8), 20)
    assert touched_dates([], [MONDAY], before=later, until=later) == days(*range(8), 20)
    assert touched_dates([], [], before=later - 2 * DAY, until=later) == days(18, 19, 20)
    assert touched_dates([MONDAY], [], before=NOON, until=NOON) == days(0)


class Past:
    """Runs and messages in the order of their arrival, which differs from the order of their times."""

    def __init__(self, seed: int) -> None:
        dice = random.Random(seed)
        self.known: list[tuple[str, dict[str, Any]]] = []
        for at in sorted(NOON + dice.randrange(20 * DAY) for _ in range(900)):
            instant = max(NOON, at - dice.choice((0, 0, 0, 0, dice.randrange(9 * DAY))))
            agent = dice.choice(("coder", "writer"))
            if dice.random() < 0.6:
                run = {"cost": dice.choice((0.1, 5.0)), "failed": dice.random() < 0.2, "ms": dice.choice((1e4, 9e4))}
                self.known.append(("run", {"agent": agent, "at": instant, **run}))
            else:
                started = dice.choice((None, instant + dice.randrange(2 * DAY)))
                row = waiting(len(self.known), instant, agent=agent, first_started_at=None)
                self.known.append(("message", row))
                if started is not None:
                    self.known.append(("message", {**row, "first_started_at": started}))

    def hourly(self, upto: int) -> list[dict[str, Any]]:
        grouped = defaultdict(list)
        for kind, run in self.known[:upto]:
            if kind == "run":
                grouped[run["agent"], run["at"] // HOUR * HOUR].append(run)
        return [
            {
                "agent": agent,
                "hour": begin,
                "runs": len(runs),
                "failures": sum(run["failed"] for run in runs),
                "run_p95": max(run["ms"] for run in runs),
                "cost": round(sum(run["cost"] for run in runs), 2),
                "date": day_of(begin),
            }
            for (agent, begin), runs in grouped.items()
        ]

    def messages(self, upto: int) -> list[dict[str, Any]]:
        return list({row["id"]: row for kind, row in self.known[:upto] if kind == "message"}.values())

    def until(self, upto: int) -> int:
        instants: list[int] = [row["at" if kind == "run" else "created_at"] for kind, row in self.known[:upto]]
        return max(NOON, *instants)

    def changed(self, after: int, upto: int) -> tuple[set[dt.date], set[dt.date]]:
        rows = self.known[after:upto]
        return (
            {day_of(row["at"]) for kind, row in rows if kind == "run"},
            {day_of(row["created_at"]) for kind, row in rows if kind == "message"},
        )


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 10))])
def test_checking_affected_days_gives_the_same_alerts_as_checking_all_days(spark: SparkSession, seed: int) -> None:
    past = Past(seed)
    low = Thresholds(least_days=1, least_hours=2, error_runs=1, slow_runs=1, backlog_least=2, backlog_hours=2)

    def found_alerts(upto: int, dates: frozenset[dt.date]) -> set[tuple[Any, ...]]:
        hourly = frame(spark, "gold.agent_hourly", past.hourly(upto))
        messages = frame(spark, "silver.messages", past.messages(upto))
        found = alerts(hourly, messages, dates=dates, until=past.until(upto), thresholds=low)
        return {tuple(row) for row in found.select("date", "rule", "agent", "hour", "value", "usual", "text").collect()}

    kept: set[tuple[Any, ...]] = set()
    ends = [0, 250, 260, 600, 900, len(past.known)]
    for after, upto in pairwise(ends):
        hourly, messages = past.changed(after, upto)
        before = past.until(after) if after else None
        dates = touched_dates(hourly, messages, before=before, until=past.until(upto))
        kept = {row for row in kept if row[0] not in dates} | found_alerts(upto, dates)

    everything = {day for row in (*past.hourly(ends[-1]), *past.messages(ends[-1])) for day in [row["date"]]}
    until = past.until(ends[-1])
    assert kept == found_alerts(ends[-1], touched_dates(everything, everything, before=None, until=until))
    assert {row[1] for row in kept} == {"cost_spike", "error_rate", "slow_agent", "backlog"}
