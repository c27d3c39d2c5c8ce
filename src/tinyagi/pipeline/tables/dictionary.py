"""Generates docs/reference/lake.md, the data dictionary, from the declarations of the tables.

python -m tinyagi.pipeline.tables.dictionary > docs/reference/lake.md
"""

import sys
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.pipeline.tables.gold import DEFINITIONS
from tinyagi.pipeline.tables.model import Column, Kept, Table

REGENERATE: Final = "python -m tinyagi.pipeline.tables.dictionary > docs/reference/lake.md"

_KEPT: Final = {
    Kept.APPENDED: "appended: no later event changes a row",
    Kept.FOLDED: "folded: later events change a row in place",
    Kept.REPLACED: "rebuilt for each day with changes",
}
_LAYERS: Final = {
    "bronze": "Bronze: events as they were recorded",
    "silver": "Silver: one row per message, run, response, hand-off and line",
    "quarantine": "Quarantine: invalid events",
    "gold": "Gold: figures ready to read",
    "ops": "Ops: runs of the pipeline and erasures",
}
_OPENING: Final = f"""\
# Lake

Every table of the lake, from `src/tinyagi/pipeline/tables/`. This page is generated, and a test compares it with the
code:

```bash
{REGENERATE}
```

`tinyagi pipeline tables` lists the tables with their rows, files and freshness; `tinyagi pipeline tables silver.runs`
lists the columns of one. [Use the lake](../howto/use-the-lake.md) shows how to query them,
[The pipeline](../explanation/pipeline.md) explains the design.

Instants in silver and gold are timestamps in UTC, between the years 1 and 9999. Bronze, quarantine and ops have
milliseconds since 1970 in columns of type `long`, as recorded: `timestamp_millis(created_at)` converts one to a
timestamp. Days and hours are in UTC. Personal columns may hold texts or names of people. A null value is unknown or has
not happened yet.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_OPENING, *_lines()])


def _lines() -> Iterator[str]:
    yield "# Definitions"
    yield "They hold for the tables, `tinyagi pipeline report`, its HTML page and the API's analytics.\n"
    yield "| term | meaning |"
    yield "| --- | --- |"
    yield from (f"| {term} | {_cell(meaning)} |" for term, meaning in DEFINITIONS.items())
    yield "\n# Tables"
    yield "| table | one row is |"
    yield "| --- | --- |"
    for table in TABLES.values():
        yield f"| [{table.name}](#{_anchor(table)}) | {_cell(table.meaning)} |"
    for layer, tables in groupby(TABLES.values(), key=lambda table: table.layer):
        yield f"\n# {_LAYERS[layer]}"
        for table in tables:
            yield from _section(table)


def _section(table: Table) -> Iterator[str]:
    yield f"\n## {table.name}"
    yield f"{table.meaning}\n"
    yield f"- key: {', '.join(f'`{name}`' for name in table.key)}"
    yield f"- kept: {_KEPT[table.kept]}"
    yield f"- partition: the day of {table.date}\n"
    yield "| column | type | unit | key | personal | meaning |"
    yield "| --- | --- | --- | --- | --- | --- |"
    yield from (_row(column, table) for column in table.all_columns)


def _row(column: Column, table: Table) -> str:
    key, personal = ("yes" if mark else "no" for mark in (column.name in table.key, column.personal))
    cells = (f"`{column.name}`", f"`{column.type}`", column.unit or "—", key, personal, _cell(column.meaning))
    return "| " + " | ".join(cells) + " |"


def _anchor(table: Table) -> str:
    """The anchor that Markdown renderers derive from the heading."""
    return table.name.replace(".", "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page() + "\n")
