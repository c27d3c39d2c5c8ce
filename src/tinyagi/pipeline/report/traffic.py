"""Who wrote, where it went, and which conversations took long."""

import pyarrow as pa
import pyarrow.compute as pc

from tinyagi.domain.messages import ROOM_CHANNEL
from tinyagi.pipeline.report.gold import GoldReader, measured, real, text, whole
from tinyagi.pipeline.report.model import ChannelFigures, Edge, SlowConversation
from tinyagi.pipeline.report.work import TOP


def conversations(gold: GoldReader) -> pa.Table:
    """Who began each conversation, where, and how long it took; no texts, which are most of the table."""
    return gold.rows("gold.conversations", ("channel", "sender", "critical_path_ms"))


def people_by_channel(conversations: pa.Table) -> dict[str, int]:
    """How many different people began conversations; posts to a room are mostly those of agents."""
    counted = (
        conversations.filter(pc.field("channel") != ROOM_CHANNEL)
        .group_by("channel")
        .aggregate([("sender", "count_distinct")])
    )
    return {text(row["channel"]): whole(row["sender_count_distinct"]) for row in counted.to_pylist()}


def edges(gold: GoldReader) -> tuple[Edge, ...]:
    columns = ("from_agent", "to_agent", "handoffs", "completed", "dead", "latency_p95")
    sums = [(name, "sum") for name in ("handoffs", "completed", "dead")]
    rows = gold.rows("gold.handoff_edges", columns).group_by(["from_agent", "to_agent"])
    found = [
        Edge(
            from_agent=text(row["from_agent"]),
            to_agent=text(row["to_agent"]),
            handoffs=whole(row["handoffs_sum"]),
            completed=whole(row["completed_sum"]),
            dead=whole(row["dead_sum"]),
            worst_p95=measured(row["latency_p95_max"]),
        )
        for row in rows.aggregate([*sums, ("latency_p95", "max")]).to_pylist()
    ]
    return tuple(sorted(found, key=lambda one: (-one.handoffs, one.from_agent, one.to_agent)))


def channels(gold: GoldReader, people: dict[str, int]) -> tuple[ChannelFigures, ...]:
    counts = ("messages", "completed", "dead", "responses", "delivered", "undelivered")
    rows = gold.rows("gold.channel_daily", ("channel", *counts, "latency_p95")).group_by("channel")
    found = [
        ChannelFigures(
            channel=text(row["channel"]),
            people=people.get(text(row["channel"]), 0),
            worst_p95=measured(row["latency_p95_max"]),
            **{name: whole(row[f"{name}_sum"]) for name in counts},
        )
        for row in rows.aggregate([*((name, "sum") for name in counts), ("latency_p95", "max")]).to_pylist()
    ]
    return tuple(sorted(found, key=lambda one: (-one.messages, -one.responses, one.channel)))


def slowest(gold: GoldReader, conversations: pa.Table) -> tuple[SlowConversation, ...]:
    """Read once more, with the texts, those that took as long as the last of the slowest or longer."""
    times = conversations["critical_path_ms"].drop_null()
    if len(times) == 0:
        return ()
    longest = times.take(pc.select_k_unstable(times, k=min(TOP, len(times)), sort_keys=[("", "descending")]))
    columns = ("conversation_id", "started_at", "channel", "agent", "message", "messages", "depth", "agents", "run_ms")
    rows = gold.rows(
        "gold.conversations",
        (*columns, "critical_path_ms", "cost"),
        where=pc.field("critical_path_ms") >= pc.min(longest),
    )
    found = [
        SlowConversation(
            conversation_id=text(row["conversation_id"]),
            started_at=whole(row["started_at"]),
            channel=text(row["channel"]),
            agent=text(row["agent"]),
            message=text(row["message"]),
            messages=whole(row["messages"]),
            depth=whole(row["depth"]),
            agents=whole(row["agents"]),
            critical_path_ms=whole(row["critical_path_ms"]),
            run_ms=whole(row["run_ms"]),
            cost=real(row["cost"]),
        )
        for row in rows.to_pylist()
    ]
    return tuple(sorted(found, key=lambda one: (-one.critical_path_ms, one.started_at, one.conversation_id))[:TOP])
