"""The data dictionary: every table and column of the lake as a page, from their declarations and from nothing else.

python -m tinyagi.pipeline.dictionary > docs/reference/lake.md
"""

import sys
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.pipeline.tables.model import Column, Kept, Table

REGENERATE: Final = "python -m tinyagi.pipeline.dictionary > docs/reference/lake.md"

_KEPT: Final = {
    Kept.APPENDED: "appended: no later event changes a row",
    Kept.FOLDED: "folded: later events change a row, in place",
    Kept.REPLACED: "made afresh for every day that something changed on",
}
_LAYERS: Final = {
    "bronze": "Bronze: events as they were recorded",
    "silver": "Silver: one row per thing",
    "quarantine": "Quarantine: events that are not believed",
    "gold": "Gold: answers",
    "ops": "Ops: the pipeline about itself",
}
_OPENING: Final = f"""\
# Lake

Every table of the lake, from `src/tinyagi/pipeline/tables/`. This page is generated; a test holds it to the code:

```bash
{REGENERATE}
```

`tinyagi pipeline tables` shows the same with rows, files and freshness, `tinyagi pipeline tables silver.runs` the
columns of one table. How to ask is in [Use the lake](../howto/use-the-lake.md), why it is so in
[The pipeline](../explanation/pipeline.md).

Instants are milliseconds since 1970 in UTC, in columns of the type `long`: `timestamp_millis(started_at)` makes a
timestamp of one. Days and hours are those of UTC. Columns that are personal may hold what people wrote or who they are.
A column that is null was never said, or belongs to something that has not happened yet.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_OPENING, *_lines()])


def _lines() -> Iterator[str]:
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
    """As Markdown's readers make it of the heading."""
    return table.name.replace(".", "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page() + "\n")
