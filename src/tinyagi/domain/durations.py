"""Instants are integers in milliseconds, durations are timedeltas; this is the step between them."""

from datetime import timedelta


def millis(duration: timedelta) -> int:
    """The duration in whole milliseconds."""
    return duration // timedelta(milliseconds=1)
