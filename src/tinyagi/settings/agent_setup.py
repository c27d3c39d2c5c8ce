"""The setup of an agent's runs: provider, model, endpoint, limits, and the folders and files it may use."""

import contextlib
import os
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Final

from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import Batching
from tinyagi.domain.models import resolve_model
from tinyagi.domain.runs import Endpoint, Permissions, RunLimits, SessionScope, Wire
from tinyagi.settings.errors import SettingsError
from tinyagi.settings.home import Home
from tinyagi.settings.model import CUSTOM, AgentSettings, Harness, Settings, WhileRunning

ADAPTERS: Final = {Harness.CLAUDE: "anthropic", Harness.CODEX: "openai", Harness.API: "api"}
IDLE_OF_ENDPOINTS: Final = timedelta(minutes=10)
_SYSTEM_TREES: Final = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/snap", "/sys"),
    *("/usr/bin", "/usr/include", "/usr/lib", "/usr/libexec", "/usr/sbin", "/usr/share"),
    *("/usr/local/bin", "/usr/local/etc", "/usr/local/lib", "/usr/local/sbin"),
    *("/var/log", "/var/spool", "/System", "/Library"),
)
_SHARED_FOLDERS: Final = (
    *("/", "/home", "/media", "/mnt", "/opt", "/private", "/root", "/srv", "/tmp"),  # noqa: S108 - compared with, never written to
    *("/usr", "/usr/local", "/var", "/var/cache", "/var/lib", "/Users", "/Applications"),
)
"""Refused, but folders inside them are allowed: those may belong to a user."""
_PRIVATE: Final = (".aws", ".azure", ".claude", ".codex", ".config", ".docker", ".gnupg", ".kube", ".ssh")
"""Folders of the user's home that hold keys and logins."""
_TEXTS: Final = frozenset({".md", ".txt"})
"""The home's own files, such as keys and databases, have other suffixes."""


class NotConfigured(SettingsError):
    """The settings do not say how to run this agent."""


@dataclass(frozen=True, slots=True)
class AgentSetup:
    id: AgentId
    name: str
    provider: str
    """As configured; `custom:<id>` names an entry of `custom_providers`."""
    adapter: str
    """The provider implementation: anthropic, openai, opencode, api or scripted."""
    model: str
    """The provider's name of the model; empty for its own default."""
    endpoint: Endpoint
    workspace: Path
    limits: RunLimits
    permissions: Permissions
    batching: Batching
    while_running: WhileRunning
    session_scope: SessionScope
    system_prompt: str | None
    prompt_file: Path | None
    pass_environment: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Service:
    """The adapter and endpoint of a run; `model` is the default for agents that name none."""

    adapter: str
    endpoint: Endpoint
    model: str | None = None


def agent_setup(settings: Settings, agent_id: AgentId, home: Home) -> AgentSetup:
    """Return all that a run of this agent needs; raise NotConfigured with the remedy when the settings lack it."""
    agent = settings.agents.get(agent_id)
    if agent is None:
        raise NotConfigured(f"There is no agent @{agent_id}. Add it to `agents` in {home.settings_file}.")
    provider = agent.provider or settings.models.provider
    service = _service(settings, provider, agent)
    workspace = _workspace(settings, agent_id, agent, home)
    return AgentSetup(
        id=agent_id,
        name=agent.name or agent_id,
        provider=provider,
        adapter=service.adapter,
        model=resolve_model(provider, agent.model or service.model or "", settings.models.aliases),
        endpoint=service.endpoint,
        workspace=workspace,
        limits=_limits(settings, agent, service.adapter),
        permissions=agent.permissions,
        batching=agent.batching,
        while_running=agent.while_running,
        session_scope=agent.session_scope,
        system_prompt=agent.system_prompt or None,
        prompt_file=workspace / _expanded(agent.prompt_file, "prompt_file") if agent.prompt_file else None,
        pass_environment=agent.pass_environment,
    )


def effective_fields(settings: Settings, agent_id: AgentId, home: Home) -> dict[str, str]:
    """The values in force for fields that have defaults; a folder that cannot be resolved stays as written."""
    agent = settings.agents.get(agent_id)
    if agent is None:
        return {}
    provider = agent.provider or settings.models.provider
    fields = {"name": agent.name or agent_id, "provider": provider, "model": agent.model or ""}
    with contextlib.suppress(NotConfigured):
        fields["model"] = fields["model"] or _service(settings, provider, agent).model or ""
    try:
        folder = str(_workspace(settings, agent_id, agent, home))
    except NotConfigured:
        folder = agent.working_directory or agent_id
    return {**fields, "working_directory": folder}


def _service(settings: Settings, provider: str, agent: AgentSettings) -> _Service:
    models = settings.models
    match provider:
        case "anthropic":
            key, token = models.anthropic.api_key or None, models.anthropic.oauth_token or None
            return _Service(provider, Endpoint(api_key=key, oauth_token=token), models.anthropic.model)
        case "openai":
            return _Service(provider, Endpoint(api_key=models.openai.api_key or None), models.openai.model)
        case "opencode":
            return _Service(provider, Endpoint(), models.opencode.model)
        case "api":
            return _official_endpoint(settings, agent)
        case "scripted":
            return _Service(provider, Endpoint())
    custom = settings.custom_providers.get(provider.removeprefix(CUSTOM)) if provider.startswith(CUSTOM) else None
    if custom is None:
        raise NotConfigured(f"There is no provider {provider!r}. Add it to `custom_providers` in the settings.")
    endpoint = Endpoint(base_url=custom.base_url, api_key=custom.api_key or None, wire=custom.wire)
    return _Service(ADAPTERS[custom.harness], endpoint, custom.model)


def _official_endpoint(settings: Settings, agent: AgentSettings) -> _Service:
    """Anthropic's endpoint for its own models, OpenAI's for all others."""
    models = settings.models
    openai, anthropic = models.openai, models.anthropic
    # An OpenAI model without a key may be meant for Codex. A key without a model means the endpoint's default model.
    uses_openai = openai.api_key or (openai.model and not anthropic.api_key)
    default = openai.model if uses_openai else anthropic.model
    model = resolve_model("api", agent.model or default or "", models.aliases)
    if model.startswith("claude"):
        return _Service("api", Endpoint(api_key=anthropic.api_key or None, wire=Wire.ANTHROPIC), default)
    return _Service("api", Endpoint(api_key=openai.api_key or None), default)


def _limits(settings: Settings, agent: AgentSettings, adapter: str) -> RunLimits:
    if agent.idle_timeout_seconds is None:
        idle = IDLE_OF_ENDPOINTS if adapter == "api" else None
    else:
        idle = timedelta(seconds=agent.idle_timeout_seconds) or None
    return RunLimits(
        run=timedelta(seconds=agent.timeout_seconds),
        idle=idle,
        grace=timedelta(seconds=settings.queue.kill_grace_seconds),
        max_answer=settings.queue.max_answer_characters,
        history_tokens=agent.history_tokens,
        answer_tokens=agent.answer_tokens,
    )


def _workspace(settings: Settings, agent_id: AgentId, agent: AgentSettings, home: Home) -> Path:
    # `/` with an absolute path on the right drops the left side.
    shared = home.path / _expanded(settings.workspace.path, "workspace.path")
    return shared / _expanded(agent.working_directory or agent_id, f"agents.{agent_id}.working_directory")


def _expanded(path: str, name: str) -> Path:
    if "\0" in path:
        raise NotConfigured(f"{name} holds a NUL character, which no path can. Remove it.")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise NotConfigured(f"{name} is {path!r}, which cannot be resolved: {error}.") from error


def path_problems(settings: Settings, home: Home) -> list[str]:
    """One sentence for every agent's folder or prompt_file that must not be used."""
    problems = []
    for name, agent in settings.agents.items():
        try:
            setup = agent_setup(settings, AgentId(name), home)
        except NotConfigured:
            # The agent has no folder yet; its run reports what is missing.
            continue
        if problem := workspace_problem(setup.workspace, home):
            setting = f"agents.{name}.working_directory" if agent.working_directory else "workspace.path"
            problems.append(f"{setting}: {problem}")
        if setup.prompt_file and (problem := prompt_file_problem(setup.prompt_file, setup.workspace, home)):
            problems.append(f"agents.{name}.prompt_file: {problem}")
    return problems


def workspace_problem(folder: Path, home: Home) -> str | None:
    """Why no agent may work in the folder, with the remedy; None when it is allowed."""
    real = _real(folder)
    if _real(home.path).is_relative_to(real):
        reason = f"holds {home.path} with its keys"
    elif any(real.is_relative_to(_real(place)) for place in _own_folders(home)):
        reason = "is one of TinyAGI's own folders"
    elif real == _real(Path("~").expanduser()):
        reason = "is your home folder"
    elif any(real.is_relative_to(_real(Path("~", name).expanduser())) for name in _PRIVATE):
        reason = "holds your keys and logins"
    elif real in _system(_SHARED_FOLDERS) or any(real.is_relative_to(place) for place in _system(_SYSTEM_TREES)):
        reason = "belongs to the system"
    else:
        return None
    return f"{folder} {reason}; choose a folder for agents, such as ~/tinyagi-workspace/coder"


def prompt_file_problem(file: Path, workspace: Path, home: Home) -> str | None:
    """Why the file may not be an agent's instructions, with the remedy; None when it is allowed."""
    real = _real(file)
    if real.is_relative_to(_real(workspace)):
        return None
    if real.is_relative_to(_real(home.path)) and real.suffix in _TEXTS:
        return None
    return f"{file} is neither in the agent's workspace nor a .md or .txt file in {home.path}; copy it there"


def _own_folders(home: Home) -> tuple[Path, ...]:
    return home.logs, home.files, home.channels, home.chats, home.plugins, home.backups, home.lake


@cache
def _system(places: tuple[str, ...]) -> frozenset[Path]:
    return frozenset(_real(Path(place)) for place in places)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
