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
from tinyagi.settings.json_tree import object_at
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


class Problem(NamedTuple):
    """One reason why settings are not valid."""

    path: tuple[str | int, ...]
    """Names of the objects around the value and its own name; a number is an index in a list."""
    sentence: str

    def __str__(self) -> str:
        name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path).lstrip(".")
        return f"{name}: {self.sentence}" if name else self.sentence


def parse_settings(raw: Mapping[str, object]) -> Settings:
    """Return the settings, with one default agent when none is configured; raise InvalidSettings with all problems."""
    settings, problems = _parsed(raw)
    if problems:
        raise InvalidSettings([str(problem) for problem in problems])
    if settings.agents:
        return settings
    return settings.model_copy(update={"agents": {DEFAULT_AGENT: AgentSettings(name="TinyAGI")}})


def find_problems(raw: Mapping[str, object]) -> list[Problem]:
    """Return every problem that `parse_settings` would raise."""
    return _parsed(raw)[1]


def _parsed(raw: Mapping[str, object]) -> tuple[Settings, list[Problem]]:
    settings = Settings()
    problems: list[Problem] = []
    try:
        settings = Settings.model_validate(raw)
    except ValidationError as error:
        # The error itself is not kept: it holds the values, and with them the secrets.
        problems += [_type_problem(detail) for detail in error.errors()]
    return settings, [*problems, *_ids(raw), *_default_agent(raw), *_providers(raw), *_wires(raw), *_teams(raw)]


def _type_problem(detail: ErrorDetails) -> Problem:
    path = detail["loc"]
    phrase = _SENTENCES.get(detail["type"])
    named = [part for part in path if isinstance(part, str)]
    hidden = bool(named) and is_secret(named[-1])
    value = "this" if hidden else safe_repr(detail["input"])
    return Problem(path, detail["msg"] if phrase is None else phrase(value, detail.get("ctx", {})))


def _ids(raw: Mapping[str, object]) -> Iterator[Problem]:
    for section in ("agents", "teams", "custom_providers"):
        for name in object_at(raw, section):
            if not is_valid_id(name):
                yield Problem(
                    (section, name),
                    f"{name!r} is not an id; use up to 64 lowercase letters, digits, - and _, a letter or digit first",
                )
    for name in object_at(raw, "teams"):
        if name in _agents(raw):
            yield Problem(("teams", name), "an agent has this id already; give the team another one")


def _default_agent(raw: Mapping[str, object]) -> Iterator[Problem]:
    name = raw.get("default_agent")
    if isinstance(name, str) and name not in _agents(raw):
        agents = _listed(_agents(raw))
        yield Problem(("default_agent",), f"there is no agent {safe_repr(name)}; use one of {agents}")


def _providers(raw: Mapping[str, object]) -> Iterator[Problem]:
    custom = [f"{CUSTOM}{name}" for name in object_at(raw, "custom_providers")]
    for path in (("models",), *(("agents", agent) for agent in object_at(raw, "agents"))):
        provider = object_at(raw, *path).get("provider")
        if not isinstance(provider, str) or provider in PROVIDERS or provider in custom:
            continue
        if provider.startswith(CUSTOM):
            problem = f"is not in custom_providers; add it there or use {_listed(PROVIDERS)}"
        else:
            problem = f"is not a provider; use {_listed([*PROVIDERS, *custom])}"
        yield Problem((*path, "provider"), f"{safe_repr(provider)} {problem}")


def _wires(raw: Mapping[str, object]) -> Iterator[Problem]:
    for name in object_at(raw, "custom_providers"):
        provider = object_at(raw, "custom_providers", name)
        if provider.get("wire") is not None and provider.get("harness") in (Harness.CLAUDE, Harness.CODEX):
            yield Problem(("custom_providers", name, "wire"), "only harness 'api' has a choice of wires; leave it out")


def _teams(raw: Mapping[str, object]) -> Iterator[Problem]:
    agents = _agents(raw)
    for name in object_at(raw, "teams"):
        team = object_at(raw, "teams", name)
        listed = team.get("agents")
        if not isinstance(listed, list):
            continue
        for member in listed:
            if isinstance(member, str) and member not in agents:
                sentence = f"there is no agent {safe_repr(member)}; use some of {_listed(agents)}"
                yield Problem(("teams", name, "agents"), sentence)
        leader = team.get("leader_agent")
        if isinstance(leader, str) and leader not in listed:
            sentence = f"{safe_repr(leader)} is not a member; use one of teams.{name}.agents"
            yield Problem(("teams", name, "leader_agent"), sentence)


def _agents(raw: Mapping[str, object]) -> Mapping[str, object]:
    return object_at(raw, "agents") or {DEFAULT_AGENT: {}}


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
