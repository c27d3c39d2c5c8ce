"""Keeps the lake up to date: sees how far it is behind, and has the pipeline run when that is worth a JVM."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tinyagi.domain.durations import millis
from tinyagi.domain.errors import TinyAGIError
from tinyagi.domain.texts import one_line
from tinyagi.engine.rules import Rulebook
from tinyagi.settings.pipeline import PipelineSettings
from tinyagi.store.base import EventLog
from tinyagi.store.clock import wall_clock

log = logging.getLogger(__name__)

LAKE: Final = "lake"
"""The pipeline's name among those who read the log; its cursor is there from its first successful run on."""
BUSY: Final = 75
"""The exit code of a pipeline that found another process writing the lake."""
FIRST_PAUSE: Final = timedelta(minutes=1)
LONGEST_PAUSE: Final = timedelta(minutes=30)
CATCHING_UP: Final = timedelta(minutes=30)
"""After a weekend without a daemon the lake is behind, too: it has this time before anybody is warned."""
WARNED_EVERY: Final = timedelta(days=1)

_SHORTEST: Final = 0.05
_HOUR: Final = 3600
_OWN_WORDS: Final = "tinyagi: "


@dataclass(frozen=True, slots=True)
class Ending:
    """How one run of the pipeline ended."""

    code: int
    """Below zero for a signal."""
    words: tuple[str, ...] = ()
    """The last lines that it said."""


RunPipeline = Callable[[PipelineSettings], Awaitable[Ending]]
"""Runs the pipeline to its end, in a process of its own; when cancelled, it leaves no process behind."""


@dataclass(frozen=True, slots=True)
class Lag:
    """How far the lake is behind the log."""

    through_id: int
    """The last event that is archived; 0 before the first run."""
    head_id: int
    events: int
    seconds: float
    """The age of the oldest event that is not archived."""


class Archiving:
    """At most one run at a time. Whatever becomes of it, the queue goes on, and the log keeps what is not archived."""

    def __init__(
        self,
        events: EventLog,
        rulebook: Rulebook,
        run: RunPipeline | None,
        is_installed: Callable[[], bool],
        clock: Callable[[], int] = wall_clock,
    ) -> None:
        """Without `run` it only tells how far the lake is behind."""
        self.last_run_at: int | None = None
        """When the last run ended."""
        self.last_error: str | None = None
        """Why it failed, if it did."""
        self.failures = 0
        self._events = events
        self._rulebook = rulebook
        self._run = run
        self._is_installed = is_installed
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._failed_in_a_row = 0
        self._rests_until = 0
        self._looking_since: int | None = None
        self._warned_at: int | None = None

    @property
    def has_pipeline(self) -> bool:
        return self._run is not None

    @property
    def is_wanted(self) -> bool:
        """The settings want it, and its packages are there."""
        return self._run is not None and self._settings.enabled and self._is_installed()

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    async def lag(self) -> Lag | None:
        """None when nobody wants a lake: there is no cursor, and the pipeline is off or not installed."""
        bounds, cursor = await self._events.bounds(), await self._events.cursor(LAKE)
        if cursor is None and not self.is_wanted:
            return None
        # What was pruned before the first run is in nobody's way.
        through = max(cursor or 0, (bounds.oldest or bounds.head + 1) - 1)
        oldest = await self._events.read_after(through, limit=1) if through < bounds.head else ()
        if not oldest:
            return Lag(cursor or 0, bounds.head, 0, 0)
        age = max(0, self._clock() - oldest[0].created_at) / 1000
        return Lag(cursor or 0, bounds.head, bounds.head - through, age)

    async def keep_looking(self) -> AsyncGenerator[None, None]:
        """Look again and again."""
        while True:
            # Not at once: a daemon that starts again and again must not start a JVM each time.
            await asyncio.sleep(max(_SHORTEST, self._settings.check_seconds))
            await self.look()
            yield

    async def look(self) -> None:
        """Have the pipeline run if that is worth it, and warn when the lake is left far behind."""
        lag = await self.lag()
        if lag is None:
            return
        self._warn(lag)
        if self._run is None or self.is_running or not self.is_wanted:
            return
        if self._is_due(lag) and not self._is_resting():
            self._task = asyncio.create_task(self._archive(self._run, lag), name="pipeline")

    async def settled(self) -> None:
        """Wait for the run that is going on."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def stop(self) -> None:
        """End the run that is going on: a pipeline can be ended at any point, the next run goes on from there."""
        if self._task is not None:
            self._task.cancel()
        await self.settled()

    @property
    def _settings(self) -> PipelineSettings:
        return self._rulebook.current.settings.pipeline

    def _is_due(self, lag: Lag) -> bool:
        is_old = lag.events > 0 and lag.seconds >= self._settings.max_age_minutes * 60
        return is_old or lag.events >= self._settings.min_events

    def _is_resting(self) -> bool:
        # A clock that was set back does not make a pause longer.
        return 0 < self._rests_until - self._clock() <= millis(LONGEST_PAUSE)

    async def _archive(self, run: RunPipeline, before: Lag) -> None:
        try:
            ending = await run(self._settings)
            if ending.code == BUSY:
                log.info("the lake is being written by another process: it is left to that one")
                self._rest(FIRST_PAUSE)
                return
            # Without a look at the cursor, one that does nothing would be started for ever.
            if ending.code != 0:
                self._failed(_how(ending), ending.words)
            elif (await self._events.cursor(LAKE) or 0) <= before.through_id:
                self._failed("it ended well and archived nothing", ending.words)
            else:
                self.last_error, self._failed_in_a_row = None, 0
        except (TinyAGIError, OSError) as error:
            self._failed(str(error))
        except Exception as error:
            log.exception("a run of the pipeline broke")
            self._failed(f"{type(error).__name__}: {error}")
        self.last_run_at = self._clock()

    def _failed(self, how: str, words: tuple[str, ...] = ()) -> None:
        self.failures += 1
        self._failed_in_a_row += 1
        # Bounded: a large count must not grow into a number that no duration can hold.
        pause = min(FIRST_PAUSE * 2 ** min(self._failed_in_a_row - 1, 10), LONGEST_PAUSE)
        self._rest(pause)
        self.last_error = one_line(": ".join((how, *_gist(words))), 1_000)
        said = "\n".join((how, *words))
        log.warning("the pipeline failed, next try in %d min: %s", pause // timedelta(minutes=1), said)

    def _rest(self, pause: timedelta) -> None:
        self._rests_until = self._clock() + millis(pause)

    def _warn(self, lag: Lag) -> None:
        now = self._clock()
        if self._looking_since is None:
            self._looking_since = now
        if lag.seconds < self._settings.warn_hours * _HOUR:
            self._warned_at = None
            return
        is_told = self._warned_at is not None and now - self._warned_at < millis(WARNED_EVERY)
        if is_told or now - self._looking_since < millis(CATCHING_UP):
            return
        self._warned_at = now
        log.warning(
            "the lake is %d events and %d hours behind: see why with `tinyagi pipeline run`, "
            "or give it up with `tinyagi pipeline detach`",
            lag.events,
            lag.seconds // _HOUR,
        )


def _how(ending: Ending) -> str:
    return f"it ended by signal {-ending.code}" if ending.code < 0 else f"it ended with code {ending.code}"


def _gist(words: tuple[str, ...]) -> tuple[str, ...]:
    """The program's own sentence where it has one, else its last line: what Python and Java end a trace with."""
    own = [line.removeprefix(_OWN_WORDS) for line in words if line.startswith(_OWN_WORDS)]
    return tuple(own[-1:]) or words[-1:]
