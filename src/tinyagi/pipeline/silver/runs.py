"""silver.runs: what each event says about a run."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows

from tinyagi.pipeline.clock import beginning, day_of, elapsed

_WITHOUT_ANSWER: Final = {
    "message_failed": "failed",
    "message_dead": "dead",
    "message_stopped": "stopped",
    "message_released": "released",
    "message_recovered": "recovered",
}
_USED: Final = ("provider", "model", "input_tokens", "output_tokens", "cache_tokens", "cost")


def run_sayings(facts: DataFrame) -> DataFrame:
    """One row per event of a run, in the shape of silver.runs."""
    fact, kind, at = F.col("fact"), F.col("type"), F.col("created_at")
    told = facts.where(
        kind.isin("chain_step_start", "chain_step_done", *_WITHOUT_ANSWER) & fact["claim_id"].isNotNull()
    )
    begins, is_done = kind == "chain_step_start", kind == "chain_step_done"
    outcome = F.lit(None).cast("string")
    for name, word in _WITHOUT_ANSWER.items():
        outcome = F.when(kind == name, F.lit(word)).otherwise(outcome)
    result = F.struct(
        fact["id"].alias("id"),
        outcome.alias("outcome"),
        fact["attempt"].alias("attempt"),
        fact["reason"].alias("reason"),
    )
    return told.select(
        fact["claim_id"].alias("claim_id"),
        "agent",
        fact["team_id"].alias("team"),
        "conversation_id",
        "conversation_started_at",
        "message_id",
        fact["ids"].alias("ids"),
        fact["attempt"].alias("attempt"),
        F.when(begins, fact["from_agent"]).alias("from_agent"),
        F.when(begins, at).alias("started_at"),
        F.when(~begins, at).alias("ended_at"),
        F.when(begins, fact["wait_ms"]).alias("wait_ms"),
        F.when(is_done, fact["duration_ms"]).alias("told_ms"),
        F.when(outcome.isNotNull(), F.array(result)).alias("results"),
        F.when(is_done, F.lit(True)).alias("is_done"),
        fact["kind"].alias("error_kind"),
        *(fact["usage"][name].alias(name) for name in _USED),
        F.when(~begins, F.col("id")).alias("end_event_id"),
        F.col("id").alias("last_event_id"),
        F.col("date").alias("event_date"),
        beginning(F.col("conversation_started_at")).alias("date"),
    )


def finish_runs(runs: DataFrame) -> DataFrame:
    """Add how the run ended, as its first message tells, and how long it took."""
    of_first = F.filter("results", lambda one: one["id"] == F.col("ids")[0])
    result = F.coalesce(F.get(of_first, F.lit(0)), F.get("results", F.lit(0)))
    is_done = F.coalesce(F.col("is_done"), F.lit(False))
    return runs.withColumns(
        {
            "is_done": is_done,
            "outcome": F.when(is_done, F.lit("completed")).otherwise(F.coalesce(result["outcome"], F.lit("running"))),
            "error": F.when(~is_done, result["reason"]),
            "run_ms": F.when(F.col("started_at").isNull(), F.col("told_ms")).otherwise(
                elapsed("started_at", "ended_at")
            ),
        }
    )


def backward_runs(runs: DataFrame) -> DataFrame:
    """Rows of quarantine.events: the ends of runs that lie before their beginnings, because a clock went back."""
    return runs.where(F.col("ended_at") < F.col("started_at")).select(
        F.col("end_event_id").alias("id"),
        F.when(F.col("is_done"), "chain_step_done").otherwise(F.concat(F.lit("message_"), "outcome")).alias("type"),
        F.lit("ended before it began").alias("reason"),
        "agent",
        "conversation_id",
        F.col("ended_at").alias("created_at"),
        day_of(F.col("ended_at")).alias("date"),
    )
