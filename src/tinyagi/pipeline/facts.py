"""Events with their payload read: one parse for all tables, and what cannot be believed told apart."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows

from tinyagi.domain.events import EVENT_TYPES

USAGE: Final = (
    "struct<input_tokens:bigint,output_tokens:bigint,cache_tokens:bigint,cost:double,provider:string,model:string>"
)
# A row of a table stays text here and is read where it is needed: `message` is a row in one fact and a text in another.
PAYLOAD: Final = f"""
  id bigint, ids array<bigint>, message_ids array<string>, claim_id string, attempt int, attempt_used boolean,
  wait_ms bigint, duration_ms bigint, from_agent string, to_agent string, team_id string, channel string, sender string,
  content string, history_id bigint, kind string, reason string, available_at bigint, attempts int, final boolean,
  usage {USAGE}, message string, response string, post string, table string, row string, _broken string
"""

MESSAGE_ROW: Final = """
  id bigint, message_id string, channel string, sender string, sender_id string, message string, agent string,
  from_agent string, files string, conversation_id string, conversation_started_at bigint, conversation_team string,
  parent_message_id string, hop int, team string, thread string, priority int, status string, retry_count int,
  last_error string, available_at bigint, claim_id string, started_at bigint, answered_by string, created_at bigint,
  updated_at bigint
"""
RESPONSE_ROW: Final = """
  id bigint, message_id string, channel string, sender string, sender_id string, message string,
  original_message string, agent string, files string, metadata string, status string, conversation_id string, seq int,
  attempts int, last_error string, available_at bigint, created_at bigint, acked_at bigint
"""
CHAT_ROW: Final = "id bigint, team_id string, from_agent string, message string, created_at bigint"
HISTORY_ROW: Final = """
  id bigint, agent_id string, role string, channel string, sender string, message_id string, content string,
  created_at bigint
"""

# What a fact cannot do without.
_NEEDED: Final = {
    "message_received": ("message", "history_id"),
    "chain_step_start": ("claim_id", "ids"),
    "chain_step_done": ("claim_id", "ids", "message_ids", "history_id"),
    "message_failed": ("id", "claim_id"),
    "message_dead": ("id",),
    "message_stopped": ("id", "claim_id"),
    "message_released": ("id", "claim_id"),
    "message_recovered": ("id", "claim_id"),
    "message_retried": ("id",),
    "message_moved": ("id", "to_agent"),
    "message_deleted": ("id",),
    "response_ready": ("response",),
    "response_acked": ("id",),
    "response_failed": ("id",),
    "chat_posted": ("post",),
    "row_imported": ("table", "row"),
}
# What a fact speaks of one by one: all of it, or it is no fact.
_LISTS: Final = {"chain_step_start": ("ids",), "chain_step_done": ("ids", "message_ids")}
# A whole row that a fact carries, and the number that names it.
_ROWS: Final = {
    "message_received": "message",
    "response_ready": "response",
    "chat_posted": "post",
    "row_imported": "row",
}
_TABLES: Final = ("messages", "responses", "chat_messages", "agent_messages")


def facts(events: DataFrame) -> DataFrame:
    """Rows of bronze.events with their payload as the struct `fact`, and `doubt`: why one is not believed, or null."""
    options = {"columnNameOfCorruptRecord": "_broken"}
    read = events.withColumn("fact", F.from_json("payload", PAYLOAD, options))
    return read.withColumn("doubt", _doubt()).drop("payload")


def believed(read: DataFrame) -> DataFrame:
    return read.where(F.col("doubt").isNull()).drop("doubt")


def doubted(read: DataFrame) -> DataFrame:
    """Rows of quarantine.events."""
    return read.where(F.col("doubt").isNotNull()).withColumn("reason", F.col("doubt"))


def _doubt() -> Column:
    kind = F.col("type")
    fact = F.col("fact")
    why = F.when(~kind.isin(*EVENT_TYPES), F.lit("unknown type"))
    why = why.when(fact.isNull() | fact["_broken"].isNotNull(), F.lit("payload is no JSON of this type"))
    for name, fields in _NEEDED.items():
        for field in fields:
            why = why.when((kind == name) & fact[field].isNull(), F.lit(f"without {field}"))
    for name, fields in _LISTS.items():
        for field in fields:
            why = why.when((kind == name) & F.exists(fact[field], F.isnull), F.lit(f"a gap in {field}"))
    for name, field in _ROWS.items():
        # Read as the row itself will be: what is a number to one reader of JSON may be none to another.
        told = F.from_json(fact[field], "id bigint")
        why = why.when((kind == name) & told["id"].isNull(), F.lit(f"{field} has no id"))
    why = why.when((kind == "row_imported") & ~fact["table"].isin(*_TABLES), F.lit("row of an unknown table"))
    why = why.when((kind == "chain_step_start") & (fact["wait_ms"] < 0), F.lit("negative wait"))
    return why.when((kind == "chain_step_done") & (fact["duration_ms"] < 0), F.lit("ended before it began"))
