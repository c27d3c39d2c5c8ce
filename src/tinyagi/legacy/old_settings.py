"""Old settings: translates them, drops with a reason what this version refuses, and fills in a new home's settings."""

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Final

from tinyagi.domain.ids import is_valid_id
from tinyagi.domain.routing import DEFAULT_AGENT
from tinyagi.legacy.plan import Skipped
from tinyagi.settings.parse import find_problems

Raw = dict[str, object]

_NAMED: Final = ("custom_providers", "agents", "teams")
"""Sections of named objects; each object is imported as a whole."""
_NO_ID: Final = "this is not an id; use up to 64 lowercase letters, digits, - and _, a letter or digit first"

_OLD_DEFAULT: Final = "default"
"""TinyClaw's agent when none was configured, and for messages without a recipient."""
_MAKERS: Final = ("anthropic", "openai")
_OLD_WORKSPACE: Final = "~/tinyclaw-workspace"


class CompatibleSettings:
    """Old settings without the values that this version refuses."""

    def __init__(self, raw: Mapping[str, object]) -> None:
        self.raw: Raw = deepcopy(dict(raw))
        self.skipped: list[Skipped] = []
        self._drop_unusable()
        # Agents name custom providers, and teams name agents.
        self._drop_refused("custom_providers")
        self._drop_refused("agents")
        self._mend_teams()
        self._drop_refused(*self.raw)

    def _drop_unusable(self) -> None:
        """Drop named objects as a whole when the name is not an id or the value is not an object."""
        for section in _NAMED:
            for name, value in list(self._at(section).items()):
                if not is_valid_id(name):
                    self._drop((section, name), _NO_ID)
                elif not isinstance(value, dict):
                    self._drop((section, name), "this is not an object")

    def _drop_refused(self, *sections: str) -> None:
        refused: dict[tuple[str, ...], list[str]] = {}
        for problem in find_problems(self.raw):
            if problem.path[0] in sections:
                refused.setdefault(_droppable(problem.path), []).append(problem.sentence)
        for path, sentences in refused.items():
            self._drop(path, "; ".join(sentences))
        for path in refused:
            if path[0] == "agents" and path[2:] == ("provider",) and self._at(*path[:2]).pop("model", None) is not None:
                self._skip(f"agents.{path[1]}.model", "it belongs to the provider that is left out")

    def _mend_teams(self) -> None:
        """Drop members that are not agents. The first member leads a team whose leader is not a member."""
        agents = self._at("agents") or {DEFAULT_AGENT: {}}
        for name in list(self._at("teams")):
            team, where = self._at("teams", name), f"teams.{name}"
            listed = team.get("agents")
            listed = listed if isinstance(listed, list) else []
            members = [member for member in listed if isinstance(member, str) and member in agents]
            if not members:
                self._drop(("teams", name), "none of its members is an agent")
                continue
            for member in listed:
                if member not in members:
                    self._skip(f"{where}.agents", f"there is no agent {member!r}")
            if team.get("leader_agent") not in members:
                self._skip(f"{where}.leader_agent", f"it is not a member; @{members[0]} leads instead")
                team["leader_agent"] = members[0]
            team["agents"] = members

    def _drop(self, path: tuple[str, ...], reason: str) -> None:
        self._skip(".".join(path), reason)
        del self._at(*path[:-1])[path[-1]]

    def _skip(self, name: str, reason: str) -> None:
        self.skipped.append(Skipped(name, reason))

    def _at(self, *path: str) -> Raw:
        """The object at this path, or an empty one."""
        found: object = self.raw
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}


def _droppable(path: tuple[str | int, ...]) -> tuple[str, ...]:
    """The path of the value to drop: a whole list, provider or team, an agent's field, else up to three names deep."""
    depth = 2 if path[0] in {"custom_providers", "teams"} else 3
    return tuple(part for part in path[:depth] if isinstance(part, str))


def fill_missing(target: Mapping[str, object], old: Mapping[str, object]) -> tuple[Raw, list[str], list[str]]:
    """The target with its missing values filled in, the dotted names of those, and the names of differing values."""
    taken: list[str] = []
    conflicts: list[str] = []
    return _fill_missing(target, old, (), taken, conflicts), taken, conflicts


def _fill_missing(
    target: Mapping[str, object],
    old: Mapping[str, object],
    where: tuple[str, ...],
    taken: list[str],
    conflicts: list[str],
) -> Raw:
    result = dict(target)
    for name, value in old.items():
        path = (*where, name)
        stored = target.get(name)
        if _is_named_object(path):
            is_missing = name not in target
        elif _is_unset(value):
            result.setdefault(name, value)
            continue
        elif isinstance(value, Mapping) and (_is_unset(stored) or isinstance(stored, Mapping)):
            result[name] = _fill_missing(stored if isinstance(stored, Mapping) else {}, value, path, taken, conflicts)
            continue
        else:
            is_missing = _is_unset(stored)
        if is_missing:
            result[name] = value
            taken.append(".".join(path))
        elif stored != value:
            conflicts.append(".".join(path))
    return result


def _is_named_object(path: tuple[str, ...]) -> bool:
    return len(path) == 2 and path[0] in _NAMED


def _is_unset(value: object) -> bool:
    """The original's setup writes empty values for skipped questions; they count as not set."""
    return value is None or value in ("", [], {})


def translated(raw: Mapping[str, object], *, is_tinyclaw: bool) -> Raw:
    """The settings in this version's form; unknown names are kept."""
    result = dict(raw)
    if is_tinyclaw:
        _old_workspace(result)
    _models(result)
    _sticky_agents(result)
    _default_agent(result, is_tinyclaw=is_tinyclaw)
    return result


def is_of_original(raw: Mapping[str, object]) -> bool:
    """True for settings with a name or a shape that this version reads but never writes."""
    translated = dict(raw)
    _sticky_agents(translated)
    models = _object_in(raw, "models")
    return translated != raw or any("auth_token" in _object_in(models, maker) for maker in _MAKERS)


def _old_workspace(raw: Raw) -> None:
    workspace = _object_in(raw, "workspace")
    if not workspace.get("path") and Path(_OLD_WORKSPACE).expanduser().is_dir():
        raw["workspace"] = {**workspace, "path": _OLD_WORKSPACE}


def _models(raw: Raw) -> None:
    models = _object_in(raw, "models")
    for maker in _MAKERS:
        service = _object_in(models, maker)
        token = service.pop("auth_token", None)
        if isinstance(token, str) and token:
            models[maker] = {"api_key": token, **service}
    if not models.get("provider"):
        # The original guessed the provider by the configured model.
        guess = next((name for name in ("openai", "opencode", "anthropic") if name in models), None)
        if guess is not None:
            models["provider"] = guess
    if models:
        raw["models"] = models


def _sticky_agents(raw: Raw) -> None:
    """Store a chat's agent as a bare id; the original wrapped it in an object, and earlier kept it elsewhere."""
    channels = _object_in(raw, "channels")
    older = raw.pop("channel_defaults", None)
    found: Raw = dict(older) if isinstance(older, Mapping) else {}
    found.update(_object_in(channels, "defaults"))
    if not found:
        return
    for chat, agent in found.items():
        if isinstance(agent, Mapping):
            found[chat] = agent.get("agentId") or agent.get("agent_id")
    raw["channels"] = {**channels, "defaults": {chat: agent for chat, agent in found.items() if agent}}


def _default_agent(raw: Raw, *, is_tinyclaw: bool) -> None:
    agents = _object_in(raw, "agents")
    if is_tinyclaw and not agents:
        agents = {_OLD_DEFAULT: {"name": "Default"}}
        raw["agents"] = agents
    if not raw.get("default_agent") and _OLD_DEFAULT in agents and DEFAULT_AGENT not in agents:
        raw["default_agent"] = _OLD_DEFAULT


def _object_in(raw: Mapping[str, object], name: str) -> Raw:
    """A copy of the object under this name, or an empty one."""
    found = raw.get(name)
    return dict(found) if isinstance(found, Mapping) else {}
