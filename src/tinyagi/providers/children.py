"""Finds and ends the processes of runs by their TINYAGI_RUN value, also those that left their process group."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

import psutil

RUN_VARIABLE: Final = "TINYAGI_RUN"
"""`<home id>:<claim id>`, in the environment of every child and so of all it starts."""

_GRACE: Final = timedelta(seconds=5)
_AFTER_KILL: Final = timedelta(seconds=2)
_GLANCE: Final = 0.02
"""Seconds between two looks at whether a process has gone."""

Marked = tuple[psutil.Process, str]


def find(home_id: str) -> list[Marked]:
    """This user's processes that belong to runs of this home, each with its claim id; never this process itself."""
    prefix = f"{home_id}:"
    return [(process, run.removeprefix(prefix)) for process, run in _marked() if run.startswith(prefix)]


def find_run(run_id: str) -> list[psutil.Process]:
    """This user's processes that belong to one run."""
    return [process for process, run in _marked() if run == run_id]


def end(processes: Sequence[psutil.Process], grace: timedelta) -> None:
    """TERM, then KILL to what is left after the grace; returns when all are gone, or soon after the KILL."""
    for process in processes:
        _send(process.terminate)
    left = _wait(processes, grace)
    for process in left:
        _send(process.kill)
    _wait(left, _AFTER_KILL)


def group_lives(group: int) -> bool:
    """Whether a process of the group still runs. One that has ended but was never waited for counts as gone."""
    return any(_group(pid) == group and _process_lives(pid) for pid in psutil.pids())


async def end_orphans(home_id: str, live_claims: Callable[[], Awaitable[set[str]]]) -> int:
    """End the processes of this home whose claim is not live any more; the number of processes ended."""
    # Processes first, claims second: a run that starts in between is among the claims, or not among the processes.
    found = await asyncio.to_thread(find, home_id)
    if not found:
        return 0
    live = await live_claims()
    orphans = [process for process, claim_id in found if claim_id not in live]
    await asyncio.to_thread(end, orphans, _GRACE)
    return len(orphans)


def _marked() -> list[Marked]:
    me, user = os.getpid(), os.getuid()
    found: list[Marked] = []
    for pid in psutil.pids():
        if pid == me:
            continue
        try:
            # A new object each time: it remembers when its process started, so a reused pid is never signalled.
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
    """Those that still run when the time is over. Not psutil's own wait: that one would reap another's child."""
    until = time.monotonic() + longest.total_seconds()
    while left := [process for process in processes if _lives(process)]:
        if time.monotonic() >= until:
            break
        time.sleep(_GLANCE)
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
