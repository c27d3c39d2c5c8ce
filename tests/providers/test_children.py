"""Processes are found by the variable of their run, and ended only when their claim is gone."""

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta

import psutil
import pytest

from tests.support.programs import SLEEP
from tinyagi.providers.process import (
    RUN_VARIABLE,
    end_orphans,
    end_processes,
    find_home_processes,
    find_run_processes,
)

READY = f"print('ready', flush=True); {SLEEP}"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {READY}"

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def home_id() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a process with the variable of a run and waits until it is ready; all are killed at the end."""
    started: list[subprocess.Popen[bytes]] = []

    def start(run_id: str, source: str = READY) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-IS", "-c", source]
        process = subprocess.Popen(command, env={RUN_VARIABLE: run_id}, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    yield start
    for process in started:
        with process:
            process.kill()


def test_processes_are_found_by_home_and_by_run(home_id: str, start: Start) -> None:
    one, two = start(f"{home_id}:one"), start(f"{home_id}:two:with:colons")
    start(f"{home_id}0:three")
    start(f"0{home_id}:four")
    assert {(process.pid, claim) for process, claim in find_home_processes(home_id)} == {
        (one.pid, "one"),
        (two.pid, "two:with:colons"),
    }
    assert [process.pid for process in find_run_processes(f"{home_id}:one")] == [one.pid]


def test_a_process_never_finds_itself(home_id: str) -> None:
    source = f"from tinyagi.providers.process import find_home_processes; print(find_home_processes({home_id!r}))"
    environment = {**os.environ, RUN_VARIABLE: f"{home_id}:claim"}
    found = subprocess.run([sys.executable, "-c", source], env=environment, capture_output=True, check=True, text=True)
    assert found.stdout == "[]\n"


def test_a_process_that_ignores_term_is_killed(home_id: str, start: Start) -> None:
    start(f"{home_id}:one", STUBBORN)
    start(f"{home_id}:one")
    end_processes(find_run_processes(f"{home_id}:one"), timedelta(seconds=0.2))
    assert find_run_processes(f"{home_id}:one") == []


def test_ending_a_finished_process_raises_no_error(home_id: str, start: Start) -> None:
    process = start(f"{home_id}:one")
    found = find_run_processes(f"{home_id}:one")
    process.kill()
    process.wait()
    end_processes(found, timedelta(seconds=5))


def test_a_reused_pid_is_never_signalled(home_id: str, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    process = start(f"{home_id}:one")
    [found] = find_run_processes(f"{home_id}:one")
    # As if another process had the pid: it started at another time.
    monkeypatch.setattr(found, "_create_time", found.create_time() - 1000)
    monkeypatch.setattr(found, "_ident", (found.pid, found.create_time()))
    end_processes([found], timedelta())
    assert process.poll() is None


async def test_only_processes_without_a_live_claim_are_orphans(home_id: str, start: Start) -> None:
    live, orphan, foreign = start(f"{home_id}:live"), start(f"{home_id}:gone"), start("another-home:gone")

    async def live_claims() -> set[str]:
        return {"live"}

    assert await end_orphans(home_id, live_claims) == 1
    assert orphan.wait() < 0
    assert (live.poll(), foreign.poll()) == (None, None)
    assert await end_orphans(home_id, live_claims) == 0


async def test_a_run_started_while_claims_are_read_is_no_orphan(home_id: str, start: Start) -> None:
    orphan = start(f"{home_id}:gone")
    started: list[subprocess.Popen[bytes]] = []

    async def live_claims() -> set[str]:
        claims: set[str] = set()
        started.append(start(f"{home_id}:new"))
        return claims

    assert await end_orphans(home_id, live_claims) == 1
    assert orphan.wait() < 0
    assert started[0].poll() is None


async def test_claims_are_not_read_without_processes(home_id: str) -> None:
    async def live_claims() -> set[str]:
        raise AssertionError("not needed")

    assert await end_orphans(home_id, live_claims) == 0


def test_processes_of_other_users_are_ignored(home_id: str, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    start(f"{home_id}:one")
    monkeypatch.setattr(os, "getuid", lambda: psutil.Process().uids().real + 1)
    assert find_home_processes(home_id) == []
