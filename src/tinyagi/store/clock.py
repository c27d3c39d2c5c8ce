"""The store's time: wall-clock milliseconds that never run backwards while the process lives."""

import threading
import time
from collections.abc import Callable


def wall_clock() -> int:
    return time.time_ns() // 1_000_000


class SteadyClock:
    """Continues at its own pace when the wall clock is set back, so that waits and durations stay right.

    A step forward is taken over: after a laptop's sleep it is real time.
    """

    def __init__(self, wall: Callable[[], int] = wall_clock) -> None:
        self._wall = wall
        self._last = wall()
        self._offset = 0
        self._lock = threading.Lock()

    def __call__(self) -> int:
        with self._lock:
            wall = self._wall()
            if wall < self._last:
                self._offset += self._last - wall
            self._last = wall
            return wall + self._offset
