"""The real programs, each with its provider and the settings to call a model on loopback."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.support.fake_llm import FakeLlm
from tinyagi.domain.ids import AgentId
from tinyagi.domain.runs import Endpoint, RunLimits
from tinyagi.providers.base import Provider, RunRequest
from tinyagi.providers.claude import Claude
from tinyagi.providers.codex import Codex
from tinyagi.providers.opencode import Opencode

FOLDER_VARIABLE = "TINYAGI_CLIS"
KEY = "dummy-key"


@dataclass(frozen=True, slots=True)
class RealProgram:
    name: str
    provider: Callable[[str], Provider]
    model: str
    path: str = ""
    """The path of the endpoint, below the server's address."""
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def executable(self) -> str:
        return str(Path(os.environ[FOLDER_VARIABLE], self.name))

    def request(self, llm: FakeLlm, home: Path, prompt: str, **fields: Any) -> RunRequest:
        """A run in a separate workspace and home, so that no login or setting of this user applies."""
        workspace = home / "workspace"
        workspace.mkdir(parents=True, exist_ok=True)
        defaults: dict[str, Any] = {
            "agent": AgentId("coder"),
            "prompt": prompt,
            "system_prompt": "You are the coder of team dev.",
            "model": self.model,
            "workspace": workspace,
            "run_id": f"{home.parent.name}-{home.name}:claim",
            "endpoint": Endpoint(base_url=f"{llm.url}{self.path}", api_key=KEY),
            "limits": RunLimits(run=timedelta(seconds=100)),
            "environment": {"PATH": os.environ["PATH"], "HOME": str(home), **self.environment},
        }
        return RunRequest(**{**defaults, **fields})


CLAUDE = RealProgram("claude", Claude, "sonnet", environment={"IS_SANDBOX": "1", "CLAUDE_CODE_MAX_RETRIES": "1"})
CODEX = RealProgram("codex", Codex, "gpt-5.2", path="/v1")
OPENCODE = RealProgram("opencode", Opencode, "fake/model-1", path="/v1")
PROGRAMS = (CLAUDE, CODEX, OPENCODE)
