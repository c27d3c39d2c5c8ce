"""Silver to gold: agent hours, channel days, conversations, dead letters, hand-off edges and memory chunks.

Pure DataFrame functions. Each gets all source rows of the days that it recomputes.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tinyagi.domain.messages import ROOM_CHANNEL
from tinyagi.pipeline.tables.gold import (
    ERROR_EXCERPT,
    ERROR_VARIABLE_PARTS,
    PROGRAM_CHANNELS,
    SCHEDULE_PREFIX,
)
from tinyagi.pipeline.transform.columns import (
    day_of,
    histogram,
    hour_of,
    percentile,
    person,
    total,
    total_cost,
)

_COUNTS: Final = ("messages", "people", "completed", "dead", "responses", "delivered", "undelivered")

MESSAGE_EXCERPT: Final = 200
_MOST_LINKS: Final = 500
"""Messages of a conversation that its critical path considers, first ones first: the work is quadratic."""
_KEY: Final = ("conversation_id", "started_at", "date")
_OPEN: Final = ("pending", "processing")
# A dead message counts until its death.
_TOOK: Final = (
    "coalesce(latency_ms, if(status = 'dead', greatest(unix_millis(died_at) - unix_millis(created_at), 0), NULL), 0)"
)
_LINK: Final = f"struct(id, message_id, parent_message_id, {_TOOK} AS took_ms)"


def ended_runs(runs: DataFrame) -> DataFrame:
    """Runs that ended, each on the day of its end."""
    return runs.where(F.col("ended_at").isNotNull()).withColumn("date", day_of(F.col("ended_at")))


def agent_hourly(runs: DataFrame) -> DataFrame:
    """From `ended_runs`."""
    outcome = F.col("outcome")
    return runs.groupBy("agent", hour_of(F.col("ended_at")).alias("hour"), "date").agg(
        F.count("*").alias("runs"),
        F.count_if(outcome == "completed").alias("completed"),
        F.count_if(outcome.isin("failed", "dead")).alias("failures"),
        F.count_if(F.col("attempt") > 1).alias("retries"),
        F.count_if(outcome == "dead").alias("dead"),
        *(percentile("wait_ms", share) for share in (50, 95, 99)),
        *(percentile("run_ms", share) for share in (50, 95, 99)),
        histogram("wait_ms").alias("wait_hist"),
        histogram("run_ms").alias("run_hist"),
        *(total(name) for name in ("input_tokens", "output_tokens", "cache_tokens")),
        total_cost(),
    )


def channel_messages(messages: DataFrame) -> DataFrame:
    """Messages except hand-offs and room posts, each on the day of its arrival."""
    from_outside = F.col("from_agent").isNull() & (F.col("channel") != ROOM_CHANNEL)
    return messages.where(from_outside).withColumn("date", day_of(F.col("created_at")))


def dated_responses(responses: DataFrame) -> DataFrame:
    """Responses, each on the day it was ready."""
    return responses.withColumn("date", day_of(F.col("created_at")))


def channel_daily(messages: DataFrame, responses: DataFrame) -> DataFrame:
    """From `channel_messages` and `dated_responses`."""
    is_scheduled = F.coalesce("message_id", F.lit("")).startswith(SCHEDULE_PREFIX)
    is_person = ~F.col("channel").isin(*PROGRAM_CHANNELS) & ~is_scheduled
    received = messages.groupBy("channel", "date").agg(
        F.count("*").alias("messages"),
        F.count_distinct(F.when(is_person, F.coalesce(person(), "sender"))).alias("people"),
        F.count_if(F.col("status") == "completed").alias("completed"),
        F.count_if(F.col("status") == "dead").alias("dead"),
        percentile("latency_ms", 50),
        percentile("latency_ms", 95),
    )
    answered = responses.groupBy("channel", "date").agg(
        F.count("*").alias("responses"),
        F.count_if(F.col("status") == "acked").alias("delivered"),
        F.count_if(F.col("status") == "failed").alias("undelivered"),
        percentile("delivery_ms", 50),
    )
    return received.join(answered, ["channel", "date"], "full").fillna(0, list(_COUNTS))


def conversations(messages: DataFrame, runs: DataFrame) -> DataFrame:
    """From rows of silver.messages and silver.runs of the same dates."""
    return _summarized(messages).join(_spent(runs), list(_KEY), "left").fillna(0, ["runs", "run_ms", "tokens", "cost"])


def _summarized(messages: DataFrame) -> DataFrame:
    kept = messages.where(F.col("conversation_id").isNotNull() & (F.col("status") != "deleted"))
    named = kept.withColumn("started_at", F.col("conversation_started_at"))
    first = F.min_by(
        F.struct("channel", "sender", "agent", F.substring("message", 1, MESSAGE_EXCERPT).alias("message")), "id"
    )
    summaries = named.groupBy(*_KEY).agg(
        F.max("updated_at").alias("updated_at"),
        F.min("id").alias("first_id"),
        F.min_by("conversation_team", F.when(F.col("conversation_team").isNotNull(), F.col("id"))).alias("team"),
        first.alias("first"),
        F.count("*").alias("messages"),
        F.count_if(F.col("status").isin(*_OPEN)).alias("open"),
        F.count_if(F.col("status") == "dead").alias("dead"),
        F.max("hop").alias("depth"),
        # Not `count_distinct`, which shuffles every row twice; a conversation has few agents.
        F.size(F.collect_set("agent")).cast("bigint").alias("agents"),
        F.array_sort(F.collect_list(F.expr(_LINK))).alias("chain"),
    )
    # The duration is known once the last message has ended.
    took = F.when(F.col("open") == 0, _critical_path())
    return summaries.select("*", "first.*", _width().alias("width"), took.alias("critical_path_ms")).drop(
        "first", "chain"
    )


def _width() -> Column:
    """The largest number of messages with the same parent."""
    parents = F.filter(F.transform("chain", lambda link: link["parent_message_id"]), lambda name: name.isNotNull())
    counts = F.transform(
        F.array_distinct(parents), lambda name: F.size(F.filter(parents, lambda other: other == name)).cast("bigint")
    )
    return F.coalesce(F.array_max(counts), F.lit(0).cast("bigint"))


def _critical_path() -> Column:
    """The longest sum of message times along a chain. A parent precedes its hand-offs in `chain`."""
    empty = F.create_map().cast("map<string,bigint>")
    lengths = F.aggregate(
        F.slice("chain", 1, _MOST_LINKS),
        empty,
        lambda known, link: F.map_concat(
            F.map_filter(known, lambda name, _: name != link["message_id"]),
            F.create_map(
                link["message_id"],
                F.coalesce(F.element_at(known, link["parent_message_id"]), F.lit(0)) + link["took_ms"],
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


def dead_by_day(messages: DataFrame) -> DataFrame:
    """Messages that died at least once, each on the day of its arrival, because that day never changes."""
    return messages.where(F.col("deaths") > 0).withColumn("date", day_of(F.col("created_at")))


def dead_letters(messages: DataFrame) -> DataFrame:
    """From `dead_by_day`."""
    error = F.substring(F.substring_index(F.trim(F.coalesce("last_error", F.lit(""))), "\n", 1), 1, ERROR_EXCERPT)
    shaped = messages.withColumn("line", error).withColumn("fingerprint", fingerprint(F.col("line")))
    return shaped.groupBy("agent", "fingerprint", "date").agg(
        F.min_by("error_kind", "id").alias("error_kind"),
        F.min_by("line", "id").alias("error"),
        F.count("*").alias("messages"),
        F.count_if(F.col("status") == "dead").alias("still_dead"),
        F.min("died_at").alias("first_at"),
        F.max("died_at").alias("last_at"),
        F.min("id").alias("example_id"),
    )


def fingerprint(error: Column) -> Column:
    """A hash of the error without its numbers, ids, paths and quoted texts."""
    shape = F.lower(error)
    for pattern, placeholder in ERROR_VARIABLE_PARTS:
        shape = F.regexp_replace(shape, pattern, placeholder)
    return F.substring(F.sha2(F.trim(shape), 256), 1, 12)


def dated_handoffs(handoffs: DataFrame) -> DataFrame:
    """Hand-offs, each on its day."""
    return handoffs.withColumn("date", day_of(F.col("handed_at")))


def handoff_edges(handoffs: DataFrame) -> DataFrame:
    """From `dated_handoffs`."""
    return handoffs.groupBy("from_agent", "to_agent", "date").agg(
        F.count("*").alias("handoffs"),
        F.count_if(F.col("status") == "completed").alias("completed"),
        F.count_if(F.col("status") == "dead").alias("dead"),
        percentile("wait_ms", 50),
        percentile("latency_ms", 50),
        percentile("latency_ms", 95),
    )


def texts_to_cut(lines: DataFrame) -> DataFrame:
    """For gold.memory_chunks: from rows of silver.agent_messages, those with a text. `cut_lines` cuts them."""
    return lines.where(F.col("content").isNotNull()).select(
        F.col("agent_id").alias("agent"),
        F.col("id").alias("history_id"),
        "role",
        "message_id",
        "conversation_id",
        "created_at",
        "content",
        "date",
    )
