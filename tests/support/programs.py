"""Small programs for tests of child processes: written into a folder and run for real."""

import json
import os
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil

from tests.support.runs import a_request
from tinyagi.domain.runs import RunLimits
from tinyagi.providers.base import RunRequest
from tinyagi.providers.process import Program

QUICK = RunLimits(run=timedelta(seconds=30), grace=timedelta(seconds=5))
SLEEP = "import time; time.sleep(300)"


def executable(folder: Path, source: str, name: str = "program") -> str:
    """A Python program; `-IS` makes it start quickly and independent of this machine."""
    path = folder / name
    path.write_text(f"#!{sys.executable} -IS\n{source}")
    path.chmod(0o755)
    return str(path)


def a_program(path: str) -> Program:
    return Program(Path(path).name, path, install="npm install program", log_in="run `program login`")


def a_run(workspace: Path, **fields: Any) -> RunRequest:
    """A request with a real workspace, and an environment in which programs are found."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(workspace), **fields.pop("environment", {})}
    return replace(a_request(workspace=workspace, limits=QUICK), environment=environment, **fields)


def is_alive(pid: int) -> bool:
    """False for a zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def recorder(folder: Path, *lines: object, code: int = 0, stderr: str = "") -> str:
    """A program that prints these JSON lines and records its call: see `call_of`."""
    source = f"""
import json, os, pathlib, sys
call = dict(arguments=sys.argv[1:], environment=dict(os.environ), cwd=os.getcwd())
call["stdin"] = sys.stdin.buffer.read().decode()
for name in ("--system-prompt-file", "-c"):
    for place, argument in enumerate(sys.argv[1:-1], 1):
        path = pathlib.Path(sys.argv[place + 1].partition("=")[2].strip('"') or sys.argv[place + 1])
        if argument == name and path.is_file():
            call["file"] = path.read_text()
if "OPENCODE_CONFIG" in os.environ:
    call["file"] = pathlib.Path(os.environ["OPENCODE_CONFIG"]).read_text()
pathlib.Path({str(folder / "call.json")!r}).write_text(json.dumps(call))
for line in {list(lines)!r}:
    print(line if isinstance(line, str) else json.dumps(line))
sys.stderr.write({stderr!r})
sys.exit({code})
"""
    return executable(folder, source, "recorder")


def call_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "call.json").read_text()))
