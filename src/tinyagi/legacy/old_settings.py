"""Old settings: translates them, drops with a reason what this version refuses, and fills in a new home's settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tinyagi.domain.ids import is_valid_id
from tinyagi.domain.routing import DEFAULT_AGENT
from tinyagi.legacy.plan import Skipped
from tinyagi.settings.errors import InvalidSettings
from tinyagi.settings.parse import parse_settings

Raw = dict[str, object]

_NAMED: Final = ("custom_providers", "agents", "teams")
"""Sections of named objects; each object is imported as a whole."""
_NO_ID: Final = "this is not an id; use up to 64 small letters, digits, - and _, a letter or digit first"

_OLD_DEFAULT: Final = "default"
"""TinyClaw's agent when none was configured, and for messages without a recipient."""
_MAKERS: Final = ("anthropic", "openai")
_OLD_WORKSPACE: Final = "~/tinyclaw-workspace"


class CompatibleSettings:
    """Old settings without the values that this version refuses."""

    def __init__(self, raw: Mapping[str, object]) -> None:
        self.raw: Raw = {}
        self.skipped: list[Skipped] = []
        for name, value in raw.items():
            if name in _NAMED:
                self.raw[name] = {}
            elif name != "default_agent":
                self._section(name, value)
        for name, thing in self._things(raw, "custom_providers"):
            self._keep_if_valid("custom_providers", name, thing)
        for name, agent in self._things(raw, "agents"):
            self._agent(name, agent)
        for name, team in self._things(raw, "teams"):
            self._team(name, team)
        self._provider()
        self._default_agent(raw.get("default_agent"))
        for name in _NAMED:
            if name not in raw:
                self.raw.pop(name, None)

    def _section(self, name: str, value: object) -> None:
        # The provider of `models` may be a custom one; those are read later.
        value = {**value} if isinstance(value, Mapping) else value
        provider = value.pop("provider", None) if name == "models" and isinstance(value, dict) else None
        if not self._problem({name: value}):
            kept: object = value
        elif isinstance(value, dict):
            kept = {part: self._leaf(name, part, one) for part, one in value.items() if self._fits(name, part, one)}
        else:
            self._skip(name, self._problem({name: value}))
            return
        if provider is not None and isinstance(kept, dict):
            kept["provider"] = provider
        self.raw[name] = kept

    def _fits(self, section: str, part: str, value: object) -> bool:
        problem = self._problem({section: {part: value}})
        if problem and not isinstance(value, Mapping):
            self._skip(f"{section}.{part}", problem)
        return not problem or isinstance(value, Mapping)

    def _leaf(self, section: str, part: str, value: object) -> object:
        """The value; of an object, only its valid values."""
        if not isinstance(value, Mapping) or not self._problem({section: {part: value}}):
            return value
        kept = {}
        for name, one in value.items():
            problem = self._problem({section: {part: {name: one}}})
            if problem:
                self._skip(f"{section}.{part}.{name}", problem)
            else:
                kept[name] = one
        return kept

    def _things(self, raw: Mapping[str, object], section: str) -> list[tuple[str, Raw]]:
        found = raw.get(section)
        if found is None:
            return []
        if not isinstance(found, Mapping):
            self._skip(section, "this is not an object")
            return []
        things = []
        for name, thing in found.items():
            if not is_valid_id(name):
                self._skip(f"{section}.{name}", _NO_ID)
            elif not isinstance(thing, Mapping):
                self._skip(f"{section}.{name}", "this is not an object")
            else:
                things.append((name, dict(thing)))
        return things

    def _keep_if_valid(self, section: str, name: str, thing: Raw) -> None:
        problem = self._problem({section: {name: thing}})
        if problem:
            self._skip(f"{section}.{name}", problem)
        else:
            self._of(section)[name] = thing

    def _agent(self, name: str, agent: Raw) -> None:
        """Keep the agent without the fields that this version refuses."""
        kept = {}
        for field, value in agent.items():
            problem = self._problem(
                {"custom_providers": self._of("custom_providers"), "agents": {name: {field: value}}}
            )
            if problem:
                self._skip(f"agents.{name}.{field}", problem)
            else:
                kept[field] = value
        if "provider" in agent and "provider" not in kept and kept.pop("model", None) is not None:
            self._skip(f"agents.{name}.model", "it belongs to the provider that is left out")
        self._of("agents")[name] = kept

    def _team(self, name: str, team: Raw) -> None:
        where = f"teams.{name}"
        agents = self._of("agents") or {DEFAULT_AGENT: {}}
        listed = team.get("agents")
        members = [member for member in listed if member in agents] if isinstance(listed, list) else []
        if not members:
            self._skip(where, "none of its members is an agent")
            return
        if isinstance(listed, list):
            for member in listed:
                if member not in agents:
                    self._skip(f"{where}.agents", f"there is no agent {member!r}")
        if team.get("leader_agent") not in members:
            self._skip(f"{where}.leader_agent", f"it is not a member; @{members[0]} leads instead")
            team["leader_agent"] = members[0]
        team["agents"] = members
        problem = self._problem({"agents": self._of("agents"), "teams": {name: team}, **self._customs()})
        if problem:
            self._skip(where, problem)
        else:
            self._of("teams")[name] = team

    def _provider(self) -> None:
        models = self.raw.get("models")
        if isinstance(models, dict) and "provider" in models:
            problem = self._problem({"models": {"provider": models["provider"]}, **self._customs()})
            if problem:
                self._skip("models.provider", problem)
                del models["provider"]

    def _default_agent(self, name: object) -> None:
        if name is None:
            return
        if name in (self._of("agents") or {DEFAULT_AGENT: {}}):
            self.raw["default_agent"] = name
        else:
            self._skip("default_agent", f"there is no agent {name!r}")

    def _customs(self) -> Raw:
        return {"custom_providers": self._of("custom_providers")}

    def _of(self, section: str) -> Raw:
        found = self.raw.setdefault(section, {})
        assert isinstance(found, dict)  # noqa: S101 - made here as one
        return found

    def _skip(self, name: str, reason: str) -> None:
        self.skipped.append(Skipped(name, reason))

    @staticmethod
    def _problem(raw: Mapping[str, object]) -> str:
        """Why this version refuses the value; empty when it accepts it."""
        try:
            parse_settings(raw)
        except InvalidSettings as error:
            # `Skipped` already has the dotted name.
            return "; ".join(problem.split(": ", 1)[-1] for problem in error.problems)
        return ""


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
