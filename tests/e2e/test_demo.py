"""The command a new user runs first."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import httpx

TINYAGI = str(Path(sys.executable).with_name("tinyagi"))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([TINYAGI, *arguments], capture_output=True, text=True, timeout=100, check=False)


def test_the_demo_survives_its_kill_and_says_so() -> None:
    done = run("demo", "--json")

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
    done = run("demo")

    assert done.returncode == 0, done.stderr
    for line in (
        "Ada on telegram → @manager",
        "@manager → @coder",
        "@coder → @reviewer",
        "@reviewer → @coder",
        "chat room",
    ):
        assert line in done.stdout
    assert "the process that ran it is gone, taken back" in done.stdout
    assert "dead: out of attempts" in done.stdout
    assert "Nothing lost, nothing doubled, every thread in order." in done.stdout


def test_a_demo_that_stays_ends_with_the_address_of_its_api() -> None:
    done = run("demo", "--stay", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    try:
        status = httpx.get(f"{told['address']}/api/status", trust_env=False, timeout=30).json()
        assert (status["ok"], status["agents"]) == (True, 5)
    finally:
        stopped = run("--home", told["home"], "stop")
        shutil.rmtree(Path(told["home"]).parent)
    assert stopped.returncode == 0


def test_version_and_help() -> None:
    assert run("version").stdout.strip() == "0.1.0"
    assert "demo" in run("--help").stdout
