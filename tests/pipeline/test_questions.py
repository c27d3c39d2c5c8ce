"""The examples work: each question has an answer on a lake made by a real run."""

import asyncio
import json
import re
import runpy
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.histories import CLERK, add_troubles, write_history
from tinyagi.cli.pipeline_query import statements_in
from tinyagi.lake_service import LakeService
from tinyagi.pipeline.ingest.log_source import LogSource
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.manage.query import LakeQuery, QueryResult
from tinyagi.pipeline.progress import Progress
from tinyagi.pipeline.run import Pipeline
from tinyagi.pipeline.spark.lake_session import LakeSession
from tinyagi.settings.home import Home

pytestmark = pytest.mark.timeout(600)

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXT = (EXAMPLES / "questions.sql").read_text()
QUESTIONS = dict(re.findall(r"^-- (\d+)\. .+\?\n((?:(?!--).*\n)+)", TEXT, re.MULTILINE))
ENDS = {"chain_step_done", "message_failed", "message_dead", "message_released"}


@dataclass(frozen=True)
class Office:
    home: Home
    session: LakeSession
    lake: LakeQuery

    def answer(self, number: int) -> QueryResult:
        return self.lake.run(QUESTIONS[str(number)], limit=1000)

    def rows(self, number: int) -> list[dict[str, Any]]:
        found = self.answer(number)
        return [dict(zip(found.columns, row, strict=True)) for row in found.rows]

    def events(self) -> list[tuple[str, str, int, Mapping[str, Any]]]:
        """Type, agent, time and payload of all recorded events."""
        connection = sqlite3.connect(self.home.database)
        try:
            rows = connection.execute("SELECT type, agent, created_at, payload FROM events ORDER BY id").fetchall()
        finally:
            connection.close()
        return [(kind, agent, at, json.loads(payload)) for kind, agent, at, payload in rows]


@pytest.fixture(scope="module")
def office(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    home = Home(tmp_path_factory.mktemp("office"))
    write_history(home.database, events=700, days=2)
    asyncio.run(add_troubles(home.database))
    lake = Lake(home.lake)
    Pipeline(LakeSession(spark, lake, Progress()), LogSource({"db": str(home.database)})).run()
    session = LakeSession(spark, lake, Progress(), is_pinned=True)
    with LakeQuery(lake) as queries:
        yield Office(home, session, queries)


def test_every_statement_of_the_file_is_a_numbered_question() -> None:
    assert list(QUESTIONS) == [str(number) for number in range(1, len(QUESTIONS) + 1)]
    assert len(QUESTIONS) >= 10
    found = statements_in(EXAMPLES / "questions.sql")
    assert [one.strip().rstrip(";") for one in QUESTIONS.values()] == [one.sql for one in found]
    assert [one.question.split(". ")[0] for one in found] == list(QUESTIONS)


@pytest.mark.parametrize("number", [int(number) for number in QUESTIONS])
def test_every_question_has_an_answer(office: Office, number: int) -> None:
    found = office.answer(number)

    assert found.rows
    assert len(set(found.columns)) == len(found.columns)


def test_costs_of_agents_match_the_events(office: Office) -> None:
    runs: dict[str, tuple[str, int, float]] = {}
    for kind, agent, at, payload in office.events():
        if kind in ENDS and payload.get("claim_id"):
            _, ended, cost = runs.get(payload["claim_id"], (agent, at, 0.0))
            runs[payload["claim_id"]] = (agent, ended, (payload.get("usage") or {}).get("cost") or cost)
    since = datetime.now(UTC).date() - timedelta(days=7)
    lately = [
        (agent, cost) for agent, at, cost in runs.values() if datetime.fromtimestamp(at / 1000, UTC).date() > since
    ]
    counted, spent = Counter(agent for agent, _ in lately), Counter[str]()
    for agent, cost in lately:
        spent[agent] += cost  # type: ignore[assignment]

    rows = office.rows(1)

    assert {row["agent"]: row["runs"] for row in rows} == counted
    assert {row["agent"]: row["usd"] for row in rows} == pytest.approx(spent, abs=0.005)
    assert [row["usd"] for row in rows] == sorted((row["usd"] for row in rows), reverse=True)


def test_hand_offs_match_the_events(office: Office) -> None:
    recorded = Counter(
        (payload["from_agent"], payload["to_agent"])
        for kind, _, _, payload in office.events()
        if kind == "chain_handoff"
    )

    assert {(row["from_agent"], row["to_agent"]): row["handoffs"] for row in office.rows(6)} == recorded


def test_failures_are_listed_by_the_questions_about_them(office: Office) -> None:
    (died,) = [row for row in office.rows(3) if row["agent"] == CLERK]
    assert (died["error"], died["messages"], died["still_dead"]) == ("report-7.pdf is damaged", 1, 1)
    assert [(row["retries"], row["helped"]) for row in office.rows(8) if row["agent"] == CLERK] == [(2, 1)]
    assert [(row["outcome"], row["runs"]) for row in office.rows(11) if row["agent"] == CLERK] == [
        ("failed", 2),
        ("dead", 1),
    ]
    assert [(row["reason"], row["type"], row["events"]) for row in office.rows(12)] == [
        ("unknown type", "martian_landed", 1)
    ]


def test_the_notebook_runs_from_its_first_cell_to_its_last(
    office: Office, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The notebook uses the session of the tests instead of a new one.
    monkeypatch.setattr(LakeService, "reading", lambda keeper: nullcontext(office.session))
    monkeypatch.setenv("TINYAGI_HOME", str(office.home.path))

    found = runpy.run_path(str(EXAMPLES / "ask_the_lake.py"))

    shown = capsys.readouterr().out
    completed = sum(kind == "chain_step_done" for kind, *_ in office.events())
    assert f"{completed} runs gave an answer" in shown
    assert found["busiest"].height == 5
    assert found["waits"].count() > 0
    for title in ("USD per day and agent", "The busiest agents", "Who hands work to whom", "waiting for a teammate"):
        assert title in shown


def test_the_notebook_names_the_remedy_without_a_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINYAGI_HOME", str(tmp_path))

    with pytest.raises(SystemExit, match="Run `tinyagi pipeline run`"):
        runpy.run_path(str(EXAMPLES / "ask_the_lake.py"))
