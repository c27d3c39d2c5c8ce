"""gold.handoff_edges: who hands work to whom, per day of the hand-off."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows

from tinyagi.pipeline.clock import day_of
from tinyagi.pipeline.gold.measures import how_many, percentile


def dated_handoffs(handoffs: DataFrame) -> DataFrame:
    """Each on the day it was handed on."""
    return handoffs.withColumn("date", day_of(F.col("handed_at")))


def handoff_edges(handoffs: DataFrame) -> DataFrame:
    """Of `dated_handoffs`."""
    return handoffs.groupBy("from_agent", "to_agent", "date").agg(
        F.count("*").alias("handoffs"),
        how_many(F.col("status") == "completed").alias("completed"),
        how_many(F.col("status") == "dead").alias("dead"),
        percentile("wait_ms", 50),
        percentile("latency_ms", 50),
        percentile("latency_ms", 95),
    )
