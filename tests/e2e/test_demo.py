"""The command a new user runs first."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.pipeline.support import raw_events, rows_of
from tests.support.gold import expected_gold
from tinyagi.pipeline.lake import Lake
from tinyagi.server.http import bind

TINYAGI = str(Path(sys.executable).with_name("tinyagi"))


def run(*arguments: str, patience: float = 250, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TINYAGI, *arguments],
        capture_output=True,
        text=True,
        timeout=patience,
        env={**os.environ, **environment},
        check=False,
    )


def test_the_demo_recovers_from_its_kill_and_reports_it() -> None:
    done = run("demo", "--no-lake", "--json")

    assert done.returncode == 0, done.stderr
    totals = json.loads(done.stdout)
    assert totals["recovered"] >= 1
    assert totals["retried"] >= 1
    assert totals["dead"] == 1
    assert (totals["messages"], totals["completed"]) == (16, 15)
    assert (totals["handoffs"], totals["room_lines"]) == (8, 1)
    assert (totals["lost"], totals["doubled"], totals["clean"]) == (0, 0, True)
    assert totals["threads"] == totals["threads_in_order"]


def test_the_demo_shows_each_conversation_as_a_tree() -> None:
    done = run("demo", "--no-lake")

    assert done.returncode == 0, done.stderr
    for line in (
        "Ada on telegram → @manager",
        "@manager → @coder",
        "@coder → @reviewer",
        "@reviewer → @coder",
        "chat room",
    ):
        assert line in done.stdout
    assert "the process that ran it is gone, recovered" in done.stdout
    assert "dead: out of attempts" in done.stdout
    assert "Nothing lost, nothing doubled, every thread in order." in done.stdout


def test_a_demo_with_stay_uses_the_port_of_the_environment() -> None:
    with bind("127.0.0.1", 0) as free:
        port = free.getsockname()[1]

    done = run("demo", "--stay", "--no-lake", "--json", TINYAGI_API_PORT=str(port))

    result = json.loads(done.stdout)
    stopped = run("--home", result["home"], "stop")
    shutil.rmtree(Path(result["home"]).parent)
    assert result["address"] == f"http://127.0.0.1:{port}"
    assert stopped.returncode == 0


@pytest.mark.timeout(600)
def test_the_lake_of_a_demo_agrees_with_its_event_log() -> None:
    done = run("demo", "--stay", "--json", patience=500)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    home = Path(result["home"])
    try:
        status = httpx.get(f"{result['address']}/api/status", trust_env=False, timeout=30).json()
        assert (status["ok"], status["agents"], status["pipeline"]["lake"]) == (True, 5, True)
        _assert_gold_is_right(home, result)
        kept = (folder for name in ("lake", "chats", "files", "logs", "backups") for folder in (home / name).rglob("*"))
        open_to_others = [path for path in kept if path.lstat().st_mode & 0o077]
        assert open_to_others == []
    finally:
        stopped = run("--home", result["home"], "stop")
        shutil.rmtree(home.parent)
    assert stopped.returncode == 0


def _assert_gold_is_right(home: Path, result: dict[str, Any]) -> None:
    """Compare every figure with one computed in plain Python from the lake's events."""
    lake = Lake(home / "lake")
    events = [event for event in raw_events(home / "tinyagi.db") if event.id <= result["lake"]["through_id"]]
    assert len(events) == result["lake"]["events"]
    for name, expected in expected_gold(events).items():
        found = rows_of(lake, name)
        assert len(found) == len(expected) > 0, name
        for row, should in zip(found, expected, strict=True):
            for column, value in should.items():
                assert row[column] == (pytest.approx(value) if isinstance(value, float) else value), (name, column)
    totals = result["report"]["totals"]
    assert (totals["runs"], totals["dead"], totals["handoffs"]) == (result["runs"], result["dead"], result["handoffs"])
    assert totals["tokens"] == result["tokens"]


def test_version_and_help() -> None:
    assert run("version").stdout.strip() == "0.1.0"
    assert "demo" in run("--help").stdout
