"""silver.messages: what each event says about a message."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows

from tinyagi.domain.messages import ROOM_PRIORITY
from tinyagi.pipeline.clock import beginning, elapsed
from tinyagi.pipeline.facts import MESSAGE_ROW

_OF_RUNS: Final = ("chain_step_start", "chain_step_done")
_OF_ONE: Final = (
    "message_failed",
    "message_dead",
    "message_stopped",
    "message_released",
    "message_recovered",
    "message_retried",
    "message_moved",
    "message_deleted",
)
_STATUS: Final = {
    "chain_step_start": "processing",
    "chain_step_done": "completed",
    "message_failed": "pending",
    "message_dead": "dead",
    "message_stopped": "dead",
    "message_released": "pending",
    "message_recovered": "pending",
    "message_retried": "pending",
    "message_deleted": "deleted",
}
_ENDED: Final = ("message_dead", "message_stopped")
_IDENTITY: Final = (
    "message_id",
    "conversation_id",
    "conversation_started_at",
    "conversation_team",
    "parent_message_id",
    "channel",
    "sender",
    "sender_id",
    "agent",
    "from_agent",
    "team",
    "thread",
    "hop",
    "priority",
    "message",
    "files",
    "status",
    "retry_count",
    "last_error",
    "available_at",
    "answered_by",
    "created_at",
    "updated_at",
)


def message_sayings(facts: DataFrame) -> DataFrame:
    """One row per event and message it tells about, in the shape of silver.messages."""
    return _arrivals(facts).unionByName(_changes(facts), allowMissingColumns=True)


def finish_messages(messages: DataFrame) -> DataFrame:
    """Add what follows from the other columns."""
    done = F.col("status") == "completed"
    return messages.withColumns(
        {
            "wait_ms": elapsed("created_at", "first_started_at"),
            "run_ms": F.when(done, elapsed("started_at", "completed_at")),
            "latency_ms": F.when(done, elapsed("created_at", "completed_at")),
        }
    )


def _arrivals(facts: DataFrame) -> DataFrame:
    """Messages that came, and rows that stood in the database before their events did."""
    fact = F.col("fact")
    is_import = F.col("type") == "row_imported"
    told = facts.where((F.col("type") == "message_received") | (is_import & (fact["table"] == "messages")))
    rows = told.withColumn("row", F.from_json(F.when(is_import, fact["row"]).otherwise(fact["message"]), MESSAGE_ROW))
    row = F.col("row")
    ended_at = F.when(is_import, row["updated_at"])
    return rows.select(
        row["id"].alias("id"),
        *(row[name].alias(name) for name in _IDENTITY),
        F.when(is_import, row["started_at"]).alias("first_started_at"),
        F.when(is_import, row["started_at"]).alias("started_at"),
        F.when(row["status"] == "completed", ended_at).alias("completed_at"),
        F.when(row["status"] == "dead", ended_at).alias("died_at"),
        F.when(is_import & (row["status"] == "dead"), 1).cast("bigint").alias("deaths"),
        F.col("id").alias("last_event_id"),
        F.col("date").alias("event_date"),
        beginning(row["conversation_started_at"]).alias("date"),
    )


def _changes(facts: DataFrame) -> DataFrame:
    fact, kind = F.col("fact"), F.col("type")
    told = facts.where(kind.isin(*_OF_RUNS, *_OF_ONE))
    each = told.select(
        "*", F.posexplode(F.when(kind.isin(*_OF_RUNS), fact["ids"]).otherwise(F.array(fact["id"]))).alias("place", "of")
    )
    used = ((kind == "message_failed") & fact["attempt_used"]) | kind.isin("message_dead", "message_recovered")
    tried = (used & fact["claim_id"].isNotNull()) | (kind == "message_retried")
    at = F.col("created_at")

    def when(*types: str, say: Column) -> Column:
        return F.when(kind.isin(*types), say)

    return each.select(
        F.col("of").alias("id"),
        _status(kind).alias("status"),
        when("chain_step_start", say=fact["claim_id"]).alias("claim_id"),
        when("chain_step_start", say=at).alias("first_started_at"),
        when("chain_step_start", say=at).alias("started_at"),
        when("chain_step_start", say=F.lit(1).cast("bigint")).alias("runs"),
        when("chain_step_done", say=at).alias("completed_at"),
        when("chain_step_done", say=fact["message_ids"][0])
        .when(kind == "message_retried", F.lit(""))
        .alias("answered_by"),
        F.when((kind == "chain_step_done") & (F.col("place") == 0), fact["content"]).alias("answer"),
        F.when(used, fact["attempt"]).when(kind == "message_retried", 0).cast("int").alias("retry_count"),
        F.when(used | (kind == "message_stopped"), fact["reason"]).alias("last_error"),
        F.when(used, F.coalesce(fact["kind"], F.lit("crash")))
        .when(kind == "message_stopped", F.lit("stopped"))
        .alias("error_kind"),
        when("message_failed", say=fact["available_at"])
        .when(kind.isin("message_recovered", "message_retried"), 0)
        .cast("bigint")
        .alias("available_at"),
        F.when(tried, ROOM_PRIORITY).cast("int").alias("priority"),
        when("message_retried", say=fact["message"]).alias("message"),
        when("message_moved", say=fact["to_agent"]).alias("agent"),
        when(*_ENDED, say=at).alias("died_at"),
        when(*_ENDED, say=F.lit(1).cast("bigint")).alias("deaths"),
        at.alias("updated_at"),
        F.col("id").alias("last_event_id"),
        F.col("date").alias("event_date"),
    )


def _status(kind: Column) -> Column:
    said = F.lit(None).cast("string")
    for name, status in _STATUS.items():
        said = F.when(kind == name, F.lit(status)).otherwise(said)
    return said
