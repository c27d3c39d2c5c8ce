"""The two limits on a run: its whole time, and the time without a sign of life."""

import asyncio
from datetime import timedelta
from types import TracebackType
from typing import Self

from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.providers.base import Limits, RunFailed


class Deadline:
    """Cancels its block when a limit fires, and says which one it was."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + limits.run.total_seconds()
        self._timeout = asyncio.timeout_at(self._next())

    def touch(self) -> None:
        """The run gave a sign of life."""
        if self._limits.idle is not None and not self._timeout.expired():
            self._timeout.reschedule(self._next())

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        when = self._timeout.when()
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise RunFailed(Failure(FailureKind.TIMEOUT, self._reason(when))) from None

    def _next(self) -> float:
        idle = self._limits.idle
        return self._end if idle is None else min(self._end, self._loop.time() + idle.total_seconds())

    def _reason(self, when: float | None) -> str:
        idle = self._limits.idle
        if idle is not None and when is not None and when < self._end:
            return f"the run gave no sign of life for {_words(idle)} (idle_timeout_seconds) and was ended"
        return f"the run took longer than {_words(self._limits.run)} (timeout_seconds) and was ended"


def _words(duration: timedelta) -> str:
    seconds = duration.total_seconds()
    return f"{seconds / 60:g} min" if seconds >= 120 and seconds % 60 == 0 else f"{seconds:g} s"
