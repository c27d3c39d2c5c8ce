"""gold.conversations: all that descends from one incoming message, seen as a whole."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows

from tinyagi.pipeline.gold.measures import how_many, total_cost

EXCERPT: Final = 200
_LONGEST: Final = 500
"""The first messages of a conversation, of which its critical path is worked out: the work grows as a square."""
_KEY: Final = ("conversation_id", "started_at", "date")
_LINK: Final = "struct(id, message_id, parent_message_id, coalesce(latency_ms, 0) AS latency_ms)"


def conversations(messages: DataFrame, runs: DataFrame) -> DataFrame:
    """Of rows of silver.messages and silver.runs of the same dates."""
    return _told(messages).join(_spent(runs), list(_KEY), "left").fillna(0, ["runs", "run_ms", "tokens", "cost"])


def _told(messages: DataFrame) -> DataFrame:
    kept = messages.where(F.col("conversation_id").isNotNull() & (F.col("status") != "deleted"))
    named = kept.withColumn("started_at", F.col("conversation_started_at"))
    first = F.min_by(F.struct("channel", "sender", "agent", F.substring("message", 1, EXCERPT).alias("message")), "id")
    told = named.groupBy(*_KEY).agg(
        F.max("updated_at").alias("updated_at"),
        F.min("id").alias("first_id"),
        F.min_by("conversation_team", F.when(F.col("conversation_team").isNotNull(), F.col("id"))).alias("team"),
        first.alias("first"),
        F.count("*").alias("messages"),
        how_many(F.col("status").isin("pending", "processing")).alias("open"),
        how_many(F.col("status") == "dead").alias("dead"),
        F.max("hop").alias("depth"),
        # Not `count_distinct`, which sends every row twice; an office has few agents.
        F.size(F.collect_set("agent")).cast("bigint").alias("agents"),
        F.array_sort(F.collect_list(F.expr(_LINK))).alias("chain"),
    )
    return told.select("*", "first.*", _width().alias("width"), _critical_path().alias("critical_path_ms")).drop(
        "first", "chain"
    )


def _width() -> Column:
    """Most messages that have the same parent."""
    parents = F.filter(F.transform("chain", lambda link: link["parent_message_id"]), lambda name: name.isNotNull())
    counts = F.transform(
        F.array_distinct(parents), lambda name: F.size(F.filter(parents, lambda other: other == name)).cast("bigint")
    )
    return F.coalesce(F.array_max(counts), F.lit(0).cast("bigint"))


def _critical_path() -> Column:
    """Latencies added along each chain; the longest of them. A parent comes before what it handed on."""
    empty = F.create_map().cast("map<string,bigint>")
    lengths = F.aggregate(
        F.slice("chain", 1, _LONGEST),
        empty,
        lambda known, link: F.map_concat(
            F.map_filter(known, lambda name, _: name != link["message_id"]),
            F.create_map(
                link["message_id"],
                F.coalesce(F.element_at(known, link["parent_message_id"]), F.lit(0)) + link["latency_ms"],
            ),
        ),
    )
    return F.coalesce(F.array_max(F.map_values(lengths)), F.lit(0).cast("bigint"))


def _spent(runs: DataFrame) -> DataFrame:
    tokens = sum(
        (F.coalesce(F.col(name), F.lit(0)) for name in ("input_tokens", "output_tokens", "cache_tokens")), F.lit(0)
    )
    ended = runs.where(F.col("ended_at").isNotNull()).withColumn("started_at", F.col("conversation_started_at"))
    return ended.groupBy(*_KEY).agg(
        F.count("*").alias("runs"),
        F.coalesce(F.sum("run_ms"), F.lit(0)).alias("run_ms"),
        F.sum(tokens).alias("tokens"),
        total_cost(),
    )
