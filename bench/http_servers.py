"""Servers for the HTTP benchmark, each a separate process, and one measurement of one of them."""

import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import httpx
import psutil

from checkouts import CHECKOUT, python_of

HERE: Final = Path(__file__).parent
START_SECONDS: Final = 30
WRITER: Final = "writer"
"""The agent that every request writes to. Its lane is paused, so that only what the API does is measured."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One measurement of one server."""

    rps: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    """CPU time of the server's process per request, user and system, over the span that is measured."""
    client_cpu: float
    """Share of a core that the client used: near 1 the client is measured, not the server."""


@dataclass(frozen=True, slots=True)
class Running:
    port: int
    process: psutil.Process

    def call(self, method: str, path: str) -> Any:
        headers = {"content-type": "application/json"}
        answer = httpx.request(method, f"http://127.0.0.1:{self.port}{path}", headers=headers, trust_env=False)
        return answer.raise_for_status().json()

    def load(self, *arguments: object) -> dict[str, float]:
        command = ["--port", self.port, "--pid", self.process.pid, *arguments]
        done = subprocess.run(
            [sys.executable, str(HERE / "http_load.py"), *map(str, command)], stdout=subprocess.PIPE, check=True
        )
        figures: dict[str, float] = json.loads(done.stdout)
        return figures


def measure(server: Running, connections: int, seconds: float) -> Figures:
    return Figures(**server.load("--connections", connections, "--seconds", seconds))


def middle(rounds: Iterable[Figures]) -> Figures:
    """The median of each figure."""
    taken = list(rounds)
    return Figures(*(median(getattr(one, name) for one in taken) for name in Figures.__slots__))


@contextlib.contextmanager
def bare(parser: str) -> Iterator[Running]:
    """uvicorn with an application that reads the JSON and answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    with _process([sys.executable, str(HERE / "http_bare.py"), str(port), parser], os.environ) as process:
        _wait_for_port(port, process)
        yield Running(port, process)


@contextlib.contextmanager
def daemon(
    folder: Path, *, checkout: Path = CHECKOUT, agents: Sequence[str] = (), files: int | None = None, **queue: float
) -> Iterator[Running]:
    """The daemon of a checkout on a new home in the folder, which must be empty or hold only a workspace.

    `files` is its limit of open files.
    """
    home = folder / "home"
    home.mkdir(parents=True)
    agent = {"provider": "scripted", "heartbeat": {"enabled": False}}
    settings = {
        "workspace": {"path": str(folder / "workspace")},
        "agents": {name: {"name": name.title(), **agent} for name in (WRITER, *agents)},
        # No rate limit: the benchmark sends as one person.
        "server": {"port": 0, "messages_per_minute": 0},
        "queue": queue,
    }
    (home / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [str(python_of(checkout)), "-m", "tinyagi", "run", "--quiet", "--home", str(home)]
    with _process(command, {**os.environ, "PYTHONPATH": str(checkout / "src")}, files) as process:
        port = _port_of(home / "tinyagi.pid", process)
        _wait_for_port(port, process)
        server = Running(port, process)
        server.call("POST", f"/api/queue/agents/{WRITER}/pause")
        yield server


@contextlib.contextmanager
def _process(
    command: Sequence[str], environment: Mapping[str, str], files: int | None = None
) -> Iterator[psutil.Process]:
    limit = None if files is None else partial(resource.setrlimit, resource.RLIMIT_NOFILE, (files, files))
    process = psutil.Popen(command, stdout=subprocess.DEVNULL, env=environment, preexec_fn=limit)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(START_SECONDS)


def _port_of(pid_file: Path, process: psutil.Process) -> int:
    """The port that the daemon has found, from its pid file."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.is_running():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return int(json.loads(pid_file.read_text(encoding="utf-8"))["port"])
        time.sleep(0.05)
    raise SystemExit("the daemon did not start")


def _wait_for_port(port: int, process: psutil.Process) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.is_running():
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise SystemExit(f"nothing listens on port {port}")
