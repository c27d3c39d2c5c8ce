"""The command a new user runs first."""

import json
import subprocess
import sys
from pathlib import Path

TINYAGI = str(Path(sys.executable).with_name("tinyagi"))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([TINYAGI, *arguments], capture_output=True, text=True, timeout=100, check=False)


def test_the_demo_survives_its_kill_and_says_so() -> None:
    done = run("demo", "--messages", "120", "--json")

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["enqueued"] == 120
    assert report["recovered"] >= 1
    assert report["retried"] >= 1
    assert report["dead"] == 2
    assert report["completed"] == 118
    assert (report["lost"], report["doubled"], report["clean"]) == (0, 0, True)
    assert report["threads"] == report["threads_in_order"]


def test_the_demo_shows_a_table() -> None:
    done = run("demo", "--messages", "60")

    assert done.returncode == 0, done.stderr
    assert "Nothing lost, nothing doubled, every thread in order." in done.stdout


def test_a_wrong_number_is_refused_in_words() -> None:
    done = run("demo", "--messages", "3")

    assert done.returncode == 2
    assert "12" in done.stderr
    assert "Traceback" not in done.stderr


def test_version_and_help() -> None:
    assert run("version").stdout.strip() == "0.1.0"
    assert "demo" in run("--help").stdout
