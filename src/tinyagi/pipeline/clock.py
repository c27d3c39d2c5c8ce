"""Instants in columns: days and hours of them, and the time between two."""

import datetime as dt
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows

FLOOR: Final = dt.date(2020, 1, 1)
"""No event is older: what says so came from a wrong clock."""
CEILING: Final = dt.date(2100, 1, 1)
HOUR: Final = 3_600_000


def millis_of(day: dt.date) -> int:
    return int(dt.datetime(day.year, day.month, day.day, tzinfo=dt.UTC).timestamp() * 1000)


def day_of(instant: Column) -> Column:
    """The UTC day of an instant; what no clock can mean is kept within bounds."""
    bounded = F.greatest(F.least(instant, F.lit(millis_of(CEILING))), F.lit(millis_of(FLOOR)))
    return F.when(instant.isNotNull(), F.to_date(F.timestamp_millis(bounded)))


def arrival_day(instant: Column, now: int) -> Column:
    """The day of an event that arrives now: at most tomorrow."""
    return day_of(F.least(instant, F.lit(now + 24 * HOUR)))


def beginning(conversation_started_at: Column) -> Column:
    """The day of a conversation, seen from an event of it: no conversation begins after its events."""
    return F.least(day_of(conversation_started_at), F.col("date"))


def hour_of(instant: Column) -> Column:
    return (F.floor(instant / HOUR) * HOUR).cast("bigint")


def elapsed(start: str, end: str) -> Column:
    """Milliseconds from one instant to a later one; null when one is missing or the clock went back."""
    span = F.col(end) - F.col(start)
    return F.when(span >= 0, span)
