"""Keeps the lake up to date: measures how far it is behind, and runs the pipeline when the lag is worth a JVM."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tinyagi.domain.errors import TinyAGIError
from tinyagi.domain.instants import millis
from tinyagi.domain.texts import one_line
from tinyagi.settings.effective import EffectiveSettingsCache
from tinyagi.settings.model import PipelineSettings
from tinyagi.store.event_log import EventLog
from tinyagi.system.clock import wall_clock

# The logger of the pipeline's own output, so that `tinyagi logs pipeline` shows the whole run.
log = logging.getLogger("tinyagi.pipeline")

LAKE: Final = "lake"
"""The pipeline's name as a reader of the log; its cursor exists from the first successful run on."""
BUSY: Final = 75
"""The exit code of a pipeline that found another process writing the lake."""
FIRST_PAUSE: Final = timedelta(minutes=1)
LONGEST_PAUSE: Final = timedelta(minutes=30)
CATCHING_UP: Final = timedelta(minutes=30)
"""No warning before this time: after a weekend without a daemon the lake has to catch up first."""
WARNED_EVERY: Final = timedelta(days=1)

_SHORTEST: Final = 0.05
_HOUR: Final = 3600
_ERROR_PREFIX: Final = "tinyagi: "


@dataclass(frozen=True, slots=True)
class PipelineExit:
    """How one run of the pipeline ended."""

    code: int
    """Below zero for a signal."""
    last_lines: tuple[str, ...] = ()
    """The end of its output."""


RunPipeline = Callable[[PipelineSettings], Awaitable[PipelineExit]]
"""Runs the pipeline to its end in a child process; when cancelled, it leaves no process behind."""


@dataclass(frozen=True, slots=True)
class LakeLag:
    """How far the lake is behind the log."""

    through_id: int
    """The last archived event; 0 before the first run."""
    head_id: int
    events: int
    seconds: float
    """The age of the oldest event that is not archived."""


class PipelineTrigger:
    """Starts at most one run at a time. A failed run delays no message, and the log keeps events until archived."""

    def __init__(
        self,
        events: EventLog,
        effective: EffectiveSettingsCache,
        run: RunPipeline | None,
        is_installed: Callable[[], bool],
        clock: Callable[[], int] = wall_clock,
    ) -> None:
        """Without `run` it only measures how far the lake is behind."""
        self.last_run_at: int | None = None
        """When the last run ended."""
        self.last_error: str | None = None
        """Why it failed, if it did."""
        self.failures = 0
        self._events = events
        self._effective = effective
        self._run = run
        self._is_installed = is_installed
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._failed_in_a_row = 0
        self._backs_off_until = 0
        self._checking_since: int | None = None
        self._warned_at: int | None = None

    @property
    def has_pipeline(self) -> bool:
        return self._run is not None

    @property
    def is_wanted(self) -> bool:
        """The settings enable the pipeline, and its packages are installed."""
        return self._run is not None and self._settings.enabled and self._is_installed()

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    async def lag(self) -> LakeLag | None:
        """None when no lake is in use: there is no cursor, and the pipeline is off or not installed."""
        bounds, cursor = await self._events.bounds(), await self._events.cursor(LAKE)
        if cursor is None and not self.is_wanted:
            return None
        # Events that were pruned before the first run do not count as lag.
        through = max(cursor or 0, (bounds.oldest or bounds.head + 1) - 1)
        oldest = await self._events.read_after(through, limit=1) if through < bounds.head else ()
        if not oldest:
            return LakeLag(cursor or 0, bounds.head, 0, 0)
        age = max(0, self._clock() - oldest[0].created_at) / 1000
        return LakeLag(cursor or 0, bounds.head, bounds.head - through, age)

    async def keep_checking(self) -> AsyncGenerator[None, None]:
        """Check at the interval of the settings, forever."""
        while True:
            # Sleep first: a daemon that restarts in a loop must not start a JVM each time.
            await asyncio.sleep(max(_SHORTEST, self._settings.check_seconds))
            await self.check()
            yield

    async def check(self) -> None:
        """Start the pipeline when it is due, and warn when the lake is far behind."""
        lag = await self.lag()
        if lag is None:
            return
        self._warn(lag)
        if self._run is None or self.is_running or not self.is_wanted:
            return
        if self._is_due(lag) and not self._is_backing_off():
            self._task = asyncio.create_task(self._archive(self._run, lag), name="pipeline")

    async def wait(self) -> None:
        """Wait for the current run, if there is one."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def stop(self) -> None:
        """End the current run. A run can end at any point; the next one continues from there."""
        if self._task is not None:
            self._task.cancel()
        await self.wait()

    @property
    def _settings(self) -> PipelineSettings:
        return self._effective.current.settings.pipeline

    def _is_due(self, lag: LakeLag) -> bool:
        is_old = lag.events > 0 and lag.seconds >= self._settings.max_age_minutes * 60
        return is_old or lag.events >= self._settings.min_events

    def _is_backing_off(self) -> bool:
        # A clock that was set back does not make a pause longer.
        return 0 < self._backs_off_until - self._clock() <= millis(LONGEST_PAUSE)

    async def _archive(self, run: RunPipeline, before: LakeLag) -> None:
        log.info("the pipeline starts: %d events are not in the lake", before.events)
        try:
            ending = await run(self._settings)
            if ending.code == BUSY:
                log.info("another process is writing the lake: this run is skipped")
                self._back_off(FIRST_PAUSE)
                return
            # Check the cursor: a pipeline that archives nothing would otherwise be started forever.
            if ending.code != 0:
                self._failed(_exit_text(ending), ending.last_lines)
            elif (through := await self._events.cursor(LAKE) or 0) <= before.through_id:
                self._failed("it ended without an error but archived nothing", ending.last_lines)
            else:
                log.info("the pipeline ended: the lake holds every event up to %d", through)
                self.last_error, self._failed_in_a_row = None, 0
        except (TinyAGIError, OSError) as error:
            self._failed(str(error))
        except Exception as error:
            log.exception("the run of the pipeline crashed")
            self._failed(f"{type(error).__name__}: {error}")
        self.last_run_at = self._clock()

    def _failed(self, how: str, last_lines: tuple[str, ...] = ()) -> None:
        self.failures += 1
        self._failed_in_a_row += 1
        # The exponent is bounded: a large count would overflow timedelta.
        pause = min(FIRST_PAUSE * 2 ** min(self._failed_in_a_row - 1, 10), LONGEST_PAUSE)
        self._back_off(pause)
        self.last_error = one_line(": ".join((how, *_summary(last_lines))), 1_000)
        detail = "\n".join((how, *last_lines))
        log.warning("the pipeline failed, next try in %d min: %s", pause // timedelta(minutes=1), detail)

    def _back_off(self, pause: timedelta) -> None:
        self._backs_off_until = self._clock() + millis(pause)

    def _warn(self, lag: LakeLag) -> None:
        now = self._clock()
        if self._checking_since is None:
            self._checking_since = now
        if lag.seconds < self._settings.warn_hours * _HOUR:
            self._warned_at = None
            return
        was_warned = self._warned_at is not None and now - self._warned_at < millis(WARNED_EVERY)
        if was_warned or now - self._checking_since < millis(CATCHING_UP):
            return
        self._warned_at = now
        log.warning(
            "the lake is %d events and %d hours behind: run `tinyagi pipeline run` to see why, "
            "or `tinyagi pipeline detach` to give up the lake",
            lag.events,
            lag.seconds // _HOUR,
        )


def _exit_text(ending: PipelineExit) -> str:
    return f"it ended by signal {-ending.code}" if ending.code < 0 else f"it ended with code {ending.code}"


def _summary(last_lines: tuple[str, ...]) -> tuple[str, ...]:
    """The last error that the command line printed, else the last line: Python and Java end a trace with the error."""
    errors = [line.removeprefix(_ERROR_PREFIX) for line in last_lines if line.startswith(_ERROR_PREFIX)]
    return tuple(errors[-1:]) or last_lines[-1:]
