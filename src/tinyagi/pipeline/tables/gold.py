"""Answers to the questions an owner asks: small tables, read without Spark in milliseconds."""

from typing import Final

from tinyagi.pipeline.tables.model import INSTANT, MS, Column, Kept, Table

HISTOGRAM_EDGES: Final = tuple(step * 10**power for power in range(8) for step in (1, 2, 5))
"""Upper ends, in ms, of the buckets of every histogram (1, 2, 5, 10, … 50,000,000); the last bucket has none."""

_HISTOGRAM: Final = "how many per bucket of 1, 2, 5, 10, … ms; sums of several rows give a longer range"


def _percentiles(of: str, meaning: str) -> tuple[Column, ...]:
    return tuple(
        Column(f"{of}_p{share}", "double", f"{meaning}: {share} % took no longer.", MS) for share in (50, 95, 99)
    )


AGENT_HOURLY: Final = Table(
    name="gold.agent_hourly",
    meaning="One agent in one hour: what it did, how fast, and for how much.",
    key=("agent", "hour"),
    kept=Kept.REPLACED,
    date="the hour",
    columns=(
        Column("agent", "string", "Who ran."),
        Column("hour", "long", "The beginning of the hour in which the runs ended.", INSTANT),
        Column("runs", "long", "Runs that ended."),
        Column("completed", "long", "Those that gave an answer."),
        Column("failures", "long", "Those that failed, whether or not they were tried again."),
        Column("retries", "long", "Those that were a second or later attempt."),
        Column("dead", "long", "Those that failed for the last time."),
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
    meaning="One conversation: all that descends from one incoming message.",
    key=("conversation_id", "started_at"),
    kept=Kept.REPLACED,
    date="its beginning",
    columns=(
        Column("conversation_id", "string", "Its name: that of its first message."),
        Column("started_at", "long", "When it began.", INSTANT),
        Column("updated_at", "long", "When it last changed.", INSTANT),
        Column("first_id", "long", "`messages.id` of its first message."),
        Column("team", "string", "The team it belongs to."),
        Column("channel", "string", "Where it came from."),
        Column("sender", "string", "Who began it.", personal=True),
        Column("agent", "string", "Who got the first message."),
        Column("message", "string", "The beginning of the text it began with.", personal=True),
        Column("messages", "long", "How many messages it has."),
        Column("open", "long", "Those that are pending or being run."),
        Column("dead", "long", "Those that are dead."),
        Column("depth", "int", "Hand-offs on its longest chain."),
        Column("width", "long", "Most messages handed on by one message."),
        Column("agents", "long", "How many agents took part."),
        Column("runs", "long", "Runs that ended."),
        Column(
            "critical_path_ms",
            "long",
            "The slowest chain from a first message to a last answer: its latencies added.",
            MS,
        ),
        Column("run_ms", "long", "All its runs added.", MS),
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
        Column("from_agent", "string", "Who handed on."),
        Column("to_agent", "string", "Who got it."),
        Column("handoffs", "long", "How often."),
        Column("completed", "long", "How many of them are completed."),
        Column("dead", "long", "How many of them are dead."),
        Column("wait_p50", "double", "Wait for the teammate: half took no longer.", MS),
        Column("latency_p50", "double", "Until the teammate was done: half took no longer.", MS),
        Column("latency_p95", "double", "Until the teammate was done: 95 % took no longer.", MS),
    ),
)

CHANNEL_DAILY: Final = Table(
    name="gold.channel_daily",
    meaning="One channel on one day: what people sent and what they got.",
    key=("channel", "date"),
    kept=Kept.REPLACED,
    date="the message or the response",
    columns=(
        Column("channel", "string", "The channel."),
        Column("messages", "long", "Messages that came; hand-offs and room posts are none."),
        Column("people", "long", "How many different people wrote."),
        Column("completed", "long", "How many of the messages are completed."),
        Column("dead", "long", "How many of them are dead."),
        Column("latency_p50", "double", "From message to completion: half took no longer.", MS),
        Column("latency_p95", "double", "From message to completion: 95 % took no longer.", MS),
        Column("responses", "long", "Answers and notices that were ready."),
        Column("delivered", "long", "How many of them are delivered."),
        Column("undelivered", "long", "How many of them failed for good."),
        Column("delivery_p50", "double", "From ready to delivered: half took no longer.", MS),
    ),
)

DEAD_LETTERS: Final = Table(
    name="gold.dead_letters",
    meaning="One cause of death of one agent's messages that came on one day.",
    key=("agent", "fingerprint", "date"),
    kept=Kept.REPLACED,
    date="the arrival of the messages",
    columns=(
        Column("agent", "string", "The lane they stand in."),
        Column("fingerprint", "string", "The error without its numbers, names and paths, as a hash."),
        Column("error_kind", "string", "The class of the error."),
        Column("error", "string", "The first line of one such error.", personal=True),
        Column("messages", "long", "Messages that died of it."),
        Column("still_dead", "long", "Those that nobody has sent again or deleted."),
        Column("first_at", "long", "The first death.", INSTANT),
        Column("last_at", "long", "The last death.", INSTANT),
        Column("example_id", "long", "`messages.id` of one of them."),
    ),
)

ALERTS: Final = Table(
    name="gold.alerts",
    meaning="One thing an owner should look at: a figure of one hour that is far from what was usual.",
    key=("rule", "agent", "hour"),
    kept=Kept.REPLACED,
    date="the hour",
    columns=(
        Column(
            "rule",
            "string",
            "`cost_spike`: the hour cost far more than the median of the agent's active hours in the 7 days before; "
            "`error_rate`: far more of its runs failed than in those days; `slow_agent`: the p95 of its runs is far "
            "above the median of those hours; `backlog`: what waits in its lane has grown hour after hour.",
        ),
        Column("agent", "string", "The agent it is about."),
        Column("hour", "long", "The beginning of the hour.", INSTANT),
        Column("value", "double", "What was measured: USD, a share of the runs, ms, or messages, as the rule has it."),
        Column(
            "usual", "double", "What it is compared with, in the same unit; for `backlog` what waited hours before."
        ),
        Column("text", "string", "The alert in one sentence."),
    ),
)

MEMORY_CHUNKS: Final = Table(
    name="gold.memory_chunks",
    meaning="One piece of an agent's past, ready to be searched.",
    key=("agent", "chunk"),
    kept=Kept.REPLACED,
    date="the line it is from",
    columns=(
        Column("agent", "string", "Whose past."),
        Column("chunk", "string", "The line of the history and the piece of it, from 1: `id.number`."),
        Column("history_id", "long", "`agent_messages.id` of the line."),
        Column("role", "string", "`user` or `assistant`."),
        Column("message_id", "string", "The message it belongs to."),
        Column("conversation_id", "string", "The conversation it belongs to."),
        Column("created_at", "long", "When it was said.", INSTANT),
        Column(
            "text", "string", "The piece: about 120 words, the first 30 of them from the piece before.", personal=True
        ),
        Column(
            "terms",
            "array<struct<term:string,count:int>>",
            "Its words in small letters, without the commonest, and how often each stands in it.",
            personal=True,
        ),
        Column("length", "int", "How many of these words it has, repeated ones too."),
    ),
)

GOLD: Final = (AGENT_HOURLY, CONVERSATIONS, HANDOFF_EDGES, CHANNEL_DAILY, DEAD_LETTERS, ALERTS, MEMORY_CHUNKS)
