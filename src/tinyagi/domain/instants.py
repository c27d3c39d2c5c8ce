"""Converts between instants (integers in milliseconds), durations (timedelta) and text for people."""

from datetime import UTC, datetime, timedelta


def millis(duration: timedelta) -> int:
    """The duration in whole milliseconds."""
    return duration // timedelta(milliseconds=1)


def clock_time(instant: int, now: int) -> str:
    """The instant in this machine's time zone, in short: the time if it is today, else the date."""
    there, today = (datetime.fromtimestamp(moment / 1000, UTC).astimezone() for moment in (instant, now))
    if there.date() == today.date():
        return f"{there:%H:%M:%S}"
    return f"{there:%m-%d %H:%M}" if there.year == today.year else f"{there:%Y-%m-%d}"
