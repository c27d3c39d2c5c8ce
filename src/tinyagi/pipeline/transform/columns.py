"""Column functions shared by silver and gold: timestamps, their days and hours, elapsed times, aggregates, schemas."""

from itertools import pairwise

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tinyagi.domain.instants import DAY_MS
from tinyagi.domain.messages import PLATFORM_CHANNELS
from tinyagi.pipeline.tables.gold import HISTOGRAM_EDGES
from tinyagi.pipeline.tables.model import FIRST_DATE, FIRST_INSTANT, LAST_DATE, LAST_INSTANT, Table
from tinyagi.pipeline.tables.schema import arrow_schema


def instant(ms: Column) -> Column:
    """The timestamp of recorded milliseconds, clamped to the years 1 to 9999: a wrong clock may give any number."""
    bounded = F.greatest(F.least(ms, F.lit(LAST_INSTANT)), F.lit(FIRST_INSTANT))
    # `least` and `greatest` skip nulls.
    return F.when(ms.isNotNull(), F.timestamp_millis(bounded))


def day_of(timestamp: Column) -> Column:
    """The UTC day of a timestamp, clamped to the range of partitions."""
    bounded = F.greatest(F.least(F.to_date(timestamp), F.lit(LAST_DATE)), F.lit(FIRST_DATE))
    return F.when(timestamp.isNotNull(), bounded)


def arrival_day(ms: Column, now: int) -> Column:
    """The partition of an event that arrives now: at most tomorrow, because its clock may be ahead."""
    return day_of(instant(F.least(ms, F.lit(now + DAY_MS))))


def conversation_day(conversation_started_at: Column) -> Column:
    """The day of a conversation, at most the day of the event: no conversation starts after its events."""
    return F.least(day_of(conversation_started_at), F.col("date"))


def person() -> Column:
    """The person behind `channel` and `sender_id`: `domain.chats.person_of` as a column."""
    is_platform = F.col("channel").isin(*sorted(PLATFORM_CHANNELS))
    return F.when(is_platform, F.substring_index("sender_id", "#", 1)).otherwise(F.col("sender_id"))


def hour_of(timestamp: Column) -> Column:
    """The start of its UTC hour."""
    return F.date_trunc("hour", timestamp)


def elapsed_ms(start: str, end: str) -> Column:
    """Milliseconds between two timestamps; null when one is null or the clock went back."""
    span = F.unix_millis(F.col(end)) - F.unix_millis(F.col(start))
    return F.when(span >= 0, span)


def spark_schema(table: Table) -> StructType:
    return from_arrow_schema(arrow_schema(table))


def percentile(column: str, share: int) -> Column:
    """Spark's exact, interpolated percentile: the only definition in use."""
    return F.percentile(F.col(column), F.lit(share / 100)).alias(f"{column.removesuffix('_ms')}_p{share}")


def histogram(column: str) -> Column:
    """The number of values per bucket: one bucket up to and including each edge, and one above the last edge."""
    edges = HISTOGRAM_EDGES
    between = (f"{column} > {low} AND {column} <= {high}" for low, high in pairwise(edges))
    buckets = (f"{column} <= {edges[0]}", *between, f"{column} > {edges[-1]}")
    return F.expr(f"array({', '.join(f'count_if({bucket})' for bucket in buckets)})")


def total(column: str) -> Column:
    return F.coalesce(F.sum(column), F.lit(0)).cast("bigint").alias(column)


def total_cost(column: str = "cost") -> Column:
    """Summed as decimals: a sum of doubles depends on the order of the rows."""
    return F.coalesce(F.sum(F.col(column).cast("decimal(28,9)")), F.lit(0)).cast("double").alias(column)
