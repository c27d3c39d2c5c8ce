"""Column functions shared by silver and gold: days and hours of instants, elapsed times, aggregates, table schemas."""

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tinyagi.domain.instants import DAY_MS, HOUR_MS, day_start
from tinyagi.pipeline.tables.gold import HISTOGRAM_EDGES
from tinyagi.pipeline.tables.model import FIRST_DATE, LAST_DATE, Table
from tinyagi.pipeline.tables.schema import arrow_schema


def day_of(instant: Column) -> Column:
    """The UTC day of an instant, clamped to the range of partitions."""
    bounded = F.greatest(F.least(instant, F.lit(day_start(LAST_DATE))), F.lit(day_start(FIRST_DATE)))
    return F.when(instant.isNotNull(), F.to_date(F.timestamp_millis(bounded)))


def arrival_day(instant: Column, now: int) -> Column:
    """The partition of an event that arrives now: at most tomorrow, because its clock may be ahead."""
    return day_of(F.least(instant, F.lit(now + DAY_MS)))


def conversation_day(conversation_started_at: Column) -> Column:
    """The day of a conversation, at most the day of the event: no conversation starts after its events."""
    return F.least(day_of(conversation_started_at), F.col("date"))


def hour_of(instant: Column) -> Column:
    return (F.floor(instant / HOUR_MS) * HOUR_MS).cast("bigint")


def elapsed_ms(start: str, end: str) -> Column:
    """Milliseconds between two columns; null when one is null or the clock went back."""
    span = F.col(end) - F.col(start)
    return F.when(span >= 0, span)


def spark_schema(table: Table) -> StructType:
    return from_arrow_schema(arrow_schema(table))


def percentile(column: str, share: int) -> Column:
    """Spark's exact, interpolated percentile: the only definition in use."""
    return F.percentile(F.col(column), F.lit(share / 100)).alias(f"{column.removesuffix('_ms')}_p{share}")


def histogram(column: str) -> Column:
    """The number of values per bucket: one bucket up to and including each edge, and one above the last edge."""
    value = F.col(column)
    lows, highs = (None, *HISTOGRAM_EDGES), (*HISTOGRAM_EDGES, None)
    return F.array(*(F.count_if(_within(value, low, high)) for low, high in zip(lows, highs, strict=True)))


def total(column: str) -> Column:
    return F.coalesce(F.sum(column), F.lit(0)).cast("bigint").alias(column)


def total_cost(column: str = "cost") -> Column:
    """Summed as decimals: a sum of doubles depends on the order of the rows."""
    return F.coalesce(F.sum(F.col(column).cast("decimal(28,9)")), F.lit(0)).cast("double").alias(column)


def _within(value: Column, low: int | None, high: int | None) -> Column:
    above = F.lit(True) if low is None else value > low
    return above if high is None else above & (value <= high)
