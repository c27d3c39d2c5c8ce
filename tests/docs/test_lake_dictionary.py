"""The page of the lake agrees with the table declarations, and these are complete."""

import re
from pathlib import Path

import pytest

from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.pipeline.tables.dictionary import REGENERATE, page
from tinyagi.pipeline.tables.model import INSTANT, TIMESTAMP, UTC, Table

PAGE = (Path(__file__).parents[2] / "docs/reference/lake.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| `([^`]+)` \| ([^|]+) \| (yes|no) \| (yes|no) \| (.+) \|$", re.MULTILINE)


def section(table: Table) -> str:
    found = re.search(rf"^## {re.escape(table.name)}\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, table.name
    return found[1]


def test_the_page_is_up_to_date() -> None:
    assert page() + "\n" == PAGE, f"docs/reference/lake.md is out of date. Make it again: {REGENERATE}"


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_every_column_is_documented_with_type_unit_key_and_privacy(table: Table) -> None:
    documented = [row[:5] for row in ROW.findall(section(table))]

    assert documented == [
        (
            column.name,
            column.type,
            column.unit or "—",
            "yes" if column.name in table.key else "no",
            "yes" if column.personal else "no",
        )
        for column in table.all_columns
    ]


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_every_table_is_documented_with_meaning_key_retention_and_partition(table: Table) -> None:
    text = section(table)

    assert text.startswith(table.meaning)
    assert f"- key: {', '.join(f'`{name}`' for name in table.key)}\n" in text
    assert re.search(r"^- kept: \S+", text, re.MULTILINE)
    assert f"- partition: the day of {table.date}\n" in text


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_meanings_are_sentences_and_times_have_units(table: Table) -> None:
    for column in table.all_columns:
        assert column.meaning.endswith((".", "…")), column.name
        if column.name.endswith("_at") or column.name == "hour":
            is_time = table.layer in {"silver", "gold"}
            assert (column.type, column.unit) == ((TIMESTAMP, UTC) if is_time else ("long", INSTANT)), column.name
        if column.name.endswith("_ms"):
            assert column.unit == "ms", column.name


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_texts_of_people_are_marked_as_personal(table: Table) -> None:
    texts = {"sender", "sender_id", "content", "answer", "payload", "original_message", "last_error", "error"}

    for column in table.columns:
        if column.name in texts or (column.name == "message" and column.type == "string"):
            assert column.personal, column.name
