"""Events as they were recorded, and the list of those that cannot be believed."""

from typing import Final

from tinyagi.pipeline.tables.model import INSTANT, Column, Kept, Table

EVENTS: Final = Table(
    name="bronze.events",
    meaning="One event as the queue recorded it; also those that break an expectation.",
    key=("id",),
    kept=Kept.APPENDED,
    date="the event, kept between 2020 and the day after its arrival",
    columns=(
        Column("id", "long", "Its place in the log; ids grow in the order of the commits and may have gaps."),
        Column("type", "string", "What happened; docs/reference/events.md lists them."),
        Column("version", "int", "Of the shape of its payload."),
        Column("message_id", "string", "The message it is about, by its client's name for it."),
        Column("conversation_id", "string", "The conversation it belongs to."),
        Column("conversation_started_at", "long", "When that conversation began.", INSTANT),
        Column("agent", "string", "The agent it is about."),
        Column("payload", "string", "Its own fields, as JSON text.", personal=True),
        Column("created_at", "long", "When it was recorded.", INSTANT),
        Column("batch", "long", "When it arrived in the lake; all events of one batch share it.", INSTANT),
    ),
)

QUARANTINE: Final = Table(
    name="quarantine.events",
    meaning="One event that broke an expectation; what it says is in bronze.events, and nowhere else.",
    key=("id",),
    kept=Kept.APPENDED,
    date="the event, as in bronze.events",
    columns=(
        Column("id", "long", "The event, by its place in the log."),
        Column("type", "string", "Its type, as recorded."),
        Column("reason", "string", "Which expectation it broke."),
        Column("agent", "string", "The agent it is about."),
        Column("conversation_id", "string", "The conversation it belongs to."),
        Column("created_at", "long", "When it was recorded.", INSTANT),
    ),
)
