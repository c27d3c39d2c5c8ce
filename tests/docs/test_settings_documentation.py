"""The reference of the settings lists every setting with its default, and nothing else."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args, get_origin

from pydantic.fields import FieldInfo

from tinyagi.settings.environment import BOT_TOKEN_NAMES, DEFAULT_PORT, HOST_NAME, PORT_NAMES, TOKEN_NAME
from tinyagi.settings.model import Section, Settings

PAGE = (Path(__file__).parents[2] / "docs/reference/settings.md").read_text(encoding="utf-8")
PLACEHOLDERS = {"prices": "<model>"}


def settings_of(section: type[Section], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every dotted name below a section, with its default as the page writes it."""
    for name, field in section.model_fields.items():
        inner, dotted = section_of(field), f"{prefix}{name}"
        if inner is None or not inner.model_fields:
            yield dotted, default_of(field)
        elif get_origin(field.annotation) is Mapping:
            yield from settings_of(inner, f"{dotted}.{PLACEHOLDERS.get(name, '<id>')}.")
        else:
            yield from settings_of(inner, f"{dotted}.")


def section_of(field: FieldInfo) -> type[Section] | None:
    candidates = [field.annotation, *get_args(field.annotation)]
    return next((one for one in candidates if isinstance(one, type) and issubclass(one, Section)), None)


def default_of(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if isinstance(default, Section):
        default = default.model_dump()
    return "—" if default is None else f"`{json.dumps(default)}`"


def test_every_setting_is_documented_with_its_default_and_every_documented_one_exists() -> None:
    rows = re.findall(r"^\| `([a-z_.<>]+)` \| ([^|]+) \| .+ \|$", PAGE, re.MULTILINE)

    assert sorted(rows) == sorted(settings_of(Settings))


def test_every_choice_is_documented() -> None:
    for words in (("thread", "all", "none"), ("bypass", "default", "plan"), ("claude", "codex", "api")):
        assert any(all(f"`{word}`" in line for word in words) for line in PAGE.splitlines()), words


def test_every_variable_is_documented() -> None:
    for name in (*PORT_NAMES, *BOT_TOKEN_NAMES.values(), HOST_NAME, TOKEN_NAME, "TINYAGI_HOME"):
        assert f"`{name}`" in PAGE, name
    assert str(DEFAULT_PORT) in PAGE
