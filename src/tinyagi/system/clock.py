"""Wall-clock time in milliseconds that never runs backwards within a process."""

import threading
import time
from collections.abc import Callable


def wall_clock() -> int:
    return time.time_ns() // 1_000_000


def monotonic_clock() -> int:
    return time.monotonic_ns() // 1_000_000


class SteadyClock:
    """Keeps running when the wall clock is set back, so that waits and durations stay right.

    It is then ahead of the wall clock. It gives up that lead when the wall clock jumps forward again, that is, when the
    wall clock advances more than the monotonic clock.
    """

    def __init__(self, wall: Callable[[], int] = wall_clock, monotonic: Callable[[], int] = monotonic_clock) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._last_wall = wall()
        self._last_monotonic = monotonic()
        self._lead = 0
        self._lock = threading.Lock()

    def __call__(self) -> int:
        with self._lock:
            wall, monotonic = self._wall(), self._monotonic()
            jump = (wall - self._last_wall) - (monotonic - self._last_monotonic)
            if wall < self._last_wall:
                self._lead += self._last_wall - wall
            elif jump > 0:
                self._lead -= min(self._lead, jump)
            self._last_wall, self._last_monotonic = wall, monotonic
            return wall + self._lead
