"""The port of providers: request, result, failure and deadline of a run, for any program or service."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from tinyagi.domain.errors import TinyAGIError
from tinyagi.domain.ids import AgentId
from tinyagi.domain.limits import Usage
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.runs import Endpoint, Permissions, RunLimits, Turn

OnProgress = Callable[[str], None]
"""Gets the agent's text and tool calls during the run; returns at once and never raises."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Everything that one run needs; a provider reads no other settings."""

    agent: AgentId
    prompt: str
    system_prompt: str
    model: str
    """The provider's name for it; empty for the provider's default."""
    workspace: Path
    run_id: str
    """`<home id>:<claim id>`; every child carries it as TINYAGI_RUN."""
    attempt: int = 1
    session_id: str | None = None
    """The session to resume; None starts a new one."""
    session_state: str | None = None
    """The `session_state` of the run that left this session."""
    turns: tuple[Turn, ...] = ()
    endpoint: Endpoint = Endpoint()
    limits: RunLimits = RunLimits()
    permissions: Permissions = Permissions.BYPASS
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The daemon's environment: a provider picks the variables that its child may see."""
    pass_environment: tuple[str, ...] = ()
    """Further variables that the owner passes to this agent."""


@dataclass(frozen=True, slots=True)
class RunResult:
    text: str
    usage: Usage = field(default_factory=Usage)
    session_id: str | None = None
    """The session for the next run to resume."""
    session_state: str | None = None
    """Passed to the run that resumes the session; only this provider reads it."""
    lost_session: bool = False
    """The provider did not know the session to resume, and this run started a new one."""
    turns: tuple[Turn, ...] = ()
    """The turns to send again with the next run, from a provider that keeps no sessions."""


class RunFailed(TinyAGIError):
    """A run ended without an answer; the failure says whether and when another try is worth it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class Provider(Protocol):
    """Executes runs. Cancelling `run` ends the run: when the cancellation is over, no child process is alive."""

    @property
    def keeps_sessions(self) -> bool:
        """True: a request names the session to resume. False: it repeats earlier turns of the thread."""

    async def run(self, request: RunRequest, progress: OnProgress) -> RunResult:
        """Return the agent's answer; raise RunFailed when there is none."""


class Deadline:
    """Cancels its block when a time limit is reached, and raises RunFailed that names the limit."""

    def __init__(self, limits: RunLimits) -> None:
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + limits.run.total_seconds()
        self._timeout = asyncio.timeout_at(self._next())

    def touch(self) -> None:
        """Restart the idle limit: the run has produced output."""
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
            return f"the run produced no output for {_duration(idle)} (idle_timeout_seconds) and was ended"
        return f"the run took longer than {_duration(self._limits.run)} (timeout_seconds) and was ended"


def _duration(duration: timedelta) -> str:
    seconds = duration.total_seconds()
    return f"{seconds / 60:g} min" if seconds >= 120 and seconds % 60 == 0 else f"{seconds:g} s"
