"""Turns the settings' JSON into typed settings, or into one sentence for each problem."""

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Final, NamedTuple, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from tinyagi.domain.ids import is_valid_id
from tinyagi.domain.routing import DEFAULT_AGENT
from tinyagi.domain.texts import one_line
from tinyagi.settings.errors import InvalidSettings
from tinyagi.settings.model import CUSTOM, PROVIDERS, AgentSettings, Harness, Section, Settings
from tinyagi.settings.secrets import is_secret, safe_repr

_SENTENCES: Final[Mapping[str, Callable[[str, Mapping[str, object]], str]]] = {
    "missing": lambda _, __: "is missing",
    "model_type": lambda value, _: f"{value} is not an object: use {{…}}",
    "dict_type": lambda value, _: f"{value} is not an object: use {{…}}",
    "tuple_type": lambda value, _: f"{value} is not a list: use […]",
    "string_type": lambda value, _: f"{value} is not text: put it in quotation marks",
    "string_unicode": lambda _, __: "holds half of a character (a lone surrogate)",
    "bool_type": lambda value, _: f"{value} is neither true nor false",
    "int_type": lambda value, _: f"{value} is not a whole number",
    "float_type": lambda value, _: f"{value} is not a number",
    "finite_number": lambda value, _: f"{value} is not a number",
    "greater_than": lambda value, limit: f"{value} is too small, it must be more than {limit['gt']:g}",
    "greater_than_equal": lambda value, limit: f"{value} is too small, the minimum is {limit['ge']:g}",
    "less_than_equal": lambda value, limit: f"{value} is too large, the maximum is {limit['le']:g}",
    "enum": lambda value, choice: f"{value} is not known; use {choice['expected']}",
    "literal_error": lambda value, choice: f"{value} is not known; use {choice['expected']}",
    "string_pattern_mismatch": lambda _, __: "this is not an address; use http(s)://host/path without a password",
}

_LEGACY: Final = frozenset({"pairing", "channel_defaults", "models.anthropic.auth_token", "models.openai.auth_token"})
"""Names that the original program wrote."""
_COMMENTS: Final = ("_", "$", "//")
"""Prefixes of names that people use for notes."""
_MOST: Final = 20


def parse_settings(raw: Mapping[str, object]) -> Settings:
    """Return the settings, with one default agent when none is configured; raise InvalidSettings with all problems."""
    problems: list[str] = []
    settings = Settings()
    try:
        settings = Settings.model_validate(raw)
    except ValidationError as error:
        problems += [_sentence(detail) for detail in error.errors()]
    problems += _reference_problems(raw)
    if problems:
        # Not chained: pydantic's error holds the values, and with them the secrets.
        raise InvalidSettings(problems)
    if settings.agents:
        return settings
    return settings.model_copy(update={"agents": {DEFAULT_AGENT: AgentSettings(name="TinyAGI")}})


def _sentence(detail: ErrorDetails) -> str:
    where = detail["loc"]
    name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).lstrip(".")
    phrase = _SENTENCES.get(detail["type"])
    named = [part for part in where if isinstance(part, str)]
    hidden = bool(named) and is_secret(named[-1])
    value = "this" if hidden else safe_repr(detail["input"])
    problem = detail["msg"] if phrase is None else phrase(value, detail.get("ctx", {}))
    return f"{name}: {problem}" if name else problem


def _reference_problems(raw: Mapping[str, object]) -> list[str]:
    """Return one sentence for each invalid id and each reference to something that does not exist."""
    return [*_ids(raw), *_default_agent(raw), *_providers(raw), *_wires(raw), *_teams(raw)]


def _ids(raw: Mapping[str, object]) -> Iterator[str]:
    for section in ("agents", "teams", "custom_providers"):
        for name in _object_at(raw, section):
            if not is_valid_id(name):
                yield (
                    f"{section}.{name}: {name!r} is not an id; use up to 64 lowercase letters, digits, - and _, "
                    "a letter or digit first"
                )
    for name in _object_at(raw, "teams"):
        if name in _agents(raw):
            yield f"teams.{name}: an agent has this id already; give the team another one"


def _default_agent(raw: Mapping[str, object]) -> Iterator[str]:
    name = raw.get("default_agent")
    if isinstance(name, str) and name not in _agents(raw):
        yield f"default_agent: there is no agent {safe_repr(name)}; use one of {_listed(_agents(raw))}"


def _providers(raw: Mapping[str, object]) -> Iterator[str]:
    named = {"models.provider": _object_at(raw, "models").get("provider")}
    for agent in _object_at(raw, "agents"):
        named[f"agents.{agent}.provider"] = _object_at(raw, "agents", agent).get("provider")
    custom = [f"{CUSTOM}{name}" for name in _object_at(raw, "custom_providers")]
    for where, provider in named.items():
        if not isinstance(provider, str) or provider in PROVIDERS or provider in custom:
            continue
        if provider.startswith(CUSTOM):
            yield f"{where}: {safe_repr(provider)} is not in custom_providers; add it there or use {_listed(PROVIDERS)}"
        else:
            yield f"{where}: {safe_repr(provider)} is not a provider; use {_listed([*PROVIDERS, *custom])}"


def _wires(raw: Mapping[str, object]) -> Iterator[str]:
    for name in _object_at(raw, "custom_providers"):
        provider = _object_at(raw, "custom_providers", name)
        if provider.get("wire") is not None and provider.get("harness") in (Harness.CLAUDE, Harness.CODEX):
            yield f"custom_providers.{name}.wire: only harness 'api' has a choice of wires; leave it out"


def _teams(raw: Mapping[str, object]) -> Iterator[str]:
    agents = _agents(raw)
    for name in _object_at(raw, "teams"):
        team = _object_at(raw, "teams", name)
        listed = team.get("agents")
        if not isinstance(listed, list):
            continue
        for member in listed:
            if isinstance(member, str) and member not in agents:
                yield f"teams.{name}.agents: there is no agent {safe_repr(member)}; use some of {_listed(agents)}"
        leader = team.get("leader_agent")
        if isinstance(leader, str) and leader not in listed:
            yield f"teams.{name}.leader_agent: {safe_repr(leader)} is not a member; use one of teams.{name}.agents"


def _agents(raw: Mapping[str, object]) -> Mapping[str, object]:
    return _object_at(raw, "agents") or {DEFAULT_AGENT: {}}


def _object_at(raw: Mapping[str, object], *path: str) -> Mapping[str, object]:
    """The object at this path, or an empty one; the type check reports a value that is not an object."""
    found: object = raw
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _listed(names: Mapping[str, object] | tuple[str, ...] | list[str]) -> str:
    return ", ".join(names)


class _Unknown(NamedTuple):
    name: str
    section: type[Section]
    prefix: str
    """The section's dotted name and a dot; empty at the top."""

    @property
    def dotted(self) -> str:
        return one_line(self.prefix + self.name, 120)

    @property
    def guess(self) -> str:
        near = get_close_matches(self.name.lower().replace("-", "_"), self.section.model_fields, n=1, cutoff=0.7)
        return f"Did you mean {self.prefix}{near[0]}?" if near else ""


def unknown_settings(raw: Mapping[str, object]) -> tuple[str, ...]:
    """Return one sentence for each setting that has no effect, with the likely name."""
    found = [f"{one.dotted} is not a setting and has no effect. {one.guess}".rstrip() for one in _unknown(raw)]
    more = len(found) - _MOST
    return (*found[:_MOST], f"{more} more settings are not known.") if more > 0 else tuple(found)


def unknown_name(patch: Mapping[str, object]) -> str | None:
    """Return a sentence about the first unknown name in a patch, with the likely name, or None."""
    first = next(_unknown(patch), None)
    if first is None:
        return None
    names = ", ".join(first.section.model_fields)
    return f"{first.dotted} is not a setting. {first.guess or f'There are: {names}.'}"


def _unknown(raw: Mapping[str, object], section: type[Section] = Settings, prefix: str = "") -> Iterator[_Unknown]:
    for name, value in raw.items():
        field, dotted = section.model_fields.get(name), f"{prefix}{name}"
        if field is None:
            if dotted not in _LEGACY and not name.startswith(_COMMENTS):
                yield _Unknown(name, section, prefix)
            continue
        inner = _section_of(field)
        # A section without declared fields accepts any name.
        if inner is None or not inner.model_fields or not isinstance(value, Mapping):
            continue
        if get_origin(field.annotation) is Mapping:
            for key, item in value.items():
                if isinstance(item, Mapping):
                    yield from _unknown(item, inner, f"{dotted}.{key}.")
        else:
            yield from _unknown(value, inner, f"{dotted}.")


def _section_of(field: FieldInfo) -> type[Section] | None:
    candidates = (field.annotation, *get_args(field.annotation))
    return next((one for one in candidates if isinstance(one, type) and issubclass(one, Section)), None)
