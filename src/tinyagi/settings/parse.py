"""From what JSON holds to typed settings, or to sentences that say everything that is wrong."""

from collections.abc import Callable, Mapping
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tinyagi.settings.errors import InvalidSettings
from tinyagi.settings.model import DEFAULT_AGENT, AgentSettings, Settings
from tinyagi.settings.references import reference_problems
from tinyagi.settings.secrets import is_secret, shown

_SENTENCES: Final[Mapping[str, Callable[[str, Mapping[str, object]], str]]] = {
    "missing": lambda _, __: "is missing",
    "model_type": lambda value, _: f"{value} is no object: use {{…}}",
    "dict_type": lambda value, _: f"{value} is no object: use {{…}}",
    "tuple_type": lambda value, _: f"{value} is no list: use […]",
    "string_type": lambda value, _: f"{value} is no text: put it in quotation marks",
    "string_unicode": lambda _, __: "holds half of a character (a lone surrogate)",
    "bool_type": lambda value, _: f"{value} is neither true nor false",
    "int_type": lambda value, _: f"{value} is no whole number",
    "float_type": lambda value, _: f"{value} is no number",
    "finite_number": lambda value, _: f"{value} is no number",
    "greater_than": lambda value, limit: f"{value} is too small, it must be more than {limit['gt']:g}",
    "greater_than_equal": lambda value, limit: f"{value} is too small, the least is {limit['ge']:g}",
    "less_than_equal": lambda value, limit: f"{value} is too large, the most is {limit['le']:g}",
    "enum": lambda value, choice: f"{value} is not known; use {choice['expected']}",
    "literal_error": lambda value, choice: f"{value} is not known; use {choice['expected']}",
    "string_pattern_mismatch": lambda _, __: "this is no address; use http(s)://host/path without a password",
}


def parse(raw: Mapping[str, object]) -> Settings:
    """Return the settings, with one default agent when none is configured; raise InvalidSettings with all problems."""
    problems: list[str] = []
    settings = Settings()
    try:
        settings = Settings.model_validate(raw)
    except ValidationError as error:
        problems += [_sentence(detail) for detail in error.errors()]
    problems += reference_problems(raw)
    if problems:
        # Not chained: pydantic's error holds the values, and with them the secrets.
        raise InvalidSettings(problems)
    if settings.agents:
        return settings
    return settings.model_copy(update={"agents": {DEFAULT_AGENT: AgentSettings(name="TinyAGI")}})


def _sentence(detail: ErrorDetails) -> str:
    where = detail["loc"]
    name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).lstrip(".")
    words = _SENTENCES.get(detail["type"])
    named = [part for part in where if isinstance(part, str)]
    hidden = bool(named) and is_secret(named[-1])
    value = "this" if hidden else shown(detail["input"])
    what = detail["msg"] if words is None else words(value, detail.get("ctx", {}))
    return f"{name}: {what}" if name else what
