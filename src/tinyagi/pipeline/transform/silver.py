"""Events to silver: updates of messages, runs and responses to fold, hand-offs, and lines of histories and rooms.

Pure DataFrame functions over parsed events.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tinyagi.domain.messages import ROOM_CHANNEL, ROOM_PRIORITY
from tinyagi.domain.responses import Role
from tinyagi.pipeline.tables.model import TIMESTAMP, Table
from tinyagi.pipeline.tables.silver import MESSAGES, RESPONSES
from tinyagi.pipeline.transform.columns import conversation_day, day_of, elapsed_ms, instant
from tinyagi.pipeline.transform.parsed_events import CHAT_ROW, HISTORY_ROW, MESSAGE_ROW, RESPONSE_ROW

_RUN_EVENTS: Final = ("chain_step_start", "chain_step_done")
_MESSAGE_EVENTS: Final = (
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
_DEATHS: Final = ("message_dead", "message_stopped")
_MESSAGE_COLUMNS: Final = (
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

_RESPONSE_COLUMNS: Final = (
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

_OUTCOMES: Final = {
    "message_failed": "failed",
    "message_dead": "dead",
    "message_stopped": "stopped",
    "message_released": "released",
    "message_recovered": "recovered",
}
_USAGE_COLUMNS: Final = ("provider", "model", "input_tokens", "output_tokens", "cache_tokens", "cost")


def message_updates(events: DataFrame) -> DataFrame:
    """One row per event and message, in the shape of silver.messages."""
    return _arrivals(events).unionByName(_changes(events), allowMissingColumns=True)


def with_message_durations(messages: DataFrame) -> DataFrame:
    """Add the derived columns."""
    done = F.col("status") == "completed"
    return messages.withColumns(
        {
            "wait_ms": elapsed_ms("created_at", "first_started_at"),
            "run_ms": F.when(done, elapsed_ms("started_at", "completed_at")),
            "latency_ms": F.when(done, elapsed_ms("created_at", "completed_at")),
        }
    )


def _arrivals(events: DataFrame) -> DataFrame:
    """New messages, and rows that are older than the event log."""
    payload = F.col("payload")
    is_import = F.col("type") == "row_imported"
    arrivals = events.where((F.col("type") == "message_received") | (is_import & (payload["table"] == "messages")))
    rows = arrivals.withColumn(
        "row", F.from_json(F.when(is_import, payload["row"]).otherwise(payload["message"]), MESSAGE_ROW)
    )
    row = F.col("row")
    started_at = F.when(is_import, instant(row["started_at"]))
    ended_at = F.when(is_import, instant(row["updated_at"]))
    return rows.select(
        F.col("row.id"),
        *_fields(row, _MESSAGE_COLUMNS, MESSAGES),
        started_at.alias("first_started_at"),
        started_at.alias("started_at"),
        F.when(row["status"] == "completed", ended_at).alias("completed_at"),
        F.when(row["status"] == "dead", ended_at).alias("died_at"),
        F.when(is_import & (row["status"] == "dead"), 1).cast("bigint").alias("deaths"),
        F.col("id").alias("last_event_id"),
        F.col("date").alias("event_date"),
        conversation_day(instant(row["conversation_started_at"])).alias("date"),
    )


def _changes(events: DataFrame) -> DataFrame:
    payload, kind = F.col("payload"), F.col("type")
    changes = events.where(kind.isin(*_RUN_EVENTS, *_MESSAGE_EVENTS))
    each = changes.select(
        "*",
        F.posexplode(F.when(kind.isin(*_RUN_EVENTS), payload["ids"]).otherwise(F.array(payload["id"]))).alias(
            "place", "message"
        ),
    )
    used = ((kind == "message_failed") & payload["attempt_used"]) | kind.isin("message_dead", "message_recovered")
    tried = (used & payload["claim_id"].isNotNull()) | (kind == "message_retried")
    at = instant(F.col("created_at"))

    def when(*types: str, then: Column) -> Column:
        return F.when(kind.isin(*types), then)

    return each.select(
        F.col("message").alias("id"),
        _status(kind).alias("status"),
        when("chain_step_start", then=payload["claim_id"]).alias("claim_id"),
        when("chain_step_start", then=at).alias("first_started_at"),
        when("chain_step_start", then=at).alias("started_at"),
        when("chain_step_start", then=F.lit(1).cast("bigint")).alias("runs"),
        when("chain_step_done", then=at).alias("completed_at"),
        when("chain_step_done", then=payload["message_ids"][0])
        .when(kind == "message_retried", F.lit(""))
        .alias("answered_by"),
        F.when((kind == "chain_step_done") & (F.col("place") == 0), payload["content"]).alias("answer"),
        F.when(used, payload["attempt"]).when(kind == "message_retried", 0).cast("int").alias("retry_count"),
        F.when(used | (kind == "message_stopped"), payload["reason"]).alias("last_error"),
        F.when(used, F.coalesce(payload["kind"], F.lit("crash")))
        .when(kind == "message_stopped", F.lit("stopped"))
        .alias("error_kind"),
        instant(
            when("message_failed", then=payload["available_at"])
            .when(kind.isin("message_recovered", "message_retried"), 0)
            .cast("bigint")
        ).alias("available_at"),
        F.when(tried, ROOM_PRIORITY).cast("int").alias("priority"),
        when("message_retried", then=payload["message"]).alias("message"),
        when("message_moved", then=payload["to_agent"]).alias("agent"),
        when(*_DEATHS, then=at).alias("died_at"),
        when(*_DEATHS, then=F.lit(1).cast("bigint")).alias("deaths"),
        at.alias("updated_at"),
        F.col("id").alias("last_event_id"),
        F.col("date").alias("event_date"),
    )


def _fields(row: Column, names: Sequence[str], table: Table) -> Iterator[Column]:
    """Fields of a parsed row as columns of this table."""
    timestamps = {column.name for column in table.columns if column.type == TIMESTAMP}
    for name in names:
        yield instant(row[name]).alias(name) if name in timestamps else F.col(f"row.{name}")


def _status(kind: Column) -> Column:
    found = F.lit(None).cast("string")
    for name, status in _STATUS.items():
        found = F.when(kind == name, F.lit(status)).otherwise(found)
    return found


def run_updates(events: DataFrame) -> DataFrame:
    """One row per event of a run, in the shape of silver.runs."""
    payload, kind, at = F.col("payload"), F.col("type"), instant(F.col("created_at"))
    steps = events.where(kind.isin("chain_step_start", "chain_step_done", *_OUTCOMES) & payload["claim_id"].isNotNull())
    is_start, is_done = kind == "chain_step_start", kind == "chain_step_done"
    outcome = F.lit(None).cast("string")
    for name, word in _OUTCOMES.items():
        outcome = F.when(kind == name, F.lit(word)).otherwise(outcome)
    conversation_started_at = instant(F.col("conversation_started_at"))
    result = F.struct(
        payload["id"].alias("id"),
        outcome.alias("outcome"),
        payload["attempt"].alias("attempt"),
        payload["reason"].alias("reason"),
    )
    return steps.select(
        payload["claim_id"].alias("claim_id"),
        "agent",
        payload["team_id"].alias("team"),
        "conversation_id",
        conversation_started_at.alias("conversation_started_at"),
        "message_id",
        payload["ids"].alias("ids"),
        payload["attempt"].alias("attempt"),
        F.when(is_start, payload["from_agent"]).alias("from_agent"),
        F.when(is_start, at).alias("started_at"),
        F.when(~is_start, at).alias("ended_at"),
        F.when(is_start, payload["wait_ms"]).alias("wait_ms"),
        F.when(is_done, payload["duration_ms"]).alias("told_ms"),
        F.when(outcome.isNotNull(), F.array(result)).alias("results"),
        F.when(is_done, F.lit(True)).alias("is_done"),
        payload["kind"].alias("error_kind"),
        *(F.col(f"payload.usage.{name}") for name in _USAGE_COLUMNS),
        F.when(~is_start, F.col("id")).alias("end_event_id"),
        F.col("id").alias("last_event_id"),
        F.col("date").alias("event_date"),
        conversation_day(conversation_started_at).alias("date"),
    )


def with_run_outcome(runs: DataFrame) -> DataFrame:
    """Add how the run ended, from the result of its first message, and how long it took."""
    of_first = F.filter("results", lambda result: result["id"] == F.col("ids")[0])
    result = F.coalesce(F.get(of_first, F.lit(0)), F.get("results", F.lit(0)))
    is_done = F.coalesce(F.col("is_done"), F.lit(False))
    return runs.withColumns(
        {
            "is_done": is_done,
            "outcome": F.when(is_done, F.lit("completed")).otherwise(F.coalesce(result["outcome"], F.lit("running"))),
            "error": F.when(~is_done, result["reason"]),
            "run_ms": F.when(F.col("started_at").isNull(), F.col("told_ms")).otherwise(
                elapsed_ms("started_at", "ended_at")
            ),
        }
    )


def response_updates(events: DataFrame) -> DataFrame:
    """One row per event of a response, in the shape of silver.responses."""
    return _ready(events).unionByName(_deliveries(events), allowMissingColumns=True)


def with_delivery_time(responses: DataFrame) -> DataFrame:
    return responses.withColumn("delivery_ms", elapsed_ms("created_at", "acked_at"))


def _ready(events: DataFrame) -> DataFrame:
    payload, is_import = F.col("payload"), F.col("type") == "row_imported"
    ready = events.where((F.col("type") == "response_ready") | (is_import & (payload["table"] == "responses")))
    rows = ready.withColumn(
        "row", F.from_json(F.when(is_import, payload["row"]).otherwise(payload["response"]), RESPONSE_ROW)
    )
    row = F.col("row")
    conversation_started_at = instant(F.col("conversation_started_at"))
    return rows.select(
        *_fields(row, _RESPONSE_COLUMNS, RESPONSES),
        F.coalesce(row["conversation_id"], F.col("conversation_id")).alias("conversation_id"),
        conversation_started_at.alias("conversation_started_at"),
        F.col("id").alias("last_event_id"),
        F.col("date").alias("event_date"),
        conversation_day(F.coalesce(conversation_started_at, instant(row["created_at"]))).alias("date"),
    )


def _deliveries(events: DataFrame) -> DataFrame:
    payload, kind = F.col("payload"), F.col("type")
    is_acked, is_final = kind == "response_acked", F.coalesce(payload["final"], F.lit(False))
    return events.where(kind.isin("response_acked", "response_failed")).select(
        payload["id"].alias("id"),
        F.when(is_acked, "acked").when(is_final, "failed").otherwise("pending").alias("status"),
        F.when(is_acked, instant(F.col("created_at"))).alias("acked_at"),
        F.when(~is_acked, payload["attempts"]).alias("attempts"),
        F.when(~is_acked, payload["reason"]).alias("last_error"),
        F.when(~is_acked, instant(payload["available_at"])).alias("available_at"),
        F.col("id").alias("last_event_id"),
        F.col("date").alias("event_date"),
    )


def handoffs(messages: DataFrame) -> DataFrame:
    """The hand-offs among rows of silver.messages, as rows of silver.handoffs."""
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


def history_lines(events: DataFrame) -> DataFrame:
    """Rows of silver.agent_messages: incoming messages, answers, and imported lines."""
    payload, kind = F.col("payload"), F.col("type")
    exchanges = events.where(kind.isin("message_received", "chain_step_done"))
    is_question = kind == "message_received"
    question_row = "channel string, sender string, message string, from_agent string"
    question = F.from_json(F.when(is_question, payload["message"]), question_row)
    lines = exchanges.withColumn("question", question).select(
        payload["history_id"].alias("id"),
        F.col("agent").alias("agent_id"),
        F.when(is_question, Role.USER.value).otherwise(Role.ASSISTANT.value).alias("role"),
        F.coalesce(F.col("question")["channel"], payload["channel"]).alias("channel"),
        F.when(is_question, F.col("question")["sender"]).otherwise(F.col("agent")).alias("sender"),
        "message_id",
        "conversation_id",
        F.when(is_question, F.col("question")["message"]).otherwise(payload["content"]).alias("content"),
        F.col("question")["from_agent"].alias("from_agent"),
        instant(F.col("created_at")).alias("created_at"),
        F.col("id").alias("last_event_id"),
        "date",
    )
    return lines.unionByName(_imported_lines(events))


def _imported_lines(events: DataFrame) -> DataFrame:
    imports = events.where((F.col("type") == "row_imported") & (F.col("payload")["table"] == "agent_messages"))
    row = F.col("row")
    return imports.withColumn("row", F.from_json(F.col("payload")["row"], HISTORY_ROW)).select(
        F.col("row.id"),
        F.col("row.agent_id"),
        F.col("row.role"),
        F.col("row.channel"),
        F.col("row.sender"),
        F.col("row.message_id"),
        "conversation_id",
        F.col("row.content"),
        F.col("row.from_agent"),
        instant(row["created_at"]).alias("created_at"),
        F.col("id").alias("last_event_id"),
        F.coalesce(day_of(instant(row["created_at"])), F.col("date")).alias("date"),
    )


def chat_lines(events: DataFrame) -> DataFrame:
    """Rows of silver.chat_messages."""
    payload, is_import = F.col("payload"), F.col("type") == "row_imported"
    posts = events.where((F.col("type") == "chat_posted") | (is_import & (payload["table"] == "chat_messages")))
    rows = posts.withColumn("row", F.from_json(F.when(is_import, payload["row"]).otherwise(payload["post"]), CHAT_ROW))
    row = F.col("row")
    return rows.select(
        F.col("row.id"),
        F.col("row.team_id"),
        F.col("row.from_agent"),
        F.col("row.message"),
        "conversation_id",
        instant(row["created_at"]).alias("created_at"),
        F.col("id").alias("last_event_id"),
        F.coalesce(day_of(instant(row["created_at"])), F.col("date")).alias("date"),
    )
