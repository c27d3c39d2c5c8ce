"""How tasks that act at an instant wait for it: whatever the clock does, they look again before long."""

import asyncio
import contextlib
from collections.abc import Coroutine
from datetime import timedelta
from typing import Final

LONGEST_WAIT: Final = timedelta(seconds=30)
"""A clock that is set, or a machine that has slept, is noticed within this time."""
SHORTEST_WAIT: Final = timedelta(milliseconds=250)
"""Between two looks, unless the instant comes first: a busy store changes more often than anybody has to look."""


async def until(instant: int | None, now: int, change: Coroutine[object, object, object]) -> None:
    """Wait for the instant, or for the change and a moment's rest, whichever is first."""
    rest = SHORTEST_WAIT.total_seconds()
    left = _seconds_left(instant, now)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(left):
            await asyncio.gather(change, asyncio.sleep(min(rest, left)))


def _seconds_left(instant: int | None, now: int) -> float:
    if instant is None:
        return LONGEST_WAIT.total_seconds()
    # What is due all the same after a look, because the store refused it, must not keep the loop busy.
    left = timedelta(milliseconds=instant - now) if instant > now else SHORTEST_WAIT
    return min(left, LONGEST_WAIT).total_seconds()
