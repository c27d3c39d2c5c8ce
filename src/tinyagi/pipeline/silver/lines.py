"""silver.chat_messages and silver.agent_messages: lines of rooms and of histories, as the store has them."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows

from tinyagi.domain.responses import Role
from tinyagi.pipeline.clock import day_of
from tinyagi.pipeline.facts import CHAT_ROW, HISTORY_ROW


def chat_lines(facts: DataFrame) -> DataFrame:
    """Rows of silver.chat_messages."""
    fact, is_import = F.col("fact"), F.col("type") == "row_imported"
    told = facts.where((F.col("type") == "chat_posted") | (is_import & (fact["table"] == "chat_messages")))
    rows = told.withColumn("row", F.from_json(F.when(is_import, fact["row"]).otherwise(fact["post"]), CHAT_ROW))
    row = F.col("row")
    return rows.select(
        row["id"].alias("id"),
        row["team_id"].alias("team_id"),
        row["from_agent"].alias("from_agent"),
        row["message"].alias("message"),
        "conversation_id",
        row["created_at"].alias("created_at"),
        F.col("id").alias("last_event_id"),
        F.coalesce(day_of(row["created_at"]), F.col("date")).alias("date"),
    )


def history_lines(facts: DataFrame) -> DataFrame:
    """Rows of silver.agent_messages: what came, what was answered, and what stood there before."""
    fact, kind = F.col("fact"), F.col("type")
    spoken = facts.where(kind.isin("message_received", "chain_step_done"))
    is_question = kind == "message_received"
    asked = F.from_json(F.when(is_question, fact["message"]), "channel string, sender string, message string")
    said = spoken.withColumn("asked", asked).select(
        fact["history_id"].alias("id"),
        F.col("agent").alias("agent_id"),
        F.when(is_question, Role.USER.value).otherwise(Role.ASSISTANT.value).alias("role"),
        F.coalesce(F.col("asked")["channel"], fact["channel"]).alias("channel"),
        F.when(is_question, F.col("asked")["sender"]).otherwise(F.col("agent")).alias("sender"),
        "message_id",
        "conversation_id",
        F.when(is_question, F.col("asked")["message"]).otherwise(fact["content"]).alias("content"),
        "created_at",
        F.col("id").alias("last_event_id"),
        "date",
    )
    return said.unionByName(_imported_lines(facts))


def _imported_lines(facts: DataFrame) -> DataFrame:
    told = facts.where((F.col("type") == "row_imported") & (F.col("fact")["table"] == "agent_messages"))
    row = F.col("row")
    return told.withColumn("row", F.from_json(F.col("fact")["row"], HISTORY_ROW)).select(
        row["id"].alias("id"),
        row["agent_id"].alias("agent_id"),
        row["role"].alias("role"),
        row["channel"].alias("channel"),
        row["sender"].alias("sender"),
        row["message_id"].alias("message_id"),
        "conversation_id",
        row["content"].alias("content"),
        row["created_at"].alias("created_at"),
        F.col("id").alias("last_event_id"),
        F.coalesce(day_of(row["created_at"]), F.col("date")).alias("date"),
    )
