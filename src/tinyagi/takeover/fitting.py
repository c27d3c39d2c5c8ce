"""Keeps of old settings what this version takes, says why it leaves the rest, and fills a new home with it."""

from collections.abc import Mapping
from typing import Final

from tinyagi.domain.ids import is_valid_id
from tinyagi.settings.errors import InvalidSettings
from tinyagi.settings.model import DEFAULT_AGENT
from tinyagi.settings.parse import parse
from tinyagi.takeover.parts import Skipped

Raw = dict[str, object]

_THINGS: Final = ("custom_providers", "agents", "teams")
"""Sections of named things; each thing stays whole."""
_NO_ID: Final = "this is no id; ids have up to 64 small letters, digits, - and _, a letter or digit first"


class Fitting:
    """Old settings without what this version refuses."""

    def __init__(self, raw: Mapping[str, object]) -> None:
        self.raw: Raw = {}
        self.skipped: list[Skipped] = []
        for name, value in raw.items():
            if name in _THINGS:
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
        for name in _THINGS:
            if name not in raw:
                self.raw.pop(name, None)

    def _section(self, name: str, value: object) -> None:
        # The provider of `models` may be a custom one, which is known only later.
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
        """A value, or of an object those of its values that fit."""
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
            self._skip(section, "this is no object")
            return []
        things = []
        for name, thing in found.items():
            if not is_valid_id(name):
                self._skip(f"{section}.{name}", _NO_ID)
            elif not isinstance(thing, Mapping):
                self._skip(f"{section}.{name}", "this is no object")
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
        """An agent stays, without those of its fields that this version refuses."""
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
            self._skip(f"agents.{name}.model", "it is a model of the provider that is left out")
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
            self._skip(f"{where}.leader_agent", f"it names no member; @{members[0]} leads instead")
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
        """What this version says against it; empty when it takes it."""
        try:
            parse(raw)
        except InvalidSettings as error:
            # The dotted name is said by whoever skips.
            return "; ".join(problem.split(": ", 1)[-1] for problem in error.problems)
        return ""


def filled(target: Mapping[str, object], old: Mapping[str, object]) -> tuple[Raw, list[str], list[str]]:
    """The target with what it lacks, the dotted names of what it got, and of what both have and is not the same."""
    taken: list[str] = []
    conflicts: list[str] = []
    return _filled(target, old, (), taken, conflicts), taken, conflicts


def _filled(
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
        if _is_thing(path):
            is_missing = name not in target
        elif _is_nothing(value):
            result.setdefault(name, value)
            continue
        elif isinstance(value, Mapping) and (_is_nothing(stored) or isinstance(stored, Mapping)):
            result[name] = _filled(stored if isinstance(stored, Mapping) else {}, value, path, taken, conflicts)
            continue
        else:
            is_missing = _is_nothing(stored)
        if is_missing:
            result[name] = value
            taken.append(".".join(path))
        elif stored != value:
            conflicts.append(".".join(path))
    return result


def _is_thing(path: tuple[str, ...]) -> bool:
    return len(path) == 2 and path[0] in _THINGS


def _is_nothing(value: object) -> bool:
    """Set-up writes empty places for what was not asked for: they count as not set."""
    return value is None or value in ("", [], {})
