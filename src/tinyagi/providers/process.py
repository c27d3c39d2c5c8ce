"""A run's processes: starts the child with a time limit, ends its process group, and finds processes that left it."""

import asyncio
import errno
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

import psutil

from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.runs import RunLimits
from tinyagi.providers.base import Deadline, RunFailed
from tinyagi.providers.pipes import Child, OnLine

_AFTER_KILL: Final = timedelta(seconds=2)
_POLL_SECONDS: Final = 0.02
"""Between two checks whether a process or a group is gone."""
_NOT_A_PROGRAM: Final = frozenset({errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.EISDIR, errno.ELOOP})
RUN_VARIABLE: Final = "TINYAGI_RUN"
"""`<home id>:<claim id>`, in the environment of every child and of all processes that it starts."""
_GRACE: Final = timedelta(seconds=5)

Marked = tuple[psutil.Process, str]


@dataclass(frozen=True, slots=True)
class Exit:
    code: int
    stderr_tail: str
    dropped_lines: int = 0
    """Lines that were too long to read."""


@dataclass(frozen=True, slots=True)
class Program:
    """A command-line program that an owner installs."""

    name: str
    executable: str
    """A name on the PATH, or a path."""
    install: str
    """The command that installs it."""
    log_in: str
    """The remedy when it has no valid credentials."""


async def run_child(
    program: Program,
    arguments: Sequence[str],
    *,
    stdin: bytes,
    cwd: Path,
    environment: Mapping[str, str],
    limits: RunLimits,
    on_line: OnLine,
) -> Exit:
    """Run the program to its end and pass on its output, line by line.

    Raises RunFailed when the program cannot start, exceeds a limit or is ended by a signal, and errors of `on_line`.
    In every case, also on cancellation, the child's process group is gone on return. Unless the child exits with 0,
    all other processes with the run's TINYAGI_RUN are gone as well.
    """
    child = Child(spawn(program, arguments, cwd=cwd, environment=environment), on_line)
    try:
        async with Deadline(limits) as deadline:
            await child.communicate(stdin, deadline.touch)
    finally:
        if not _exited_cleanly(child):
            await _run_to_end(_end(child, limits.grace, environment.get(RUN_VARIABLE)))
    code = child.process.returncode
    if code < 0:
        reason = f"{program.name} was ended by {_name_of(-code)}, which TinyAGI did not send. {child.tail.text()}"
        raise RunFailed(Failure(FailureKind.MESSAGE, reason.rstrip()))
    return Exit(code, child.tail.text(), child.lines.dropped_lines)


def spawn(
    program: Program, arguments: Sequence[str], *, cwd: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start the program with a pipe to each of its three streams; raise RunFailed when it cannot be started."""
    command = [program.executable, *arguments]
    try:
        # A new session is a new process group, too: one signal reaches every process that does not leave it.
        return subprocess.Popen(  # noqa: S603
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        raise RunFailed(_failure(program, cwd, error)) from error
    except ValueError as error:
        reason = f"{program.name} cannot be started with the values of the settings: {error}"
        raise RunFailed(Failure(FailureKind.UNAVAILABLE, reason, needs_person=True)) from error


def _failure(program: Program, cwd: Path, error: OSError) -> Failure:
    detail = error.strerror or str(error)
    # The system reports "no such file" for a missing program and for a missing folder alike.
    if not (cwd.is_dir() and os.access(cwd, os.X_OK)):
        reason = f"The workspace {cwd} cannot be entered ({detail}). Create it, or set the agent's working_directory."
        return Failure(FailureKind.UNAVAILABLE, reason, needs_person=True)
    if error.errno in _NOT_A_PROGRAM:
        reason = (
            f"The program {program.executable} cannot be started ({detail}). "
            f"Install it with `{program.install}`, or choose another provider."
        )
        return Failure(FailureKind.UNAVAILABLE, reason, needs_person=True)
    if error.errno == errno.E2BIG:
        reason = f"The command line of {program.name} is longer than the system allows ({detail}). Shorten the prompt."
        return Failure(FailureKind.MESSAGE, reason)
    return Failure(FailureKind.UNAVAILABLE, f"This machine cannot start {program.name} now ({detail}).")


def _exited_cleanly(child: Child) -> bool:
    """True in the common case, which needs no waiting: the child exited with 0 and its group is empty."""
    if not child.finished_normally:
        return False
    group = _Group(child.process)
    # Signal before reaping the child: until then its pid cannot be reused, so this reaches only its own group.
    group.send(signal.SIGTERM)
    if not group.is_gone() or child.process.returncode != 0:
        return False
    child.close()
    return True


async def _end(child: Child, grace: timedelta, run_id: str | None) -> None:
    """End the child's group and the processes that left the group."""
    group = _Group(child.process)
    try:
        if child.process.returncode is None:
            group.send(signal.SIGTERM)
        await asyncio.gather(group.end(grace), asyncio.to_thread(_end_detached, run_id, child.process.pid, grace))
        # A process may have started between the search and the signals.
        await asyncio.to_thread(_end_detached, run_id, child.process.pid, timedelta())
    except BaseException:
        # The event loop is shutting down: there is no time for the grace period.
        group.send(signal.SIGKILL)
        raise
    finally:
        child.close()
        with suppress(subprocess.TimeoutExpired):
            child.process.wait(_AFTER_KILL.total_seconds())


class _Group:
    """The process group of a child; its number is the child's pid."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def send(self, number: int) -> bool:
        """Send the signal; False when the group has no process."""
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def is_gone(self) -> bool:
        self._process.poll()
        return not self.send(0)

    async def end(self, grace: timedelta) -> None:
        if not await self._wait_gone(grace):
            self.send(signal.SIGKILL)
            await self._wait_gone(_AFTER_KILL)

    async def _wait_gone(self, within: timedelta) -> bool:
        loop = asyncio.get_running_loop()
        until = loop.time() + within.total_seconds()
        # A zombie still accepts signals: only the slower check sees that it has ended.
        while not self.is_gone() and await asyncio.to_thread(group_is_alive, self._process.pid):
            if loop.time() >= until:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True


def _end_detached(run_id: str | None, group: int, grace: timedelta) -> None:
    if run_id is not None:
        end_processes([process for process in find_run_processes(run_id) if not _is_in(group, process.pid)], grace)


def _is_in(group: int, pid: int) -> bool:
    try:
        return os.getpgid(pid) == group
    except OSError:
        return True


async def _run_to_end(work: Coroutine[None, None, None]) -> None:
    """Run the work to its end even when this task is cancelled, and raise the cancellation afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


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
