"""Instants (integers in milliseconds since 1970 UTC) from and to durations, days and text for people."""

from datetime import UTC, date, datetime, timedelta
from typing import Final

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS


def millis(duration: timedelta) -> int:
    """The duration in whole milliseconds."""
    return duration // timedelta(milliseconds=1)


def day_start(day: date) -> int:
    """The instant at which a UTC day starts."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)


def utc_day(instant: int) -> date:
    return datetime.fromtimestamp(instant / 1000, UTC).date()


def clock_time(instant: int, now: int) -> str:
    """The instant in this machine's time zone, in short: the time if it is today, else the date."""
    there, today = (datetime.fromtimestamp(moment / 1000, UTC).astimezone() for moment in (instant, now))
    if there.date() == today.date():
        return f"{there:%H:%M:%S}"
    return f"{there:%m-%d %H:%M}" if there.year == today.year else f"{there:%Y-%m-%d}"
