"""Days and hours in milliseconds since 1970 UTC, and the range of dates that the lake accepts. No Spark."""

import datetime as dt
from typing import Final

FLOOR: Final = dt.date(2020, 1, 1)
"""The first partition. An earlier instant came from a wrong clock."""
CEILING: Final = dt.date(2100, 1, 1)
"""The last partition."""
HOUR: Final = 3_600_000
DAY: Final = 24 * HOUR


def millis_of(day: dt.date) -> int:
    """The start of a UTC day."""
    return int(dt.datetime(day.year, day.month, day.day, tzinfo=dt.UTC).timestamp() * 1000)


def utc_day(instant: int) -> dt.date:
    return dt.datetime.fromtimestamp(instant / 1000, dt.UTC).date()
