"""The bronze, quarantine and ops tables, and all tables of the lake in the order of their updates."""

from collections.abc import Mapping
from typing import Final

from tinyagi.domain.errors import NotFound
from tinyagi.pipeline.tables.gold import GOLD
from tinyagi.pipeline.tables.model import INSTANT, Column, Kept, Table
from tinyagi.pipeline.tables.silver import SILVER

EVENTS: Final = Table(
    name="bronze.events",
    meaning="One event as the queue recorded it, valid or not.",
    key=("id",),
    kept=Kept.APPENDED,
    date="the event, clamped between 2020 and the day after its arrival",
    columns=(
        Column("id", "long", "Its position in the log; ids grow in commit order and may have gaps."),
        Column("type", "string", "The event type; docs/reference/events.md lists them."),
        Column("version", "int", "The version of its payload's format."),
        Column("message_id", "string", "The message it is about, by the id its client gave it."),
        Column("conversation_id", "string", "The conversation it belongs to."),
        Column("conversation_started_at", "long", "When that conversation started.", INSTANT),
        Column("agent", "string", "The agent it is about."),
        Column("payload", "string", "Its own fields, as JSON text.", personal=True),
        Column("created_at", "long", "When it was recorded.", INSTANT),
        Column("batch", "long", "When it arrived in the lake; all events of one batch share it.", INSTANT),
    ),
)

QUARANTINE: Final = Table(
    name="quarantine.events",
    meaning="One invalid event. Its payload is in bronze.events and in no other table.",
    key=("id",),
    kept=Kept.APPENDED,
    date="the event, as in bronze.events",
    columns=(
        Column("id", "long", "The event's id."),
        Column("type", "string", "Its type, as recorded."),
        Column("reason", "string", "Why it is invalid."),
        Column("agent", "string", "The agent it is about."),
        Column("conversation_id", "string", "The conversation it belongs to."),
        Column("created_at", "long", "When it was recorded.", INSTANT),
    ),
)

PIPELINE_RUNS: Final = Table(
    name="ops.runs",
    meaning="One pipeline run that changed the lake.",
    key=("run_id",),
    kept=Kept.APPENDED,
    date="its end",
    columns=(
        Column("run_id", "string", "Its id."),
        Column("kind", "string", "The command: run, follow or backfill."),
        Column("started_at", "long", "When it started.", INSTANT),
        Column("ended_at", "long", "When it ended.", INSTANT),
        Column("from_id", "long", "The lake's last event before the run."),
        Column("through_id", "long", "The lake's last event after the run."),
        Column("events", "long", "Events ingested."),
        Column("quarantined", "long", "Events that were invalid."),
        Column("rows", "string", "Rows written per table, a JSON object."),
        Column("seconds", "string", "Seconds per stage, a JSON object."),
    ),
)

ERASURES: Final = Table(
    name="ops.erasures",
    meaning="One erasure of a person, without the person's name.",
    key=("pseudonym", "through_id"),
    kept=Kept.APPENDED,
    date="the erasure",
    columns=(
        Column("pseudonym", "string", "The text that replaces the name and the id."),
        Column("channel", "string", "Where the person wrote."),
        Column("marks", "array<string>", "The person's names and ids, hashed with the home's own key."),
        Column("through_id", "long", "The last event it covers; later messages of the person are not erased."),
        Column("conversations", "array<string>", "Conversations that were erased."),
        Column("messages", "array<string>", "Messages that were erased, by the ids their clients gave them."),
        Column("agents", "array<string>", "Agents that took part."),
        Column("erased_at", "long", "When it happened.", INSTANT),
    ),
)

TABLES: Final[Mapping[str, Table]] = {
    table.name: table for table in (EVENTS, *SILVER, QUARANTINE, *GOLD, PIPELINE_RUNS, ERASURES)
}


def find_table(name: str) -> Table:
    """The table of this name; raise NotFound that lists the known names."""
    if name not in TABLES:
        raise NotFound(f"There is no table {name!r} in the lake. There are {', '.join(TABLES)}.")
    return TABLES[name]
