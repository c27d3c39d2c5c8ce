"""The one place that owns child processes: a run's child is started, heard out, limited in time and always ended."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.providers.base import Limits, RunFailed
from tinyagi.providers.child import Child
from tinyagi.providers.children import RUN_VARIABLE, end, find_run, group_lives
from tinyagi.providers.deadline import Deadline
from tinyagi.providers.pipes import OnLine
from tinyagi.providers.spawning import Program, spawn

_AFTER_KILL: Final = timedelta(seconds=2)
_GLANCE: Final = 0.02
"""Seconds between two looks at whether the group has gone."""


@dataclass(frozen=True, slots=True)
class Exit:
    code: int
    stderr_tail: str
    left_out: int = 0
    """Lines that were too long to be read."""


async def run_child(
    program: Program,
    arguments: Sequence[str],
    *,
    stdin: bytes,
    cwd: Path,
    environment: Mapping[str, str],
    limits: Limits,
    on_line: OnLine,
) -> Exit:
    """Run the program to its end and hand on what it prints, line by line.

    Raises RunFailed when it cannot be started, breaks a limit or dies of a signal, and whatever `on_line` raises.
    However this ends, also by cancellation, the child's process group is gone by then; unless the child exits with 0,
    so is everything else that carries the run's TINYAGI_RUN.
    """
    child = Child(spawn(program, arguments, cwd=cwd, environment=environment), on_line)
    try:
        async with Deadline(limits) as deadline:
            await child.talk(stdin, deadline.touch)
    finally:
        if not _went_quietly(child):
            await _uninterrupted(_end(child, limits.grace, environment.get(RUN_VARIABLE)))
    code = child.process.returncode
    if code < 0:
        reason = f"{program.name} was ended by {_name_of(-code)}, which TinyAGI did not send. {child.tail.text()}"
        raise RunFailed(Failure(FailureKind.MESSAGE, reason.rstrip()))
    return Exit(code, child.tail.text(), child.lines.left_out)


def _went_quietly(child: Child) -> bool:
    """The common case, which needs no waiting: the child ended well and left nobody behind in its group."""
    if not child.was_heard_out:
        return False
    group = _Group(child.process)
    # Before the child is waited for: until then its number stays taken, so this reaches its own group only.
    group.send(signal.SIGTERM)
    if not group.is_gone() or child.process.returncode != 0:
        return False
    child.close()
    return True


async def _end(child: Child, grace: timedelta, run_id: str | None) -> None:
    """End the child's group and what left it."""
    group = _Group(child.process)
    try:
        if child.process.returncode is None:
            group.send(signal.SIGTERM)
        await asyncio.gather(group.end(grace), asyncio.to_thread(_end_leavers, run_id, child.process.pid, grace))
        # Something may have been started between the search and the signals.
        await asyncio.to_thread(_end_leavers, run_id, child.process.pid, timedelta())
    except BaseException:
        # The event loop is being torn down: there is no time for grace any more.
        group.send(signal.SIGKILL)
        raise
    finally:
        child.close()
        with suppress(subprocess.TimeoutExpired):
            child.process.wait(_AFTER_KILL.total_seconds())


class _Group:
    """The processes of a child's group; the child's own pid is its number."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def send(self, number: int) -> bool:
        """Whether there was a process to reach."""
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def is_gone(self) -> bool:
        self._process.poll()
        return not self.send(0)

    async def end(self, grace: timedelta) -> None:
        if not await self._goes(grace):
            self.send(signal.SIGKILL)
            await self._goes(_AFTER_KILL)

    async def _goes(self, within: timedelta) -> bool:
        loop = asyncio.get_running_loop()
        until = loop.time() + within.total_seconds()
        # A process that ended but that nobody waits for can still be reached: the slower look tells.
        while not self.is_gone() and await asyncio.to_thread(group_lives, self._process.pid):
            if loop.time() >= until:
                return False
            await asyncio.sleep(_GLANCE)
        return True


def _end_leavers(run_id: str | None, group: int, grace: timedelta) -> None:
    if run_id is not None:
        end([process for process in find_run(run_id) if not _is_in(group, process.pid)], grace)


def _is_in(group: int, pid: int) -> bool:
    try:
        return os.getpgid(pid) == group
    except OSError:
        return True


async def _uninterrupted(work: Coroutine[None, None, None]) -> None:
    """Carry the work to its end even if this is cancelled meanwhile, and be cancelled then."""
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
