"""Silver after a run: every row equals the result of plain Python on the same log."""

from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from typing import Any, Final

import apsw
import polars as pl
import pytest
from pyspark.sql import SparkSession

from tests.pipeline.scenario import HOSTILE, MARK
from tests.pipeline.support import disagreeing, rows_of, walk
from tests.pipeline.worlds import Whole, whole
from tests.support.expected_silver import ExpectedSilver, expected_silver
from tinyagi.pipeline.tables.catalog import TABLES

# The first test that needs the lake also makes it.
pytestmark = pytest.mark.timeout(900)

Row = dict[str, Any]

_OLD_TABLES: Final = {
    "messages": ("id", "message_id", "channel", "sender", "sender_id", "message", "from_agent", "created_at"),
    "responses": ("id", "message_id", "channel", "sender", "message", "original_message", "created_at", "acked_at"),
    "chat_messages": ("id", "team_id", "from_agent", "message", "created_at"),
    "agent_messages": ("id", "agent_id", "role", "channel", "sender", "message_id", "content", "created_at"),
}


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return whole(spark, tmp_path_factory)


@pytest.fixture(scope="module")
def expected(home: Whole) -> ExpectedSilver:
    return expected_silver(home.valid_events())


def test_every_message_matches_its_events(home: Whole, expected: ExpectedSilver) -> None:
    found = rows_of(home.lake, "silver.messages")

    assert _differing(found, expected.messages) == []
    assert {row["status"] for row in found} == {"pending", "processing", "completed", "dead", "deleted"}
    assert max(row["deaths"] or 0 for row in found) == 1
    assert any(row["runs"] == 3 and row["status"] == "completed" for row in found), "died, was retried, succeeded"
    assert sum(row["answered_by"] not in {None, row["message_id"]} for row in found) >= 2, "some shared a run"


def test_every_run_matches_its_events(home: Whole, expected: ExpectedSilver) -> None:
    found = rows_of(home.lake, "silver.runs")

    for row in found:
        row["results"] = row["results"] or []
    assert _differing(found, expected.runs, key="claim_id") == []
    assert {row["outcome"] for row in found} == {
        "running", "completed", "failed", "dead", "stopped", "released", "recovered",
    }  # fmt: skip


def test_every_response_and_line_matches_its_events(home: Whole, expected: ExpectedSilver) -> None:
    responses = rows_of(home.lake, "silver.responses")

    assert _differing(responses, expected.responses) == []
    assert Counter(row["status"] for row in responses).keys() == {"pending", "acked", "failed"}
    for name in ("agent_messages", "chat_messages"):
        found = rows_of(home.lake, f"silver.{name}")
        assert _differing(found, getattr(expected.tables, name)) == [], name


def test_hand_offs_are_the_messages_from_teammates(home: Whole, expected: ExpectedSilver) -> None:
    found = {row["id"]: row for row in rows_of(home.lake, "silver.handoffs")}

    given = {
        number: row for number, row in expected.messages.items() if row["from_agent"] and row["channel"] != "chatroom"
    }
    assert found.keys() == given.keys()
    assert len(found) >= 4
    for number, row in given.items():
        names = {"from_agent": "from_agent", "agent": "to_agent", "created_at": "handed_at", "hop": "hop"}
        names |= {"first_started_at": "started_at", "completed_at": "completed_at", "status": "status"}
        names |= {"wait_ms": "wait_ms", "latency_ms": "latency_ms", "parent_message_id": "parent_message_id"}
        assert {ours: found[number][ours] for ours in names.values()} == {names[his]: row[his] for his in names}


def test_a_database_of_the_original_is_archived_completely(home: Whole) -> None:
    for name, columns in _OLD_TABLES.items():
        with closing(apsw.Connection(str(home.original))) as connection:
            old = connection.execute(f"SELECT {', '.join(columns)} FROM {name} ORDER BY id").fetchall()  # noqa: S608
        found = {row["id"]: row for row in rows_of(home.lake, f"silver.{name}")}
        assert old, name
        assert [tuple(found[row[0]][column] for column in columns) for row in old] == old, name
    statuses = {row["message_id"]: row["status"] for row in rows_of(home.lake, "silver.messages")}
    assert statuses["m1"] == statuses["m2"] == "completed"
    assert statuses["m3"] == "dead"
    assert "m6" not in statuses, "it was deleted before the import"


def test_hostile_texts_are_archived_unchanged(home: Whole) -> None:
    asked = {row["message"]: row["answer"] for row in rows_of(home.lake, "silver.messages")}
    lines = Counter(row["content"] for row in rows_of(home.lake, "silver.agent_messages"))
    answers = {row["message"]: row["original_message"] for row in rows_of(home.lake, "silver.responses")}

    for text in HOSTILE:
        assert asked[text] == text
        assert lines[text] == 2
        assert answers[text] == text
    assert max(map(len, HOSTILE)) > 1_000_000


def test_polars_reads_every_table(home: Whole) -> None:
    manifest = home.lake.manifest()

    assert manifest is not None
    assert manifest.tables.keys() == TABLES.keys()
    for name, pin in manifest.tables.items():
        frame = pl.read_delta(str(home.lake.path(name)), version=pin.version)
        assert frame.columns == [column.name for column in TABLES[name].all_columns], name
        assert frame.height == home.lake.delta(name).to_pyarrow_table().num_rows == home.lake.rows(name).num_rows, name
    text = pl.scan_delta(str(home.lake.path("silver.messages"))).filter(pl.col("message") == HOSTILE[0]).collect()
    assert text["answer"].to_list() == [HOSTILE[0]]


def test_a_delta_log_contains_no_text_of_a_person(home: Whole) -> None:
    """Forgetting a person does not rewrite a log."""
    for name in TABLES:
        for commit in (home.lake.path(name) / "_delta_log").glob("*.json"):
            assert MARK not in commit.read_text(), f"{name} {commit.name}"
    assert any(MARK in text for text in walk(rows_of(home.lake, "silver.messages")))


def test_every_table_agrees_with_the_log(spark: SparkSession, home: Whole) -> None:
    assert disagreeing(spark, home.lake, home.database) == []


def _differing(found: Iterable[Row], expected: dict[Any, Row], key: str = "id") -> list[Any]:
    """The differing values of common columns, with long texts cut."""
    rows = {row[key]: row for row in found}
    assert rows.keys() == expected.keys()
    return [
        (number, column, str(rows[number][column])[:80], str(value)[:80])
        for number, row in expected.items()
        for column, value in row.items()
        if column in rows[number] and rows[number][column] != value
    ]
