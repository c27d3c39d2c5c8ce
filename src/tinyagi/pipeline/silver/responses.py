"""silver.responses: what each event says about an answer and its delivery."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows

from tinyagi.pipeline.clock import beginning, elapsed
from tinyagi.pipeline.facts import RESPONSE_ROW

_ROW: Final = (
    "id",
    "message_id",
    "channel",
    "sender",
    "sender_id",
    "agent",
    "message",
    "original_message",
    "files",
    "metadata",
    "seq",
    "status",
    "attempts",
    "last_error",
    "available_at",
    "created_at",
    "acked_at",
)


def response_sayings(facts: DataFrame) -> DataFrame:
    """One row per event of a response, in the shape of silver.responses."""
    return _ready(facts).unionByName(_deliveries(facts), allowMissingColumns=True)


def finish_responses(responses: DataFrame) -> DataFrame:
    return responses.withColumn("delivery_ms", elapsed("created_at", "acked_at"))


def _ready(facts: DataFrame) -> DataFrame:
    fact, is_import = F.col("fact"), F.col("type") == "row_imported"
    told = facts.where((F.col("type") == "response_ready") | (is_import & (fact["table"] == "responses")))
    rows = told.withColumn("row", F.from_json(F.when(is_import, fact["row"]).otherwise(fact["response"]), RESPONSE_ROW))
    row = F.col("row")
    return rows.select(
        *(row[name].alias(name) for name in _ROW),
        F.coalesce(row["conversation_id"], F.col("conversation_id")).alias("conversation_id"),
        "conversation_started_at",
        F.col("id").alias("last_event_id"),
        F.col("date").alias("event_date"),
        beginning(F.coalesce(F.col("conversation_started_at"), row["created_at"])).alias("date"),
    )


def _deliveries(facts: DataFrame) -> DataFrame:
    fact, kind = F.col("fact"), F.col("type")
    is_acked, is_final = kind == "response_acked", F.coalesce(fact["final"], F.lit(False))
    return facts.where(kind.isin("response_acked", "response_failed")).select(
        fact["id"].alias("id"),
        F.when(is_acked, "acked").when(is_final, "failed").otherwise("pending").alias("status"),
        F.when(is_acked, F.col("created_at")).alias("acked_at"),
        F.when(~is_acked, fact["attempts"]).alias("attempts"),
        F.when(~is_acked, fact["reason"]).alias("last_error"),
        F.when(~is_acked, fact["available_at"]).alias("available_at"),
        F.col("id").alias("last_event_id"),
        F.col("date").alias("event_date"),
    )
