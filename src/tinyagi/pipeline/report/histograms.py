"""Percentiles of a longer range from the summed histograms of its hours."""

from collections.abc import Sequence
from typing import Final

from tinyagi.pipeline.report.model import Percentiles
from tinyagi.pipeline.tables.gold import HISTOGRAM_EDGES

BUCKETS: Final = len(HISTOGRAM_EDGES) + 1


def bounds(bucket: int) -> tuple[float, float]:
    """The ends of a bucket, in ms. The last one is open: nothing more than its lower end is known of what is in it."""
    lower = HISTOGRAM_EDGES[bucket - 1] if bucket else 0
    return float(lower), float(HISTOGRAM_EDGES[bucket] if bucket < len(HISTOGRAM_EDGES) else lower)


def percentile(counts: Sequence[int], share: float) -> float | None:
    """The value below which this share lies, near enough: never outside the buckets of the values it stands between.

    The same definition as the exact percentile of a single hour, which lies between two neighbours in the order of all
    values; only that here a bucket's values are taken to be spread evenly over it.
    """
    total = sum(counts)
    if total == 0:
        return None
    place = share * (total - 1)
    before = int(place)
    low = _value_at(counts, before)
    return low + (place - before) * (_value_at(counts, min(before + 1, total - 1)) - low)


def approximate(counts: Sequence[int]) -> Percentiles:
    return Percentiles(percentile(counts, 0.50), percentile(counts, 0.95), percentile(counts, 0.99))


def _value_at(counts: Sequence[int], place: int) -> float:
    """The value at this place in the order of all, from 0."""
    for bucket, count in enumerate(counts):
        if place < count:
            lower, upper = bounds(bucket)
            return lower + (place + 0.5) / count * (upper - lower)
        place -= count
    raise ValueError(f"There are only {sum(counts)} values.")
