"""Parses the payload of events once for all tables, and separates invalid events for quarantine.

The reasons are stored in quarantine.events: `pipeline verify` reports a difference when one changes.
"""

import re
from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tinyagi.domain.events import EVENT_TYPES

USAGE: Final = (
    "struct<input_tokens:bigint,output_tokens:bigint,cache_tokens:bigint,cost:double,provider:string,model:string>"
)
# Rows of tables stay text here and are parsed where needed: `message` is a row in one event type and text in another.
PAYLOAD: Final = f"""
  id bigint, ids array<bigint>, message_ids array<string>, claim_id string, attempt int, attempt_used boolean,
  wait_ms bigint, duration_ms bigint, from_agent string, to_agent string, team_id string, channel string, sender string,
  content string, history_id bigint, kind string, reason string, available_at bigint, attempts int, final boolean,
  usage {USAGE}, message string, response string, post string, table string, row string, _broken string
"""

_PAYLOAD_FIELDS: Final = tuple(field.split()[0] for field in re.sub(r"<[^>]*>", "", PAYLOAD).split(","))
_FLAT: Final = "payload_"

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
  created_at bigint, from_agent string
"""

# Required fields of each event type.
_REQUIRED: Final = {
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
# Lists that must not contain null.
_LISTS: Final = {"chain_step_start": ("ids",), "chain_step_done": ("ids", "message_ids")}
# The field that holds a whole row, which needs an id.
_ROWS: Final = {
    "message_received": "message",
    "response_ready": "response",
    "chat_posted": "post",
    "row_imported": "row",
}
_TABLES: Final = ("messages", "responses", "chat_messages", "agent_messages")


def parsed_events(events: DataFrame) -> DataFrame:
    """Rows of bronze.events with `payload` parsed to a struct, and `invalid_reason`, null for a valid event."""
    options = {"columnNameOfCorruptRecord": "_broken"}
    parsed = events.withColumn("payload", F.from_json("payload", PAYLOAD, options))
    return parsed.withColumn("invalid_reason", _invalid_reason())


def flat(parsed: DataFrame) -> DataFrame:
    """Parsed events with a column per field of the payload: each reader of a cache reads only the columns it needs."""
    return parsed.selectExpr(*_others(parsed), *(f"payload.{name} AS {_FLAT}{name}" for name in _PAYLOAD_FIELDS))


def nested(flat_events: DataFrame) -> DataFrame:
    """The reverse of `flat`. Spark's optimizer turns a field of the struct into the column it was made of."""
    fields = ", ".join(f"{_FLAT}{name} AS {name}" for name in _PAYLOAD_FIELDS)
    others = [name for name in flat_events.columns if not name.startswith(_FLAT)]
    return flat_events.selectExpr(*others, f"struct({fields}) AS payload")


def _others(parsed: DataFrame) -> list[str]:
    return [name for name in parsed.columns if name != "payload"]


def valid_events(parsed: DataFrame) -> DataFrame:
    return parsed.where(F.col("invalid_reason").isNull()).drop("invalid_reason")


def _invalid_reason() -> Column:
    """The first of these reasons that holds. One SQL text: some sixty columns would cost a small run half a second."""
    found = [
        (f"type NOT IN ({_quoted(EVENT_TYPES)})", "unknown type"),
        ("payload IS NULL OR payload._broken IS NOT NULL", "payload is no JSON of this type"),
    ]
    for kind, fields in _REQUIRED.items():
        found += [(f"type = '{kind}' AND payload.{field} IS NULL", f"without {field}") for field in fields]
    for kind, fields in _LISTS.items():
        found += [
            (f"type = '{kind}' AND exists(payload.{field}, one -> one IS NULL)", f"a gap in {field}")
            for field in fields
        ]
    # Parse as silver will: JSON parsers disagree about what is a number.
    found += [
        (f"type = '{kind}' AND from_json(payload.{field}, 'id bigint').id IS NULL", f"{field} has no id")
        for kind, field in _ROWS.items()
    ]
    found += [
        (f"type = 'row_imported' AND payload.table NOT IN ({_quoted(_TABLES)})", "row of an unknown table"),
        ("type = 'chain_step_start' AND payload.wait_ms < 0", "negative wait"),
        ("type = 'chain_step_done' AND payload.duration_ms < 0", "ended before it began"),
    ]
    cases = (f"WHEN {condition} THEN '{reason}'" for condition, reason in found)
    return F.expr(f"CASE {' '.join(cases)} END")


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
