"""Tasks that run as long as the engine: restarted after a fault, stopped together, each with a state to show."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tinyagi.domain.errors import TinyAGIError
from tinyagi.domain.texts import one_line
from tinyagi.store.clock import wall_clock

log = logging.getLogger(__name__)

FIRST_PAUSE: Final = timedelta(seconds=1)
LONGEST_PAUSE: Final = timedelta(seconds=30)
WELL_AFTER: Final = timedelta(minutes=1)
"""After this time without a fault the next one is new: it is logged, and the first pause is short."""

Loop = Callable[[], AsyncGenerator[None, None]]
"""Works for ever, and yields after each round that went well."""


@dataclass(slots=True)
class TaskState:
    since: int
    """When it began to run or to fail, in ms."""
    failing: bool = False
    """True from a fault until a round goes well."""
    restarts: int = 0
    last_error: str | None = None


class SupervisedTasks:
    """No fault ends a task for good: it is logged and shown, and the task starts again after a pause."""

    def __init__(self, clock: Callable[[], int] = wall_clock) -> None:
        self._clock = clock
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._states: dict[str, TaskState] = {}

    @property
    def states(self) -> Mapping[str, TaskState]:
        """Of all tasks that were started and not stopped, by name."""
        return self._states

    def start(self, name: str, loop: Loop) -> None:
        state = self._states[name] = TaskState(self._clock())
        self._tasks[name] = asyncio.create_task(self._supervise(name, loop, state), name=name)

    async def stop(self, *names: str) -> None:
        """End these tasks, or all when no name is given, and return when they have ended."""
        tasks = [self._tasks.pop(name) for name in names or tuple(self._tasks) if name in self._tasks]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for task in tasks:
            del self._states[task.get_name()]

    async def _supervise(self, name: str, loop: Loop, state: TaskState) -> None:
        pause, well_since = FIRST_PAUSE, 0.0
        logged: str | None = None
        now = asyncio.get_running_loop().time
        while True:
            try:
                async with contextlib.aclosing(loop()) as rounds:
                    async for _ in rounds:
                        if state.failing:
                            state.failing, state.since, well_since = False, self._clock(), now()
                            log.info("the background task %s works again", name)
                raise RuntimeError("it ended")  # noqa: TRY301 - an end is a fault like any other
            except Exception as error:
                if not state.failing:
                    state.failing, state.since = True, self._clock()
                    if now() - well_since >= WELL_AFTER.total_seconds():
                        pause, logged = FIRST_PAUSE, None
                state.last_error = _described(error)
                if state.last_error != logged:
                    logged = state.last_error
                    _log(name, error, pause)
            await asyncio.sleep(pause.total_seconds())
            state.restarts += 1
            pause = min(2 * pause, LONGEST_PAUSE)


def _is_foreseen(error: Exception) -> bool:
    return isinstance(error, (TinyAGIError, OSError))


def _described(error: Exception) -> str:
    return one_line(str(error) if _is_foreseen(error) else f"{type(error).__name__}: {error}", 1_000)


def _log(name: str, error: Exception, pause: timedelta) -> None:
    log.log(
        logging.WARNING if _is_foreseen(error) else logging.ERROR,
        "the background task %s failed, it starts again in %g s: %s",
        name,
        pause.total_seconds(),
        _described(error),
        exc_info=None if _is_foreseen(error) else error,
    )
