"""The command line in this process, without a daemon or against a real server."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.server.conftest import Premises, closed_premises, premises
from tests.support.fake_llm import FakeLlm, fake_llm
from tinyagi.cli.main import app
from tinyagi.providers.api_formats import AnthropicFormat, OpenAIFormat
from tinyagi.settings.home import Home

__all__ = ["closed_premises", "premises"]

KEY = "sk-right-0123456789"
"""The key that `llm` accepts."""
CLEAN = dict.fromkeys(("TINYAGI_HOME", "TINYAGI_API_PORT", "TINYCLAW_API_PORT", "TINYAGI_API_TOKEN"))


@dataclass(frozen=True)
class Shell:
    """Runs commands; `stdout` and `stderr` are captured separately."""

    home: Home
    url: str | None = None
    token: str | None = None

    def __call__(self, *arguments: str, stdin: str | None = None) -> Result:
        where = ["--home", str(self.home.path), *(("--url", self.url) if self.url else ())]
        environment = {**CLEAN, "TINYAGI_API_TOKEN": self.token, "USER": "ada", "COLUMNS": "200"}
        return CliRunner().invoke(app, [*where, *arguments], input=stdin, env=environment)

    def json(self, *arguments: str) -> Any:
        """The output of a command with --json; stdout may hold nothing else."""
        result = self(*arguments, "--json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    @property
    def settings(self) -> dict[str, Any]:
        stored: dict[str, Any] = json.loads(self.home.settings_file.read_text())
        return stored


@dataclass(frozen=True)
class Remote:
    """Runs commands in a thread while the server runs in this thread's event loop."""

    shell: Shell

    async def __call__(self, *arguments: str, stdin: str | None = None) -> Result:
        return await asyncio.to_thread(self.shell, *arguments, stdin=stdin)

    async def json(self, *arguments: str) -> Any:
        return await asyncio.to_thread(self.shell.json, *arguments)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A shell on a new home, without a daemon."""
    return Shell(Home(tmp_path / "home"))


@pytest.fixture
def remote(premises: Premises) -> Remote:
    """A shell against the server of the premises."""
    return Remote(Shell(premises.home, str(premises.http.base_url)))


@pytest.fixture
def machine_without_providers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without provider programs and keys; returns the only folder on its PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
async def llm(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeLlm]:
    """A model on loopback that also replaces the official endpoints."""
    async with fake_llm() as llm:
        # A different host than in `llm.url`: an endpoint is official by its host.
        official = f"http://localhost:{llm.port}"
        monkeypatch.setattr(AnthropicFormat, "official", official)
        monkeypatch.setattr(OpenAIFormat, "official", f"{official}/v1")
        llm.key = KEY
        yield llm


@pytest.fixture
def typed(shell: Shell) -> Remote:
    return Remote(shell)
