"""Checks an agent's provider: the program is installed, the endpoint accepts the key and knows the model."""

import asyncio
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from tinyagi.daemon.pidfile import DaemonError
from tinyagi.domain.ids import AgentId
from tinyagi.domain.models import resolve_model
from tinyagi.domain.runs import Wire
from tinyagi.domain.texts import one_line
from tinyagi.providers.base import RunFailed
from tinyagi.providers.check import check_endpoint, list_models
from tinyagi.providers.failures import CHECK_KEY, REFUSED_KEY
from tinyagi.settings.agent_setup import AgentSetup, agent_setup
from tinyagi.settings.home import Home
from tinyagi.settings.model import AgentSettings, Settings

_WIRES: Mapping[str, Wire] = {"anthropic": Wire.ANTHROPIC, "openai": Wire.OPENAI}

PATIENCE: Final = 10.0
"""Seconds for a program to print its version."""


class CheckFailed(DaemonError):
    """The provider does not work; the message says why and what to do."""


class KeyRefused(CheckFailed):
    """The endpoint refused the key."""

    def __init__(self, message: str, refusal: str) -> None:
        super().__init__(message)
        self.refusal = refusal
        """The message without the location of the key, for a key that is not stored."""


def setup_of(settings: Settings, provider: str, model: str | None, home: Home) -> AgentSetup:
    """The setup of an agent with this provider and model; raise NotConfigured."""
    agent = AgentId("check")
    with_agent = settings.model_copy(update={"agents": {agent: AgentSettings(provider=provider, model=model)}})
    return agent_setup(with_agent, agent, home)


async def check_provider(setup: AgentSetup, environment: Mapping[str, str]) -> str:
    """Try the provider once and return a sentence about what works; raise CheckFailed."""
    if setup.adapter == "scripted":
        return "Scripted answers need no model."
    if setup.adapter == "api":
        return await _check_endpoint(setup, environment)
    version = await asyncio.to_thread(_check_program, setup.adapter, environment)
    if setup.endpoint.base_url is None and setup.endpoint.api_key and setup.adapter in _WIRES:
        endpoint = replace(setup.endpoint, wire=_WIRES[setup.adapter])
        direct = replace(setup, endpoint=endpoint, model=resolve_model("api", setup.model, {}))
        return f"{version} is installed. {await _check_endpoint(direct, environment)}"
    return f"{version} is installed and uses its own login; the first message shows whether that works."


async def models_of(setup: AgentSetup, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The models that an HTTP endpoint lists; raise CheckFailed when the request fails."""
    try:
        return await list_models(setup.endpoint, environment)
    except RunFailed as error:
        raise _failed(error) from None


async def _check_endpoint(setup: AgentSetup, environment: Mapping[str, str]) -> str:
    started = time.monotonic()
    try:
        await check_endpoint(setup.endpoint, setup.model, environment)
    except RunFailed as error:
        raise _failed(error) from None
    return f"{setup.model or 'Its default model'} answered in {time.monotonic() - started:.1f} s."


def _check_program(adapter: str, environment: Mapping[str, str]) -> str:
    tool = TOOLS[adapter]
    path = shutil.which(tool.program, path=environment.get("PATH"))
    if path is None:
        raise CheckFailed(f"The program {tool.program} is not on the PATH. Install it with `{tool.install}`.")
    version = program_version(path, environment)
    if version is None:
        raise CheckFailed(f"{path} does not print its version. Reinstall it with `{tool.install}`.")
    return f"{tool.program} {version}" if tool.program not in version.lower() else version


def _failed(error: RunFailed) -> CheckFailed:
    reason = error.failure.reason
    refusal, remedy, _ = reason.rpartition(CHECK_KEY)
    if remedy and REFUSED_KEY in refusal:
        return KeyRefused(_sentence(reason), _sentence(refusal))
    return CheckFailed(_sentence(reason))


def _sentence(reason: str) -> str:
    reason = reason.rstrip(".")
    return f"{reason[0].upper()}{reason[1:]}." if reason and not reason.startswith("http") else f"{reason}."


class Tool(NamedTuple):
    program: str
    install: str


TOOLS: Final[Mapping[str, Tool]] = {
    "anthropic": Tool("claude", "npm install -g @anthropic-ai/claude-code"),
    "openai": Tool("codex", "npm install -g @openai/codex"),
    "opencode": Tool("opencode", "npm install -g opencode-ai"),
}
"""Programs by adapter."""


def program_version(path: str, environment: Mapping[str, str]) -> str | None:
    """The first line of `--version`; None when the program fails or takes too long."""
    try:
        done = subprocess.run(  # noqa: S603 - the program that runs agents anyway
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=dict(environment),
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = one_line(done.stdout.decode("utf-8", "replace"), 60)
    return version if done.returncode == 0 and version else None
