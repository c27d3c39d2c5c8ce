"""Every place in a report shows the same value for a figure, and it matches the log."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from html.parser import HTMLParser

import pytest
from pyspark.sql import SparkSession
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tests.pipeline.support import DAY_MS, MONDAY
from tests.pipeline.worlds import Whole, whole
from tests.support.expected_silver import ExpectedSilver, Row, expected_silver
from tinyagi.pipeline.report.model import Report
from tinyagi.pipeline.report.page import render_page
from tinyagi.pipeline.report.read_report import read_report
from tinyagi.pipeline.report.terminal import drawn

# The first test that needs the lake also makes it.
pytestmark = pytest.mark.timeout(900)

DAYS = 3_660
NOW = MONDAY + 5 * DAY_MS
PROGRAM = {"heartbeat", "schedule", "board", "chatroom", "internal"}


@dataclass
class Shown:
    """A rendered report: its totals by name, and its tables by title."""

    totals: dict[str, str] = field(default_factory=dict)
    tables: dict[str, list[dict[str, str]]] = field(default_factory=dict)

    def total(self, name: str) -> int:
        """The number that a total begins with."""
        return number(self.totals[name])

    def sum(self, table: str, column: str, *rows: str) -> int:
        """The sum of a column over all rows, or over those with one of these first cells."""
        found = [row for row in self.tables[table] if not rows or next(iter(row.values())) in rows]
        return sum(number(row[column]) for row in found)


def number(text: str) -> int:
    found = re.match(r"[\d,]+", text)
    assert found is not None, text
    return int(found[0].replace(",", ""))


class Page(HTMLParser):
    """The cards of a page: a headline's value is a total, a table belongs to the card it is in."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.shown = Shown()
        self._title = self._tag = ""
        self._names: list[str] = []
        self._cells: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tag = tag
        if tag == "section":
            self._title = ""
        elif tag == "table":
            self._names = []
        elif tag == "tr":
            self._cells = []
        elif tag == "td":
            self._cells.append("")

    def handle_data(self, data: str) -> None:
        if self._tag == "h2" and not self._title:
            self._title = data.strip()
        elif self._tag == "strong":
            self.shown.totals[self._title.lower()] = data
        elif self._tag == "th":
            self._names.append(data)
        elif self._tag == "td":
            self._cells[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._tag = ""
        if tag == "tr" and self._cells:
            self.shown.tables.setdefault(self._title, []).append(dict(zip(self._names, self._cells, strict=True)))


def on_terminal(report: Report) -> Shown:
    """A table belongs to the title above it; the totals are a grid of names and values."""
    shown, title = Shown(), ""
    for part in drawn(report):
        if isinstance(part, Text):
            title = re.split(r"\s{2,}", part.plain.strip())[0]
        elif isinstance(part, Padding):
            assert isinstance(part.renderable, Table)
            names, values, more_names, more_values = _columns(part.renderable)
            shown.totals = dict(zip([*names, *more_names], [*values, *more_values], strict=True))
        elif isinstance(part, Table):
            heads = [str(column.header) for column in part.columns]
            shown.tables[title] = [dict(zip(heads, row, strict=True)) for row in zip(*_columns(part), strict=True)]
    return shown


def _columns(table: Table) -> list[list[str]]:
    return [[str(cell) for cell in column.cells] for column in table.columns]


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return whole(spark, tmp_path_factory)


@pytest.fixture(scope="module")
def expected(home: Whole) -> ExpectedSilver:
    """Without messages from the future: their date is after the last one of the report."""
    found = expected_silver(home.valid_events())
    found.messages = {number: row for number, row in found.messages.items() if row["created_at"] <= NOW}
    return found


@pytest.fixture(scope="module")
def report(home: Whole) -> Report:
    return read_report(home.lake, days=DAYS, now=NOW)


@pytest.fixture(scope="module", params=["terminal", "page"])
def shown(request: pytest.FixtureRequest, report: Report) -> Shown:
    return on_terminal(report) if request.param == "terminal" else Page(render_page(report)).shown


def from_people(expected: ExpectedSilver) -> list[Row]:
    return [row for row in expected.messages.values() if row["from_agent"] is None and row["channel"] not in PROGRAM]


def dead(rows: Sequence[Row]) -> int:
    return sum(row["status"] == "dead" for row in rows)


def test_dead_counts_messages_that_are_dead_now_in_every_table(shown: Shown, expected: ExpectedSilver) -> None:
    everything = list(expected.messages.values())
    handed = [row for row in everything if row["from_agent"] and row["channel"] != "chatroom"]
    people = {row["channel"] for row in from_people(expected)}

    assert dead(everything) > dead(from_people(expected)) > 0
    assert shown.total("dead") == dead(everything)
    assert shown.sum("Agents", "dead") == dead(everything)
    assert shown.sum("Dead letters", "still dead") == dead(everything)
    assert shown.sum("Channels", "dead", *people) == dead(from_people(expected))
    assert shown.sum("Channels", "dead", "heartbeat") == 1
    title = "Hand-offs in figures" if "Hand-offs in figures" in shown.tables else "Hand-offs"
    assert shown.sum(title, "dead") == dead(handed)


def test_causes_add_up_to_the_dead_messages(report: Report, expected: ExpectedSilver) -> None:
    died = [row for row in expected.messages.values() if row["deaths"]]

    assert sum(cause.still_dead for cause in report.causes) == report.totals.dead
    assert sum(cause.messages for cause in report.causes) == len(died) > report.totals.dead
    assert report.totals.dead_from_people == dead(from_people(expected))


def test_completed_failed_and_interrupted_runs_add_up(shown: Shown, expected: ExpectedSilver) -> None:
    ended = [run for run in expected.runs.values() if run["ended_at"] is not None]
    completed = sum(run["outcome"] == "completed" for run in ended)
    failed = sum(run["outcome"] in {"failed", "dead"} for run in ended)

    assert len(ended) > completed + failed
    assert shown.total("runs") == shown.sum("Agents", "runs") == len(ended)
    assert shown.sum("Agents", "completed") == completed
    assert shown.sum("Agents", "failures") == failed
    assert shown.sum("Agents", "interrupted") == len(ended) - completed - failed
    assert f"{100 * completed / len(ended):.0f} %" in shown.totals["completed"]


def test_days_and_agents_add_up_to_the_totals(report: Report) -> None:
    totals = asdict(report.totals)

    for name in ("runs", "completed", "failures", "interrupted"):
        assert sum(getattr(slot, name) for slot in report.daily) == totals[name], name
        assert sum(getattr(agent, name) for agent in report.agents) == totals[name], name


def test_agents_and_program_senders_do_not_count_as_people(shown: Shown, expected: ExpectedSilver) -> None:
    messages = from_people(expected)
    people = {
        (row["channel"], row["sender_id"] or row["sender"])
        for row in messages
        if not row["message_id"].startswith("schedule_")
    }
    channels = {row["channel"] for row in messages}

    assert shown.total("messages from people") == shown.sum("Channels", "messages", *channels) == len(messages)
    assert shown.sum("Channels", "people") == len(people)
    assert shown.sum("Channels", "people", *(PROGRAM & {row["channel"] for row in shown.tables["Channels"]})) == 0


def test_people_of_the_channels_add_up_to_the_total(report: Report) -> None:
    assert report.totals.people == sum(channel.people for channel in report.channels)


def test_only_finished_conversations_have_a_duration(report: Report, shown: Shown, expected: ExpectedSilver) -> None:
    waiting = {
        row["conversation_id"] for row in expected.messages.values() if row["status"] in {"pending", "processing"}
    } - {row["message_id"] for row in expected.messages.values() if row["channel"] == "chatroom"}

    assert report.totals.open_conversations == len(waiting) > 0
    assert {row["conversation"] for row in shown.tables["Open conversations"]} == waiting
    assert waiting.isdisjoint(row["conversation"] for row in shown.tables["Slowest conversations"])
    assert min(one.critical_path_ms for one in report.slowest) > 0
