"""Tasks that run as long as the engine: restarted after a fault, stopped together, each with a visible state.

Also `wait_until`, which their loops use to wait for an instant or a change.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tinyagi.domain.errors import TinyAGIError
from tinyagi.domain.texts import one_line
from tinyagi.system.clock import wall_clock

log = logging.getLogger(__name__)

FIRST_PAUSE: Final = timedelta(seconds=1)
LONGEST_PAUSE: Final = timedelta(seconds=30)
RESET_AFTER: Final = timedelta(minutes=1)
"""After this time without a fault the next one counts as new: it is logged, and the first pause is short."""

Loop = Callable[[], AsyncGenerator[None, None]]
"""Runs forever and yields after each successful round."""

LONGEST_WAIT: Final = timedelta(seconds=30)
"""A changed clock, or the end of the machine's sleep, is noticed within this time."""
SHORTEST_WAIT: Final = timedelta(milliseconds=250)
"""Between two rounds, unless the instant comes first: a busy store changes more often than a loop needs to run."""


@dataclass(slots=True)
class TaskState:
    since: int
    """When the task started to run or to fail, in ms."""
    failing: bool = False
    """True from a fault until the next successful round."""
    restarts: int = 0
    last_error: str | None = None


class SupervisedTasks:
    """Restarts a task after every fault, with a growing pause; the fault is logged and shown in the task's state."""

    def __init__(self, clock: Callable[[], int] = wall_clock) -> None:
        self._clock = clock
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._states: dict[str, TaskState] = {}

    @property
    def states(self) -> Mapping[str, TaskState]:
        """The state of each task that was started and not stopped, by name."""
        return self._states

    def start(self, name: str, loop: Loop) -> None:
        state = self._states[name] = TaskState(self._clock())
        self._tasks[name] = asyncio.create_task(self._supervise(name, loop, state), name=name)

    async def stop(self, *names: str) -> None:
        """End these tasks, or all when none is named, and wait for their end."""
        tasks = [self._tasks.pop(name) for name in names or tuple(self._tasks) if name in self._tasks]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for task in tasks:
            del self._states[task.get_name()]

    async def _supervise(self, name: str, loop: Loop, state: TaskState) -> None:
        pause, healthy_since = FIRST_PAUSE, 0.0
        logged: str | None = None
        now = asyncio.get_running_loop().time
        while True:
            try:
                async with contextlib.aclosing(loop()) as rounds:
                    async for _ in rounds:
                        if state.failing:
                            state.failing, state.since, healthy_since = False, self._clock(), now()
                            log.info("the background task %s works again", name)
                raise RuntimeError("it ended")  # noqa: TRY301 - handled like any other fault
            except Exception as error:
                if not state.failing:
                    state.failing, state.since = True, self._clock()
                    if now() - healthy_since >= RESET_AFTER.total_seconds():
                        pause, logged = FIRST_PAUSE, None
                state.last_error = _described(error)
                if state.last_error != logged:
                    logged = state.last_error
                    _log(name, error, pause)
            await asyncio.sleep(pause.total_seconds())
            state.restarts += 1
            pause = min(2 * pause, LONGEST_PAUSE)


def _is_expected(error: Exception) -> bool:
    return isinstance(error, (TinyAGIError, OSError))


def _described(error: Exception) -> str:
    return one_line(str(error) if _is_expected(error) else f"{type(error).__name__}: {error}", 1_000)


def _log(name: str, error: Exception, pause: timedelta) -> None:
    log.log(
        logging.WARNING if _is_expected(error) else logging.ERROR,
        "the background task %s failed, next start in %g s: %s",
        name,
        pause.total_seconds(),
        _described(error),
        exc_info=None if _is_expected(error) else error,
    )


async def wait_until(instant: int | None, now: int, change: Coroutine[object, object, object]) -> None:
    """Wait for the instant, or for the change and `SHORTEST_WAIT`, whichever is first."""
    rest = SHORTEST_WAIT.total_seconds()
    left = _seconds_left(instant, now)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(left):
            await asyncio.gather(change, asyncio.sleep(min(rest, left)))


def _seconds_left(instant: int | None, now: int) -> float:
    if instant is None:
        return LONGEST_WAIT.total_seconds()
    # Work that is still due after a round, because the store refused it, must not keep the loop busy.
    left = timedelta(milliseconds=instant - now) if instant > now else SHORTEST_WAIT
    return min(left, LONGEST_WAIT).total_seconds()
