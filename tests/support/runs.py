"""Runs of providers for tests: a request with defaults, and a recorded progress."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TypedDict, Unpack

import pytest

from tinyagi.domain.ids import AgentId
from tinyagi.domain.retry import Failure
from tinyagi.domain.runs import Endpoint, RunLimits, Turn
from tinyagi.providers.base import Provider, RunFailed, RunRequest

AT_ONCE = (timedelta(), timedelta())


class RequestFields(TypedDict, total=False):
    agent: AgentId
    prompt: str
    system_prompt: str
    model: str
    workspace: Path
    attempt: int
    session_id: str | None
    turns: tuple[Turn, ...]
    endpoint: Endpoint
    limits: RunLimits
    environment: Mapping[str, str]


_PLAIN = RunRequest(
    agent=AgentId("coder"),
    prompt="hello",
    system_prompt="",
    model="",
    workspace=Path("/nonexistent"),
    run_id="home:claim",
)


def a_request(**fields: Unpack[RequestFields]) -> RunRequest:
    return replace(_PLAIN, **fields)


@dataclass(slots=True)
class RecordedProgress:
    """A progress callback that keeps its texts."""

    pieces: list[str] = field(default_factory=list)

    def __call__(self, text: str) -> None:
        self.pieces.append(text)


async def failure_of(provider: Provider, request: RunRequest) -> Failure:
    """Run a request that must fail, and return the failure."""
    with pytest.raises(RunFailed) as caught:
        await provider.run(request, RecordedProgress())
    return caught.value.failure
