"""From an empty home to an answer, with real processes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import CLEAN


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "home"
    yield home
    tinyagi(home, "stop")


def tinyagi(home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if name not in CLEAN}
    return subprocess.run(
        [sys.executable, "-m", "tinyagi", "--home", str(home), *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_agent_is_added_started_asked_and_stopped(home: Path) -> None:
    assert tinyagi(home, "agent", "add", "coder", "--provider", "scripted").returncode == 0
    settings = json.loads((home / "settings.json").read_text())
    # Any free port, and no files outside the test's folder.
    settings |= {"server": {"port": 0}, "workspace": {"path": str(home.parent / "workspace")}}
    (home / "settings.json").write_text(json.dumps(settings))

    begun = tinyagi(home)
    assert begun.returncode == 0, begun.stderr
    assert "http://127.0.0.1:" in begun.stdout
    assert "TinyAGI is already running" in tinyagi(home).stdout

    answered = tinyagi(home, "send", "@coder hello", "--wait")
    assert answered.returncode == 0, answered.stderr
    assert "You wrote: “hello”" in answered.stdout
    assert "Connect a model: tinyagi setup" in answered.stdout

    assert json.loads(tinyagi(home, "status", "--json").stdout)["running"]
    assert tinyagi(home, "stop").returncode == 0
    assert tinyagi(home, "queue", "status").returncode == 3
