"""silver.handoffs: messages that an agent handed to a teammate, seen as hand-offs."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows

from tinyagi.domain.messages import ROOM_CHANNEL


def handoffs(messages: DataFrame) -> DataFrame:
    """Of rows of silver.messages those that are hand-offs, in the shape of silver.handoffs."""
    return messages.where(F.col("from_agent").isNotNull() & (F.col("channel") != ROOM_CHANNEL)).select(
        "id",
        "message_id",
        "parent_message_id",
        "conversation_id",
        "conversation_started_at",
        "team",
        "from_agent",
        F.col("agent").alias("to_agent"),
        "hop",
        F.col("created_at").alias("handed_at"),
        F.col("first_started_at").alias("started_at"),
        "completed_at",
        "status",
        "wait_ms",
        "latency_ms",
        "last_event_id",
        "date",
    )
