"""Silver tables, folded from events: messages, runs, responses, hand-offs, lines of chat rooms and histories."""

from typing import Final

from tinyagi.pipeline.tables.model import LAST_EVENT_ID, MS, TIMESTAMP, UTC, Column, Kept, Merge, Table

_CONVERSATION_START: Final = "the start of the conversation"

MESSAGES: Final = Table(
    name="silver.messages",
    meaning="One message, from its arrival to its end.",
    key=("id",),
    kept=Kept.FOLDED,
    date=_CONVERSATION_START,
    columns=(
        Column("id", "long", "`messages.id`, never reused.", merge=Merge.FIRST),
        Column(
            "message_id", "string", "The id its client gave it; may be reused after it is pruned.", merge=Merge.FIRST
        ),
        Column("conversation_id", "string", "The conversation it belongs to.", merge=Merge.FIRST),
        Column("conversation_started_at", TIMESTAMP, "When that conversation started.", UTC, merge=Merge.FIRST),
        Column(
            "conversation_team",
            "string",
            "The team of the conversation when the message arrived.",
            merge=Merge.FIRST,
        ),
        Column("parent_message_id", "string", "The message whose answer handed it over.", merge=Merge.FIRST),
        Column("channel", "string", "The channel it came from.", merge=Merge.FIRST),
        Column("sender", "string", "The sender's name.", personal=True, merge=Merge.FIRST),
        Column("sender_id", "string", "The sender's id on the channel.", personal=True, merge=Merge.FIRST),
        Column("agent", "string", "The agent whose lane it is in.", merge=Merge.LAST),
        Column("from_agent", "string", "The teammate that handed it over.", merge=Merge.FIRST),
        Column("team", "string", "The team it was sent to.", merge=Merge.FIRST),
        Column(
            "thread", "string", "The thread within the lane: one per chat partner.", personal=True, merge=Merge.FIRST
        ),
        Column("hop", "int", "Hand-offs before it; 0 for a message from a person.", merge=Merge.FIRST),
        Column("priority", "int", "0, or less for room posts.", merge=Merge.MAX),
        Column("message", "string", "Its text.", personal=True, merge=Merge.LAST),
        Column("files", "string", "Paths of its attachments, a JSON array.", personal=True, merge=Merge.FIRST),
        Column(
            "answer", "string", "The answer, if it was the first message of its run.", personal=True, merge=Merge.LAST
        ),
        Column(
            "status",
            "string",
            "`pending`, `processing`, `completed`, `dead`, or `deleted` by a person.",
            merge=Merge.LAST,
        ),
        Column("retry_count", "int", "Attempts used since the last retry by a person.", merge=Merge.LAST),
        Column("last_error", "string", "Why its last attempt failed.", personal=True, merge=Merge.LAST),
        Column("error_kind", "string", "The kind of that error.", merge=Merge.LAST),
        Column(
            "available_at",
            TIMESTAMP,
            "It does not run before this time; the start of 1970 means at once.",
            UTC,
            merge=Merge.LAST,
        ),
        Column("answered_by", "string", "The first message of the run that completed it.", merge=Merge.LAST),
        Column("claim_id", "string", "Its latest run.", merge=Merge.LAST),
        Column("created_at", TIMESTAMP, "When it arrived.", UTC, merge=Merge.FIRST),
        Column("first_started_at", TIMESTAMP, "When its first run started.", UTC, merge=Merge.FIRST),
        Column("started_at", TIMESTAMP, "When its latest run started.", UTC, merge=Merge.LAST),
        Column("completed_at", TIMESTAMP, "When it was completed.", UTC, merge=Merge.LAST),
        Column("died_at", TIMESTAMP, "When it last died.", UTC, merge=Merge.LAST),
        Column("updated_at", TIMESTAMP, "When it last changed.", UTC, merge=Merge.LAST),
        Column("runs", "long", "Runs started for it.", merge=Merge.SUM),
        Column("deaths", "long", "How often it died; more than once after retries by a person.", merge=Merge.SUM),
        Column("wait_ms", "long", "From its arrival to its first run.", MS),
        Column("run_ms", "long", "Length of its last run, once it is completed.", MS),
        Column("latency_ms", "long", "From its arrival to its completion.", MS),
        LAST_EVENT_ID,
    ),
)

RUNS: Final = Table(
    name="silver.runs",
    meaning="One attempt of an agent, from its claim to its outcome.",
    key=("claim_id",),
    kept=Kept.FOLDED,
    date=_CONVERSATION_START,
    columns=(
        Column("claim_id", "string", "The claim of the run.", merge=Merge.FIRST),
        Column("agent", "string", "The agent that ran.", merge=Merge.FIRST),
        Column("team", "string", "The team that it answered for.", merge=Merge.LAST),
        Column("conversation_id", "string", "The conversation of its first message.", merge=Merge.FIRST),
        Column("conversation_started_at", TIMESTAMP, "When that conversation started.", UTC, merge=Merge.FIRST),
        Column("message_id", "string", "Its first message.", merge=Merge.FIRST),
        Column("ids", "array<long>", "`messages.id` of all its messages, in order.", merge=Merge.FIRST),
        Column("attempt", "int", "Attempt number of its first message, from 1.", merge=Merge.FIRST),
        Column("from_agent", "string", "The teammate that handed over its first message.", merge=Merge.FIRST),
        Column("started_at", TIMESTAMP, "When it started.", UTC, merge=Merge.FIRST),
        Column("ended_at", TIMESTAMP, "When it ended.", UTC, merge=Merge.FIRST),
        Column("wait_ms", "long", "How long its first message had waited.", MS, merge=Merge.FIRST),
        Column("told_ms", "long", "The duration that the run itself reported.", MS, merge=Merge.FIRST),
        Column(
            "results",
            "array<struct<id:long,outcome:string,attempt:int,reason:string>>",
            "The outcome of each message, when the run gave no answer.",
            personal=True,
            merge=Merge.GATHER,
        ),
        Column("is_done", "boolean", "True when it gave an answer.", merge=Merge.MAX),
        Column("error_kind", "string", "The kind of its error.", merge=Merge.LAST),
        Column("provider", "string", "The provider of the model.", merge=Merge.LAST),
        Column("model", "string", "The model.", merge=Merge.LAST),
        Column("input_tokens", "long", "Tokens read.", "tokens", merge=Merge.LAST),
        Column("output_tokens", "long", "Tokens written.", "tokens", merge=Merge.LAST),
        Column("cache_tokens", "long", "Tokens from a cache.", "tokens", merge=Merge.LAST),
        Column("cost", "double", "What it cost.", "USD", merge=Merge.LAST),
        Column("end_event_id", "long", "The event that ended it.", merge=Merge.FIRST),
        Column(
            "outcome",
            "string",
            "`running`, `completed`, `failed`, `dead`, `stopped`, `released` or `recovered`.",
        ),
        Column("error", "string", "Why it gave no answer.", personal=True),
        Column("run_ms", "long", "From start to end; null while it runs or when the clock went back.", MS),
        LAST_EVENT_ID,
    ),
)

RESPONSES: Final = Table(
    name="silver.responses",
    meaning="One answer or notice to a person, with its delivery.",
    key=("id",),
    kept=Kept.FOLDED,
    date=f"{_CONVERSATION_START}, or of the response when it has no conversation",
    columns=(
        Column("id", "long", "`responses.id`, never reused.", merge=Merge.FIRST),
        Column("message_id", "string", "The message it answers.", merge=Merge.FIRST),
        Column("conversation_id", "string", "The conversation it belongs to.", merge=Merge.FIRST),
        Column("conversation_started_at", TIMESTAMP, "When that conversation started.", UTC, merge=Merge.FIRST),
        Column("channel", "string", "The channel it goes to.", merge=Merge.FIRST),
        Column("sender", "string", "The recipient's name.", personal=True, merge=Merge.FIRST),
        Column("sender_id", "string", "The recipient's id on the channel.", personal=True, merge=Merge.FIRST),
        Column("agent", "string", "The agent that answers.", merge=Merge.FIRST),
        Column("message", "string", "Its text.", personal=True, merge=Merge.FIRST),
        Column("original_message", "string", "The text it answers.", personal=True, merge=Merge.FIRST),
        Column("files", "string", "Paths of its attachments, a JSON array.", personal=True, merge=Merge.FIRST),
        Column("metadata", "string", "Fields that hooks added, a JSON object.", personal=True, merge=Merge.FIRST),
        Column("seq", "int", "0 for the answer, 1, 2, … for notices.", merge=Merge.FIRST),
        Column("status", "string", "`pending`, `acked` or `failed`.", merge=Merge.LAST),
        Column("attempts", "int", "Failed deliveries.", merge=Merge.LAST),
        Column("last_error", "string", "Why the last delivery failed.", personal=True, merge=Merge.LAST),
        Column(
            "available_at",
            TIMESTAMP,
            "It is not delivered before this time; the start of 1970 means at once.",
            UTC,
            merge=Merge.LAST,
        ),
        Column("created_at", TIMESTAMP, "When it was ready.", UTC, merge=Merge.FIRST),
        Column("acked_at", TIMESTAMP, "When it was delivered.", UTC, merge=Merge.LAST),
        Column("delivery_ms", "long", "From ready to delivered.", MS),
        LAST_EVENT_ID,
    ),
)

HANDOFFS: Final = Table(
    name="silver.handoffs",
    meaning="One piece of work that an agent handed to a teammate.",
    key=("id",),
    kept=Kept.FOLDED,
    date=_CONVERSATION_START,
    columns=(
        Column("id", "long", "`messages.id` of the message that the teammate got."),
        Column("message_id", "string", "Its `message_id`."),
        Column("parent_message_id", "string", "The message whose answer handed it over."),
        Column("conversation_id", "string", "The conversation it belongs to."),
        Column("conversation_started_at", TIMESTAMP, "When that conversation started.", UTC),
        Column("team", "string", "The team in which it was handed over."),
        Column("from_agent", "string", "The agent that handed it over."),
        Column("to_agent", "string", "The agent that got it."),
        Column("hop", "int", "Its depth: 1 is the first hand-off."),
        Column("handed_at", TIMESTAMP, "When it was handed over.", UTC),
        Column("started_at", TIMESTAMP, "When the teammate's first run started.", UTC),
        Column("completed_at", TIMESTAMP, "When the teammate was done.", UTC),
        Column("status", "string", "The status of the message."),
        Column("wait_ms", "long", "From hand-off to the teammate's first run.", MS),
        Column("latency_ms", "long", "From hand-off to its completion.", MS),
        LAST_EVENT_ID,
    ),
)

CHAT_MESSAGES: Final = Table(
    name="silver.chat_messages",
    meaning="One line in a team's chat room.",
    key=("id",),
    kept=Kept.APPENDED,
    date="the line",
    columns=(
        Column("id", "long", "`chat_messages.id`."),
        Column("team_id", "string", "The team of the room."),
        Column("from_agent", "string", "The author: an agent, or a person by name.", personal=True),
        Column("message", "string", "The text.", personal=True),
        Column("conversation_id", "string", "The conversation it was written in."),
        Column("created_at", TIMESTAMP, "When it was posted.", UTC),
        LAST_EVENT_ID,
    ),
)

AGENT_MESSAGES: Final = Table(
    name="silver.agent_messages",
    meaning="One line of an agent's history: a message to it, or its answer.",
    key=("id",),
    kept=Kept.APPENDED,
    date="the line",
    columns=(
        Column("id", "long", "`agent_messages.id`."),
        Column("agent_id", "string", "The agent of the history."),
        Column("role", "string", "`user` or `assistant`."),
        Column("channel", "string", "The channel it came from or went to."),
        Column("sender", "string", "The author.", personal=True),
        Column("message_id", "string", "The message it belongs to."),
        Column("conversation_id", "string", "The conversation it belongs to."),
        Column("content", "string", "The text.", personal=True),
        Column("from_agent", "string", "The teammate that wrote it; null for people and answers."),
        Column("created_at", TIMESTAMP, "When it was written.", UTC),
        LAST_EVENT_ID,
    ),
)

SILVER: Final = (MESSAGES, RUNS, RESPONSES, HANDOFFS, CHAT_MESSAGES, AGENT_MESSAGES)
