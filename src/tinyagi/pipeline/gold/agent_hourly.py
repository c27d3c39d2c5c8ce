"""gold.agent_hourly: what each agent did in each hour, by the hour in which its runs ended."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows

from tinyagi.pipeline.clock import day_of, hour_of
from tinyagi.pipeline.gold.measures import histogram, how_many, percentile, total, total_cost


def ended_runs(runs: DataFrame) -> DataFrame:
    """Runs that are over, each on the day it ended."""
    return runs.where(F.col("ended_at").isNotNull()).withColumn("date", day_of(F.col("ended_at")))


def agent_hourly(runs: DataFrame) -> DataFrame:
    """Of `ended_runs`."""
    outcome = F.col("outcome")
    return runs.groupBy("agent", hour_of(F.col("ended_at")).alias("hour"), "date").agg(
        F.count("*").alias("runs"),
        how_many(outcome == "completed").alias("completed"),
        how_many(outcome.isin("failed", "dead")).alias("failures"),
        how_many(F.col("attempt") > 1).alias("retries"),
        how_many(outcome == "dead").alias("dead"),
        *(percentile("wait_ms", share) for share in (50, 95, 99)),
        *(percentile("run_ms", share) for share in (50, 95, 99)),
        histogram("wait_ms").alias("wait_hist"),
        histogram("run_ms").alias("run_hist"),
        *(total(name) for name in ("input_tokens", "output_tokens", "cache_tokens")),
        total_cost(),
    )
