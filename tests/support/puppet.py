"""A scripted provider: a test decides what each agent answers, when, and whether it fails."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tinyagi.domain.limits import Usage
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.providers.base import OnProgress, RunFailed, RunRequest, RunResult

Play = Callable[[RunRequest], Awaitable[str | RunResult] | str | RunResult]


@dataclass
class Puppet:
    """Answers by the agent's play, or echoes the prompt. Keeps every request and the running agents."""

    plays: dict[str, Play] = field(default_factory=dict)
    requests: list[RunRequest] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    most_at_once: int = 0
    cancelled: list[str] = field(default_factory=list)
    keeps_sessions: bool = True

    async def run(self, request: RunRequest, progress: OnProgress) -> RunResult:
        self.requests.append(request)
        self.running.append(request.agent)
        self.most_at_once = max(self.most_at_once, len(self.running))
        try:
            progress(f"{request.agent} works on it")
            played = self.plays.get(request.agent, _echo)(request)
            answer = played if isinstance(played, str | RunResult) else await played
        except asyncio.CancelledError:
            self.cancelled.append(request.agent)
            raise
        finally:
            self.running.remove(request.agent)
        return answer if isinstance(answer, RunResult) else RunResult(answer, Usage(1, 1, provider="puppet"))

    def prompts_of(self, agent: str) -> list[str]:
        return [request.prompt for request in self.requests if request.agent == agent]


def _echo(request: RunRequest) -> str:
    return f"echo: {request.prompt}"


class Gate:
    """A play that waits until it is opened; `reached` is set when a run waits."""

    def __init__(self, answer: str = "done") -> None:
        self.answer = answer
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    async def __call__(self, request: RunRequest) -> str:
        self.reached.set()
        await self.open.wait()
        return self.answer


def failing(kind: FailureKind = FailureKind.MESSAGE, reason: str = "exit code 1: boom", **more: object) -> Play:
    """A play that always fails."""

    def play(request: RunRequest) -> str:
        raise RunFailed(Failure(kind, reason, **more))  # type: ignore[arg-type]

    return play


def in_turn(*plays: Play | str) -> Play:
    """A play for each run; the last one stays."""
    left = list(plays)

    def play(request: RunRequest) -> Awaitable[str | RunResult] | str | RunResult:
        now = left.pop(0) if len(left) > 1 else left[0]
        return now if isinstance(now, str) else now(request)

    return play
