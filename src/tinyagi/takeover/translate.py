"""Settings of the original in the words of this version: old names, old shapes, old defaults."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tinyagi.settings.model import DEFAULT_AGENT

_OLD_DEFAULT: Final = "default"
"""Who answered when no agent was configured, and what named nobody, under the program's first name."""
_OLD_WORKSPACE: Final = "~/tinyclaw-workspace"

Raw = dict[str, object]


def translated(raw: Mapping[str, object], *, is_tinyclaw: bool) -> Raw:
    """The same settings as this version writes them; what it does not know is kept."""
    result = dict(raw)
    if is_tinyclaw:
        _old_workspace(result)
    _models(result)
    _sticky_agents(result)
    _default_agent(result, is_tinyclaw=is_tinyclaw)
    return result


def sticks_by_object(raw: Mapping[str, object]) -> bool:
    """True when chats stick to agents as the original writes it: this version takes it, but never writes it."""
    mended = dict(raw)
    _sticky_agents(mended)
    return mended != raw


def _old_workspace(raw: Raw) -> None:
    workspace = _object(raw, "workspace")
    if not workspace.get("path") and Path(_OLD_WORKSPACE).expanduser().is_dir():
        raw["workspace"] = {**workspace, "path": _OLD_WORKSPACE}


def _models(raw: Raw) -> None:
    models = _object(raw, "models")
    for maker in ("anthropic", "openai"):
        service = _object(models, maker)
        token = service.pop("auth_token", None)
        if isinstance(token, str) and token:
            models[maker] = {"api_key": token, **service}
    if not models.get("provider"):
        # As the original guessed: by which model there is.
        guess = next((name for name in ("openai", "opencode", "anthropic") if name in models), None)
        if guess is not None:
            models["provider"] = guess
    if models:
        raw["models"] = models


def _sticky_agents(raw: Raw) -> None:
    """Chats stick to an agent by its bare id; the original had an object around it, and before that another place."""
    channels = _object(raw, "channels")
    older = raw.pop("channel_defaults", None)
    found: Raw = dict(older) if isinstance(older, Mapping) else {}
    found.update(_object(channels, "defaults"))
    if not found:
        return
    for chat, agent in found.items():
        if isinstance(agent, Mapping):
            found[chat] = agent.get("agentId") or agent.get("agent_id")
    raw["channels"] = {**channels, "defaults": {chat: agent for chat, agent in found.items() if agent}}


def _default_agent(raw: Raw, *, is_tinyclaw: bool) -> None:
    agents = _object(raw, "agents")
    if is_tinyclaw and not agents:
        agents = {_OLD_DEFAULT: {"name": "Default"}}
        raw["agents"] = agents
    if not raw.get("default_agent") and _OLD_DEFAULT in agents and DEFAULT_AGENT not in agents:
        raw["default_agent"] = _OLD_DEFAULT


def _object(raw: Mapping[str, object], name: str) -> Raw:
    """A copy of what stands there, or an empty object."""
    found = raw.get(name)
    return dict(found) if isinstance(found, Mapping) else {}
