"""Figures that several gold tables share: exact percentiles, fixed histograms, sums that do not depend on an order."""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows

from tinyagi.pipeline.tables.gold import HISTOGRAM_EDGES


def percentile(of: str, share: int) -> Column:
    """Spark's exact percentile, interpolated: the one definition everywhere."""
    return F.percentile(F.col(of), F.lit(share / 100)).alias(f"{of.removesuffix('_ms')}_p{share}")


def histogram(of: str) -> Column:
    """How many values lie in each bucket: one number per edge, for what is above the edge before it, and one for the
    rest."""
    value = F.col(of)
    lows, highs = (None, *HISTOGRAM_EDGES), (*HISTOGRAM_EDGES, None)
    return F.array(*(how_many(_within(value, low, high)) for low, high in zip(lows, highs, strict=True)))


def total(of: str) -> Column:
    return F.coalesce(F.sum(of), F.lit(0)).cast("bigint").alias(of)


def total_cost(of: str = "cost") -> Column:
    """Added as decimals: a sum of doubles depends on the order in which they come."""
    return F.coalesce(F.sum(F.col(of).cast("decimal(28,9)")), F.lit(0)).cast("double").alias(of)


def how_many(condition: Column) -> Column:
    return F.count(F.when(condition, 1))


def _within(value: Column, low: int | None, high: int | None) -> Column:
    above = F.lit(True) if low is None else value > low
    return above if high is None else above & (value <= high)
