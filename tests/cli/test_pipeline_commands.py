"""`tinyagi pipeline`: output and refusals of its commands, mostly without Java, and one complete run with Spark."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CLEAN, Shell
from tests.support.histories import write_history
from tests.support.lakes import write_lake
from tinyagi.engine.pipeline_trigger import LAKE
from tinyagi.pipeline.lake import writer_lock
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.settings.environment import snapshot
from tinyagi.settings.home import Home
from tinyagi.store.store import Store

DAY = date(2026, 3, 14)
RUNS = [{"claim_id": f"c{number}", "agent": "coder", "date": DAY} for number in range(3)]
WITHOUT_EXTRA = """
import sys
sys.modules.update(dict.fromkeys(("deltalake", "pyarrow", "pyspark")))
from tinyagi.cli.main import main
sys.argv = ["tinyagi", *sys.argv[1:]]
main()
"""


async def acknowledge(home: Home, position: int | None) -> int | None:
    """Move the lake's cursor when a position is given, and return it."""
    async with await Store.open(home.database) as store:
        if position is not None:
            await store.events.acknowledge(LAKE, position)
        return await store.events.cursor(LAKE)


@pytest.fixture
def filled(shell: Shell) -> Shell:
    """A shell on a home with a database and a hand-written lake of three runs."""
    shell.home.prepare()
    asyncio.run(acknowledge(shell.home, None))
    run = {"run_id": "r1", "kind": "run", "events": 7, "started_at": 1_000, "ended_at": 3_500, "rows": "{}"}
    last = {**run, "seconds": "{}", "date": DAY}
    write_lake(shell.home.lake, {**dict.fromkeys(TABLES, ()), "silver.runs": RUNS, "ops.runs": [last]}, through_id=0)
    return shell


def test_a_home_without_a_lake_names_the_command_to_run(shell: Shell) -> None:
    result = shell("pipeline", "status")

    assert (result.exit_code, result.stdout.strip()) == (0, "There is no lake yet. Run `tinyagi pipeline run`.")
    assert shell.json("pipeline", "status") is None
    assert not shell.home.path.exists()


def test_tables_are_listed_before_there_are_any(shell: Shell) -> None:
    result = shell("pipeline", "tables")

    assert result.exit_code == 0, result.stderr
    assert [name for line in result.stdout.splitlines() for name in line.split()[:1] if name in TABLES] == list(TABLES)
    assert [table["name"] for table in shell.json("pipeline", "tables")] == list(TABLES)
    assert not shell.home.path.exists()


def test_tables_are_listed_with_their_size(filled: Shell) -> None:
    lines = [line.split() for line in filled("pipeline", "tables").stdout.splitlines()]
    assert next(line for line in lines if line[:1] == ["silver.runs"])[:3] == ["silver.runs", "3", "1"]
    assert next(line for line in lines if line[:1] == ["silver.runs"])[4:6] == ["kB", "2026-03-14"]

    (result,) = (table for table in filled.json("pipeline", "tables") if table["name"] == "silver.runs")
    assert (result["rows"], result["files"], result["newest"], result["kept"]) == (3, 1, "2026-03-14", "folded")


def test_a_table_is_shown_with_the_meaning_of_its_columns(shell: Shell) -> None:
    shown = shell("pipeline", "tables", "silver.runs").stdout

    assert shown.startswith("silver.runs: One attempt of an agent, from its claim to its outcome.")
    for column in TABLES["silver.runs"].all_columns:
        assert f"\n {column.name} " in shown, column.name
    result = shell.json("pipeline", "tables", "silver.runs")
    assert [column["name"] for column in result["columns"]] == [column.name for column in TABLES["silver.runs"].columns]


def test_an_unknown_table_is_refused_with_the_known_ones(shell: Shell) -> None:
    result = shell("pipeline", "tables", "silver.nothing")

    assert result.exit_code == 1
    assert result.stderr.startswith(
        "tinyagi: There is no table 'silver.nothing' in the lake. There are bronze.events, "
    )


def test_the_status_shows_the_lakes_position_and_the_last_run(filled: Shell) -> None:
    shown = filled("pipeline", "status").stdout

    assert str(filled.home.lake) in shown
    assert "0 of 0" in shown
    assert "run, 7 events in 2.5 s" in shown
    result = filled.json("pipeline", "status")
    assert (result["through_id"], result["last_run"]["run_id"], len(result["tables"])) == (0, "r1", len(TABLES))


@pytest.mark.parametrize(
    "arguments", [("query",), ("query", "SELECT 1", "--file", "x.sql"), ("query", "--file", "nowhere.sql")]
)
def test_a_query_needs_one_statement_or_one_file(filled: Shell, arguments: tuple[str, ...]) -> None:
    result = filled("pipeline", *arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("option", [("--limit", "0"), ("--limit", "many"), ("--format", "xml")])
def test_an_invalid_query_option_is_a_usage_error(filled: Shell, option: tuple[str, str]) -> None:
    assert filled("pipeline", "query", "SELECT 1", *option).exit_code == 2


@pytest.mark.parametrize("command", ["run", "follow", "verify", "shell", "compact"])
def test_a_home_without_a_database_has_to_be_started_once(shell: Shell, command: str) -> None:
    result = shell("pipeline", command)

    assert result.exit_code == 1
    assert "yet. Start TinyAGI there once: `tinyagi start`." in result.stderr
    assert not shell.home.path.exists()


@pytest.mark.parametrize("arguments", [("query", "SELECT 1"), ("verify",), ("shell",)])
def test_reading_without_a_lake_names_the_command_to_run(shell: Shell, arguments: tuple[str, ...]) -> None:
    shell.home.prepare()
    asyncio.run(acknowledge(shell.home, None))

    result = shell("pipeline", *arguments)

    assert result.exit_code == 1
    assert "There is no lake at" in result.stderr
    assert "Run `tinyagi pipeline run`." in result.stderr


@pytest.mark.parametrize("arguments", [("run",), ("follow",), ("backfill", "--yes"), ("compact",), ("vacuum",)])
def test_a_second_writer_is_refused_with_the_first_one(filled: Shell, arguments: tuple[str, ...]) -> None:
    with writer_lock(filled.home.lake, "follow"):
        result = filled("pipeline", *arguments)

    assert result.exit_code == 75
    assert "is being written by `pipeline follow`, process" in result.stderr


def test_vacuum_deletes_unreferenced_files(filled: Shell) -> None:
    folder = filled.home.lake / "silver" / "runs" / f"date={DAY}"
    (old,) = folder.glob("*.parquet")
    write_lake(filled.home.lake, {"silver.runs": RUNS[:1]})

    assert filled.json("pipeline", "vacuum") == {"deleted": 0}
    assert filled.json("pipeline", "vacuum", "--keep-hours", "0", "--yes") == {"deleted": 1}
    assert not old.exists()
    assert len(list(folder.glob("*.parquet"))) == 1


def test_detach_removes_the_cursor_and_switches_the_pipeline_off(filled: Shell) -> None:
    assert asyncio.run(acknowledge(filled.home, 0)) == 0

    result = filled("pipeline", "detach", "--yes")

    assert result.exit_code == 0, result.stderr
    assert "The lake is kept" in result.stdout
    assert filled.settings["pipeline"]["enabled"] is False
    assert asyncio.run(acknowledge(filled.home, None)) is None
    assert filled.home.lake.is_dir()


@pytest.mark.parametrize("arguments", [("status",), ("run",), ("query", "SELECT 1"), ("report",)])
def test_a_missing_extra_is_named_in_one_sentence(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    result = without_extra(tmp_path, *arguments)

    assert (result.returncode, result.stdout) == (2, "")
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stderr.startswith("tinyagi: The extra `pipeline` is missing (")
    assert "pip install 'tinyagi[pipeline]'" in result.stderr


def test_columns_are_shown_without_the_extra(tmp_path: Path) -> None:
    assert "claim_id" in without_extra(tmp_path, "tables", "silver.runs").stdout


def without_extra(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", WITHOUT_EXTRA, "--home", str(home), "pipeline", *arguments]
    return subprocess.run(program, capture_output=True, text=True, check=False, env=environment())


def environment() -> dict[str, str]:
    return {name: value for name, value in snapshot().items() if name not in CLEAN}


def typed(home: Home, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in a separate process with a separate Spark."""
    program = [sys.executable, "-m", "tinyagi", "--home", str(home.path), "pipeline", *arguments]
    return subprocess.run(program, input=stdin, capture_output=True, text=True, check=False, env=environment())


@pytest.mark.timeout(900)
def test_a_lake_is_created_inspected_queried_and_verified(shell: Shell) -> None:
    home = shell.home
    home.prepare()
    # Otherwise a process in the background makes an archive of Java classes after the run.
    home.settings_file.write_text(json.dumps({"pipeline": {"class_archive": False}}), encoding="utf-8")
    write_history(home.database, events=150, days=1)
    connection = sqlite3.connect(home.database)
    ((events, newest),) = connection.execute("SELECT count(*), max(id) FROM events").fetchall()
    runs = dict(connection.execute("SELECT agent, count(*) FROM events WHERE type = 'chain_step_start' GROUP BY agent"))
    connection.close()

    made = typed(home, "run", "--json")
    assert made.returncode == 0, made.stderr
    summary: dict[str, Any] = json.loads(made.stdout)
    assert (summary["events"], summary["through_id"], made.stderr) == (events, newest, "")

    # An hour that looks unusual makes an alert, which is an event after the run.
    connection = sqlite3.connect(home.database)
    ((head,),) = connection.execute("SELECT max(id) FROM events").fetchall()
    connection.close()
    result = json.loads(typed(home, "status", "--json").stdout)
    assert (result["through_id"], result["head_id"], result["last_run"]["events"]) == (newest, head, events)
    assert asyncio.run(acknowledge(home, None)) == newest

    # The second statement fails while it runs, after the answer of the first one.
    questions = "SELECT agent, count(*) AS runs FROM silver.runs GROUP BY agent;\nSELECT agent::INT FROM silver.runs;\n"
    asked = typed(home, "query", "--json", "--file", "-", stdin=questions)
    assert {row["agent"]: row["runs"] for row in json.loads(asked.stdout)} == runs
    assert (asked.returncode, len(asked.stderr.splitlines())) == (1, 1), asked.stderr
    assert asked.stderr.startswith("tinyagi: The query failed: Could not convert string ")

    verified = typed(home, "verify", "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert {verdict["table"] for verdict in json.loads(verified.stdout) if verdict["agrees"]} >= {
        "bronze.events",
        "silver.messages",
        "gold.agent_hourly",
    }
