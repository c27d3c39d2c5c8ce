"""gold.channel_daily: what people sent on each channel, and what they got."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows

from tinyagi.domain.messages import ROOM_CHANNEL
from tinyagi.pipeline.clock import day_of
from tinyagi.pipeline.gold.measures import how_many, percentile

_COUNTS = ("messages", "people", "completed", "dead", "responses", "delivered", "undelivered")


def peoples_messages(messages: DataFrame) -> DataFrame:
    """Neither hand-offs nor room posts, each on the day it came."""
    from_people = F.col("from_agent").isNull() & (F.col("channel") != ROOM_CHANNEL)
    return messages.where(from_people).withColumn("date", day_of(F.col("created_at")))


def dated_responses(responses: DataFrame) -> DataFrame:
    """Each on the day it was ready."""
    return responses.withColumn("date", day_of(F.col("created_at")))


def channel_daily(messages: DataFrame, responses: DataFrame) -> DataFrame:
    """Of `peoples_messages` and `dated_responses`."""
    sent = messages.groupBy("channel", "date").agg(
        F.count("*").alias("messages"),
        F.count_distinct(F.coalesce("sender_id", "sender")).alias("people"),
        how_many(F.col("status") == "completed").alias("completed"),
        how_many(F.col("status") == "dead").alias("dead"),
        percentile("latency_ms", 50),
        percentile("latency_ms", 95),
    )
    got = responses.groupBy("channel", "date").agg(
        F.count("*").alias("responses"),
        how_many(F.col("status") == "acked").alias("delivered"),
        how_many(F.col("status") == "failed").alias("undelivered"),
        percentile("delivery_ms", 50),
    )
    return sent.join(got, ["channel", "date"], "full").fillna(0, list(_COUNTS))
