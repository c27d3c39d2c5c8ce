"""Rate limits: a bucket per key that fills again with time."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

MOST_KEYS: Final = 10_000
"""Whoever invents new names pushes out old ones, and never more memory."""


class RateLimit:
    """So many a minute for each key, at once or spread."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> int:
        """Take one; 0 when there was one, else the seconds until there is."""
        if self._per_minute == 0:
            return 0
        now = self._clock()
        left = self._left(key, now)
        enough = left >= 1
        self._buckets[key] = (left - 1 if enough else left, now)
        self._buckets.move_to_end(key)
        if len(self._buckets) > MOST_KEYS:
            self._buckets.popitem(last=False)
        return 0 if enough else max(1, round((1 - left) * 60 / self._per_minute))

    def wait(self, key: str) -> int:
        """The seconds until there is one, without taking it."""
        left = self._left(key, self._clock())
        return 0 if self._per_minute == 0 or left >= 1 else max(1, round((1 - left) * 60 / self._per_minute))

    def _left(self, key: str, now: float) -> float:
        left, since = self._buckets.get(key, (float(self._per_minute), now))
        return min(float(self._per_minute), left + (now - since) * self._per_minute / 60)
