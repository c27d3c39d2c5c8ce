"""Gold tables, small aggregates that are read without Spark in milliseconds, and the definitions of their figures.

Gold, the report, the analytics API and the reference page share the definitions; readers without Spark share the
histogram edges and the patterns of an error fingerprint.
"""

from typing import Final

from tinyagi.domain.messages import RESERVED_CHANNELS
from tinyagi.pipeline.tables.model import MS, TIMESTAMP, UTC, Column, Kept, Table

PROGRAM_CHANNELS: Final = RESERVED_CHANNELS
"""Channels whose senders are the program or an agent, never a person."""
SCHEDULE_PREFIX: Final = "schedule_"
"""The prefix of the `message_id` of every message that a schedule sends, on any channel."""
BASELINE_DAYS: Final = 2
"""Earlier days on which an agent must have worked before it can get an alert."""

HISTOGRAM_EDGES: Final = tuple(step * 10**power for power in range(8) for step in (1, 2, 5))
"""Upper edges, in ms, of the histogram buckets (1, 2, 5, 10, … 50,000,000); the last bucket has none."""

ERROR_EXCERPT: Final = 200
# From specific to general: an address contains a path, a path contains numbers.
ERROR_VARIABLE_PARTS: Final = (
    (r"[a-z][a-z0-9+.-]*://\S+", "<address>"),
    (r"(/[\w.~-]+){2,}/?", "<path>"),
    (r"\b[0-9a-f]{8,}(-[0-9a-f]{4,})*\b", "<id>"),
    (r"\b\w+_[0-9a-z]{8}\b", "<id>"),
    (r"'[^']*'|\"[^\"]*\"|`[^`]*`", "<text>"),
    (r"\d+", "#"),
    (r"\s+", " "),
)

_HISTOGRAM: Final = "counts per bucket of 1, 2, 5, 10, … ms; add rows for a longer range"


def _percentiles(of: str, meaning: str) -> tuple[Column, ...]:
    return tuple(
        Column(f"{of}_p{share}", "double", f"{meaning}, {'median' if share == 50 else f'{share}th percentile'}.", MS)
        for share in (50, 95, 99)
    )


AGENT_HOURLY: Final = Table(
    name="gold.agent_hourly",
    meaning="One agent in one hour: its runs, their times and their cost.",
    key=("agent", "hour"),
    kept=Kept.REPLACED,
    date="the hour",
    columns=(
        Column("agent", "string", "The agent that ran."),
        Column("hour", TIMESTAMP, "The start of the hour in which the runs ended.", UTC),
        Column("runs", "long", "Runs that ended."),
        Column("completed", "long", "Runs that gave an answer."),
        Column(
            "failures",
            "long",
            "Runs that failed, retried or not. The rest of the runs was interrupted.",
        ),
        Column("retries", "long", "Runs that were a second or later attempt."),
        Column("dead", "long", "Runs that failed for the last time; not messages."),
        *_percentiles("wait", "Wait before a run"),
        *_percentiles("run", "Length of a run"),
        Column("wait_hist", "array<long>", f"Waits: {_HISTOGRAM}."),
        Column("run_hist", "array<long>", f"Lengths: {_HISTOGRAM}."),
        Column("input_tokens", "long", "Tokens read.", "tokens"),
        Column("output_tokens", "long", "Tokens written.", "tokens"),
        Column("cache_tokens", "long", "Tokens from a cache.", "tokens"),
        Column("cost", "double", "What the runs cost.", "USD"),
    ),
)

CONVERSATIONS: Final = Table(
    name="gold.conversations",
    meaning="One conversation: an incoming message and everything that follows from it.",
    key=("conversation_id", "started_at"),
    kept=Kept.REPLACED,
    date="its start",
    columns=(
        Column("conversation_id", "string", "Its id: the `message_id` of its first message."),
        Column("started_at", TIMESTAMP, "When it started.", UTC),
        Column("updated_at", TIMESTAMP, "When it last changed.", UTC),
        Column("first_id", "long", "`messages.id` of its first message."),
        Column("team", "string", "The team it belongs to."),
        Column("channel", "string", "The channel it came from."),
        Column("sender", "string", "The sender of its first message.", personal=True),
        Column("agent", "string", "The agent that got its first message."),
        Column("message", "string", "The first 200 characters of its first message.", personal=True),
        Column("messages", "long", "Number of messages."),
        Column("open", "long", "Messages that are pending or running."),
        Column("dead", "long", "Messages that are dead."),
        Column("depth", "int", "Hand-offs on its longest chain."),
        Column("width", "long", "The largest number of hand-offs from one message."),
        Column("agents", "long", "Number of agents that took part."),
        Column("runs", "long", "Runs that ended."),
        Column(
            "critical_path_ms",
            "long",
            "The times of messages, from arrival to end, added along the slowest chain; null while a message is open.",
            MS,
        ),
        Column("run_ms", "long", "Total run time.", MS),
        Column("tokens", "long", "Tokens read, written and from a cache.", "tokens"),
        Column("cost", "double", "What its runs cost.", "USD"),
    ),
)

HANDOFF_EDGES: Final = Table(
    name="gold.handoff_edges",
    meaning="One agent handing work to one teammate on one day.",
    key=("from_agent", "to_agent", "date"),
    kept=Kept.REPLACED,
    date="the hand-off",
    columns=(
        Column("from_agent", "string", "The agent that handed over."),
        Column("to_agent", "string", "The agent that got it."),
        Column("handoffs", "long", "Number of hand-offs."),
        Column("completed", "long", "Hand-offs that are completed."),
        Column("dead", "long", "Hand-offs that are dead."),
        Column("wait_p50", "double", "Wait for the teammate, median.", MS),
        Column("latency_p50", "double", "Time until the teammate completed it, median.", MS),
        Column("latency_p95", "double", "Time until the teammate completed it, 95th percentile.", MS),
    ),
)

CHANNEL_DAILY: Final = Table(
    name="gold.channel_daily",
    meaning="One channel on one day: messages, people and responses.",
    key=("channel", "date"),
    kept=Kept.REPLACED,
    date="the message or the response",
    columns=(
        Column("channel", "string", "The channel."),
        Column("messages", "long", "Messages that arrived, without hand-offs and room posts."),
        Column("people", "long", "Different people who wrote; 0 on internal channels such as `heartbeat`."),
        Column("completed", "long", "Messages that are completed."),
        Column("dead", "long", "Messages that are dead."),
        Column("latency_p50", "double", "From message to completion, median.", MS),
        Column("latency_p95", "double", "From message to completion, 95th percentile.", MS),
        Column("responses", "long", "Answers and notices that were ready."),
        Column("delivered", "long", "Responses that are delivered."),
        Column("undelivered", "long", "Responses whose delivery failed for good."),
        Column("delivery_p50", "double", "From ready to delivered, median.", MS),
    ),
)

DEAD_LETTERS: Final = Table(
    name="gold.dead_letters",
    meaning="One cause of death among one agent's messages that arrived on one day.",
    key=("agent", "fingerprint", "date"),
    kept=Kept.REPLACED,
    date="the arrival of the messages",
    columns=(
        Column("agent", "string", "The agent whose lane they are in."),
        Column("fingerprint", "string", "The error without its numbers, names and paths, as a hash."),
        Column("error_kind", "string", "The kind of the error."),
        Column("error", "string", "The first line of one such error.", personal=True),
        Column("messages", "long", "Messages that died of this error."),
        Column("still_dead", "long", "Messages that are still dead: neither retried nor deleted."),
        Column("first_at", TIMESTAMP, "The first death.", UTC),
        Column("last_at", TIMESTAMP, "The last death.", UTC),
        Column("example_id", "long", "`messages.id` of one of them."),
    ),
)

ALERTS: Final = Table(
    name="gold.alerts",
    meaning="One alert: a figure of one hour that differs much from the week before.",
    key=("rule", "agent", "hour"),
    kept=Kept.REPLACED,
    date="the hour",
    columns=(
        Column(
            "rule",
            "string",
            "`cost_spike`: the hour cost far more than the median of the agent's active hours in the 7 days before; "
            "`error_rate`: far more of its runs failed than in those days; `slow_agent`: the p95 of its runs is far "
            "above the median of those hours; `backlog`: the messages waiting in its lane increased hour after hour.",
        ),
        Column("agent", "string", "The agent it is about."),
        Column("hour", TIMESTAMP, "The start of the hour.", UTC),
        Column("value", "double", "The measured value: USD, a share of runs, ms, or messages, depending on the rule."),
        Column(
            "usual",
            "double",
            "The usual value, in the same unit; for `backlog` the messages waiting some hours before.",
        ),
        Column("text", "string", "The alert in one sentence."),
    ),
)

MEMORY_CHUNKS: Final = Table(
    name="gold.memory_chunks",
    meaning="One piece of an agent's history, for search.",
    key=("agent", "chunk"),
    kept=Kept.REPLACED,
    date="the line it is from",
    columns=(
        Column("agent", "string", "The agent of the history."),
        Column("chunk", "string", "`id.number`: the line of the history and the piece of it, from 1."),
        Column("history_id", "long", "`agent_messages.id` of the line."),
        Column("role", "string", "`user` or `assistant`."),
        Column("message_id", "string", "The message it belongs to."),
        Column("conversation_id", "string", "The conversation it belongs to."),
        Column("created_at", TIMESTAMP, "When it was written.", UTC),
        Column(
            "text", "string", "About 120 words, the first 30 of them repeated from the piece before.", personal=True
        ),
        Column(
            "terms",
            "array<struct<term:string,count:int>>",
            "Its words in lower case, without stop words, each with its count.",
            personal=True,
        ),
        Column("length", "int", "Number of these words, with repetitions."),
    ),
)

GOLD: Final = (AGENT_HOURLY, CONVERSATIONS, HANDOFF_EDGES, CHANNEL_DAILY, DEAD_LETTERS, ALERTS, MEMORY_CHUNKS)

DEFINITIONS: Final = {
    "dead message": (
        "A message whose status is `dead` as of the last event in the lake: it failed for the last time, was stopped, "
        "or lost its agent, and it was neither sent again nor deleted. It counts on the day of its arrival. "
        "`gold.dead_letters.still_dead`, `gold.channel_daily.dead`, `gold.handoff_edges.dead`, "
        "`gold.conversations.dead` and every `dead` of the report count these. `gold.dead_letters.messages` counts "
        "messages that died at least once. `gold.agent_hourly.dead` counts runs."
    ),
    "run": (
        "A run counts when it has ended, in the hour of its end. It was `completed`, it failed (`failures`), or it was "
        "interrupted: stopped by a person, released, or recovered after a crash. The three add up to `runs`."
    ),
    "completed share": "Completed runs divided by all runs that ended, interrupted ones included.",
    "message from a person": (
        "A message that no agent sent, on a channel other than "
        + ", ".join(f"`{name}`" for name in sorted(PROGRAM_CHANNELS))
        + ". The message of a schedule on a person's channel is one of them."
    ),
    "person": (
        "A sender of such messages: one `sender_id` of a channel, or one `sender` where the channel gives no id. "
        "Heartbeats, schedules and the board are not people."
    ),
    "duration of a conversation": (
        "`critical_path_ms`: the time from arrival to completion or death of each message, added along the slowest "
        "chain. It is null while a message of the conversation waits or runs. The report lists such a conversation "
        "as open, with the time since it started; room posts wait for the agent's next run and are left out there."
    ),
    "alert": (
        f"`cost_spike`, `error_rate` and `slow_agent` compare an hour with the agent's 7 days before it, and only when "
        f"the agent worked on at least {BASELINE_DAYS} earlier days among them. `backlog` compares an hour with the "
        "hours right before it and needs no earlier day."
    ),
}
