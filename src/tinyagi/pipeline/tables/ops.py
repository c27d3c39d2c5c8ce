"""What the pipeline keeps about itself."""

from typing import Final

from tinyagi.pipeline.tables.model import INSTANT, Column, Kept, Table

RUNS: Final = Table(
    name="ops.runs",
    meaning="One run of the pipeline that found something to do.",
    key=("run_id",),
    kept=Kept.APPENDED,
    date="its end",
    columns=(
        Column("run_id", "string", "Its name."),
        Column("kind", "string", "The command that made it: run, follow, backfill."),
        Column("started_at", "long", "When it began.", INSTANT),
        Column("ended_at", "long", "When it ended.", INSTANT),
        Column("from_id", "long", "The last event that was here before."),
        Column("through_id", "long", "The last event that is here now."),
        Column("events", "long", "Events that arrived."),
        Column("quarantined", "long", "Those of them that broke an expectation."),
        Column("rows", "string", "Rows written per table, a JSON object."),
        Column("seconds", "string", "Seconds per stage, a JSON object."),
    ),
)

ERASURES: Final = Table(
    name="ops.erasures",
    meaning="One erasing of a person; it names nobody.",
    key=("pseudonym", "through_id"),
    kept=Kept.APPENDED,
    date="the erasing",
    columns=(
        Column("pseudonym", "string", "What stands in place of the name and the id."),
        Column("channel", "string", "Where the person wrote."),
        Column("marks", "array<string>", "The person's names and ids, hashed with a key that only the home has."),
        Column("through_id", "long", "The last event it covers; what they wrote later is a new beginning."),
        Column("conversations", "array<string>", "Conversations that were erased."),
        Column("messages", "array<string>", "Messages that were erased, by their clients' names for them."),
        Column("agents", "array<string>", "Agents that took part."),
        Column("erased_at", "long", "When.", INSTANT),
    ),
)
