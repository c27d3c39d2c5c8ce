"""Every table and how it is brought up to date, in the order of what depends on what."""

from typing import Final

from pyspark.sql import DataFrame

from tinyagi.pipeline.gold.agent_hourly import agent_hourly, ended_runs
from tinyagi.pipeline.gold.channel_daily import channel_daily, dated_responses, peoples_messages
from tinyagi.pipeline.gold.conversations import conversations
from tinyagi.pipeline.gold.dead_letters import dead_letters, died
from tinyagi.pipeline.gold.handoff_edges import dated_handoffs, handoff_edges
from tinyagi.pipeline.gold.memory_chunks import memory_chunks
from tinyagi.pipeline.judging import Judged
from tinyagi.pipeline.silver.handoffs import handoffs
from tinyagi.pipeline.silver.lines import chat_lines, history_lines
from tinyagi.pipeline.silver.messages import finish_messages, message_sayings
from tinyagi.pipeline.silver.responses import finish_responses, response_sayings
from tinyagi.pipeline.silver.runs import finish_runs, run_sayings
from tinyagi.pipeline.steps import Appended, Dated, Folded, Followed, Replaced
from tinyagi.pipeline.tables import gold, silver


def _as_they_are(rows: DataFrame) -> DataFrame:
    return rows


FROM_EVENTS: Final[tuple[Folded | Appended, ...]] = (
    Folded(silver.MESSAGES, message_sayings, finish_messages),
    Folded(silver.RUNS, run_sayings, finish_runs),
    Folded(silver.RESPONSES, response_sayings, finish_responses),
    Appended(silver.AGENT_MESSAGES, history_lines),
    Appended(silver.CHAT_MESSAGES, chat_lines),
)
HANDOFFS: Final = Followed(silver.HANDOFFS, silver.MESSAGES.name, handoffs)

FROM_SILVER: Final[tuple[Replaced, ...]] = (
    Replaced(gold.AGENT_HOURLY, (Dated(silver.RUNS.name, ended_runs, "ended_at"),), agent_hourly),
    Replaced(
        gold.CONVERSATIONS,
        (Dated(silver.MESSAGES.name, _as_they_are, None), Dated(silver.RUNS.name, _as_they_are, None)),
        conversations,
    ),
    Replaced(gold.HANDOFF_EDGES, (Dated(silver.HANDOFFS.name, dated_handoffs, "handed_at"),), handoff_edges),
    Replaced(
        gold.CHANNEL_DAILY,
        (
            Dated(silver.MESSAGES.name, peoples_messages, "created_at"),
            Dated(silver.RESPONSES.name, dated_responses, "created_at"),
        ),
        channel_daily,
    ),
    Replaced(gold.DEAD_LETTERS, (Dated(silver.MESSAGES.name, died, "created_at"),), dead_letters),
    Replaced(gold.MEMORY_CHUNKS, (Dated(silver.AGENT_MESSAGES.name, _as_they_are, None),), memory_chunks),
)
FROM_GOLD: Final[tuple[Judged, ...]] = (Judged(),)
