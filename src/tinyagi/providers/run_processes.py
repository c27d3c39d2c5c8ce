"""Finds and ends the processes of runs by their TINYAGI_RUN value, even those that left their process group."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

import psutil

RUN_VARIABLE: Final = "TINYAGI_RUN"
"""`<home id>:<claim id>`, in the environment of every child and of all processes that it starts."""

_GRACE: Final = timedelta(seconds=5)
_AFTER_KILL: Final = timedelta(seconds=2)
_POLL_SECONDS: Final = 0.02
"""Between two checks whether a process is gone."""

Marked = tuple[psutil.Process, str]


def find_home_processes(home_id: str) -> list[Marked]:
    """This user's processes that belong to runs of this home, each with its claim id; never this process."""
    prefix = f"{home_id}:"
    return [(process, run.removeprefix(prefix)) for process, run in _marked() if run.startswith(prefix)]


def find_run_processes(run_id: str) -> list[psutil.Process]:
    """This user's processes that belong to one run."""
    return [process for process, run in _marked() if run == run_id]


def end_processes(processes: Sequence[psutil.Process], grace: timedelta) -> None:
    """Send TERM, then KILL to those left after the grace period; return when all are gone, or soon after the KILL."""
    for process in processes:
        _send(process.terminate)
    left = _wait(processes, grace)
    for process in left:
        _send(process.kill)
    _wait(left, _AFTER_KILL)


def group_is_alive(group: int) -> bool:
    """Whether a process of the group still runs. A zombie counts as gone."""
    return any(_group(pid) == group and _process_lives(pid) for pid in psutil.pids())


async def end_orphans(home_id: str, live_claims: Callable[[], Awaitable[set[str]]]) -> int:
    """End the processes of this home whose claim is no longer live; return their number."""
    # List processes first, claims second: a run that starts in between is in the claims or not in the processes.
    found = await asyncio.to_thread(find_home_processes, home_id)
    if not found:
        return 0
    live = await live_claims()
    orphans = [process for process, claim_id in found if claim_id not in live]
    await asyncio.to_thread(end_processes, orphans, _GRACE)
    return len(orphans)


def _marked() -> list[Marked]:
    me, user = os.getpid(), os.getuid()
    found: list[Marked] = []
    for pid in psutil.pids():
        if pid == me:
            continue
        try:
            # A new object each time: it stores the start time of its process, so a reused pid is never signalled.
            process = psutil.Process(pid)
            if process.uids().real != user:
                continue
            run = process.environ().get(RUN_VARIABLE)
        except (psutil.Error, OSError):
            continue
        if run:
            found.append((process, run))
    return found


def _send(signal: Callable[[], None]) -> None:
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        signal()


def _wait(processes: Sequence[psutil.Process], longest: timedelta) -> list[psutil.Process]:
    """The processes that still run after the time. Not psutil.wait_procs: it would reap children of other owners."""
    until = time.monotonic() + longest.total_seconds()
    while left := [process for process in processes if _lives(process)]:
        if time.monotonic() >= until:
            break
        time.sleep(_POLL_SECONDS)
    return left


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def _process_lives(pid: int) -> bool:
    try:
        return _lives(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return False


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None
