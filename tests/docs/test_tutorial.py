"""The commands of the tutorial run on a new home, without keys and without provider programs."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tinyagi.daemon.pidfile import find_daemon
from tinyagi.settings.home import Home

PAGE = Path(__file__).parents[2] / "docs/tutorial/first-steps.md"
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
PATIENCE = 120
"""Seconds for one block; only a hang takes that long."""


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A new user: an empty home folder, a free port, and a PATH with only the programs the page needs."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "cat"):
        (programs / name).symlink_to(shutil.which(name) or name)
    (programs / "tinyagi").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tinyagi "$@"\n')
    (programs / "tinyagi").chmod(0o700)
    yield {"HOME": str(tmp_path), "PATH": str(programs), "TINYAGI_API_PORT": str(free_port()), "LANG": "C.UTF-8"}
    left = find_daemon(Home(tmp_path / ".tinyagi"))
    if left.is_up:
        os.kill(left.pid, signal.SIGKILL)


def test_the_commands_of_the_tutorial_run_as_they_are_printed(environment: dict[str, str]) -> None:
    shown = [run(block, environment) for block in BLOCKS[:-1]]
    traced = json.loads(run("tinyagi trace last --json", environment))
    run(BLOCKS[-1], environment)

    assert "No model is connected yet" in shown[1]
    assert "I checked “build a paper plane”: it works." in shown[2]
    for name in ("@lead", "@maker", "@checker"):
        assert name in shown[3]
    assert "A little salt" in shown[5]
    (cook,) = traced["spans"]
    (taster,) = cook["children"]
    assert (cook["agent"], taster["agent"], taster["fromAgent"]) == ("cook", "taster", "cook")


def run(block: str, environment: dict[str, str]) -> str:
    """Run a block, stop at the first failure, and return its output."""
    done = subprocess.run(
        [environment["PATH"] + "/bash", "-euo", "pipefail", "-c", block],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}"
    assert "Traceback" not in done.stdout
    return done.stdout
