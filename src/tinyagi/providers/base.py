"""The port of providers: what carries out an agent's run, whichever program or service it is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from tinyagi.domain.errors import TinyAGIError
from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import Usage
from tinyagi.domain.retry import Failure
from tinyagi.domain.sessions import Turn

Progress = Callable[[str], None]
"""Told what the agent says or does while it runs; returns at once and never raises."""


class Permissions(StrEnum):
    BYPASS = "bypass"
    """The agent uses its tools without asking."""
    DEFAULT = "default"
    """The program's own rules; what they do not allow is refused, as nobody is there to ask."""
    PLAN = "plan"
    """Look and think, change nothing."""


class Wire(StrEnum):
    """Formats that an HTTP endpoint may speak."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Whom to ask and with which key; None is the provider's own default."""

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    oauth_token: str | None = field(default=None, repr=False)
    wire: Wire = Wire.OPENAI


@dataclass(frozen=True, slots=True)
class Limits:
    run: timedelta = timedelta(minutes=30)
    idle: timedelta | None = None
    """The longest silence; None allows any."""
    grace: timedelta = timedelta(seconds=5)
    """Between TERM and KILL."""
    max_answer: int = 4_000_000
    """Characters of an answer; a run that says more fails instead of filling the memory."""
    history_tokens: int = 16_000
    """How much of earlier turns is told again, where the provider keeps no sessions."""
    answer_tokens: int = 8_192
    """The longest answer to ask an endpoint for."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """All that one run needs; a provider looks nowhere else."""

    agent: AgentId
    prompt: str
    system_prompt: str
    model: str
    """As the provider names it; empty for its own default."""
    workspace: Path
    run_id: str
    """`<home id>:<claim id>`; every child carries it as TINYAGI_RUN."""
    attempt: int = 1
    session_id: str | None = None
    """The session to resume; None starts a new one."""
    turns: tuple[Turn, ...] = ()
    endpoint: Endpoint = Endpoint()
    limits: Limits = Limits()
    permissions: Permissions = Permissions.BYPASS
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The daemon's own environment: a provider picks what its child may see."""
    pass_environment: tuple[str, ...] = ()
    """Further names that the owner lets through to this agent."""


@dataclass(frozen=True, slots=True)
class RunResult:
    text: str
    usage: Usage = field(default_factory=Usage)
    session_id: str | None = None
    """What the provider calls the session now, to be resumed by the next run."""
    lost_session: bool = False
    """The session to resume was unknown: this run started a new one."""
    turns: tuple[Turn, ...] = ()
    """What is to be told again next time, from a provider that keeps no sessions."""


class RunFailed(TinyAGIError):
    """A run ended without an answer; the failure says whether and when another try is worth it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class Provider(Protocol):
    """Carries out runs. To cancel `run` is to end it: when the cancellation is over, no child is alive any more."""

    async def run(self, request: RunRequest, progress: Progress) -> RunResult:
        """Return the agent's answer; raise RunFailed when there is none."""
