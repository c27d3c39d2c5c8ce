"""Rows of quarantine.events: invalid events, and runs that end before they start."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tinyagi.pipeline.tables.catalog import QUARANTINE
from tinyagi.pipeline.transform.columns import day_of


def invalid_events(parsed: DataFrame) -> DataFrame:
    """Rows of quarantine.events."""
    return parsed.where(F.col("invalid_reason").isNotNull()).withColumn("reason", F.col("invalid_reason"))


def backward_runs(runs: DataFrame) -> DataFrame:
    """Runs that end before they start, because a clock went back."""
    return runs.where(F.col("ended_at") < F.col("started_at")).select(
        F.col("end_event_id").alias("id"),
        F.when(F.col("is_done"), "chain_step_done").otherwise(F.concat(F.lit("message_"), "outcome")).alias("type"),
        F.lit("ended before it began").alias("reason"),
        "agent",
        "conversation_id",
        F.unix_millis("ended_at").alias("created_at"),
        day_of(F.col("ended_at")).alias("date"),
    )


def quarantined(parsed: DataFrame, runs: DataFrame) -> DataFrame:
    """Both, as rows of the table."""
    wanted = [column.name for column in QUARANTINE.all_columns]
    return invalid_events(parsed).select(*wanted).unionByName(backward_runs(runs))
