"""The page of commands names every command and option, and only those."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tinyagi.cli.main import app

PAGE = (Path(__file__).parents[2] / "docs/reference/commands.md").read_text()
EVERYWHERE = {"--help", "--install-completion", "--show-completion"}


def commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """The command, or the commands of the group; the root is both."""
    inner = getattr(command, "commands", {})
    if not inner or name == "tinyagi":
        yield name, command
    for part, one in inner.items():
        yield from commands(f"{name} {part}", one)


COMMANDS = dict(commands("tinyagi", typer.main.get_command(app)))
SECTIONS = dict(re.findall(r"^## (tinyagi[a-z -]*)\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL))


def test_every_command_has_a_section_and_every_section_a_command() -> None:
    assert set(SECTIONS) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_documented_and_every_documented_one_exists(name: str) -> None:
    options = [one for one in COMMANDS[name].params if one.param_type_name == "option" and not one.hidden]
    flags = {flag for option in options for flag in (*option.opts, *option.secondary_opts)} - EVERYWHERE
    documented = set(re.findall(r"`(--?[a-z][a-z-]*)", SECTIONS[name]))

    assert documented == flags


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_of_a_command_is_documented(name: str) -> None:
    arguments = [one.name.upper() for one in COMMANDS[name].params if one.param_type_name == "argument"]

    assert [argument for argument in arguments if f"`{argument}`" not in SECTIONS[name]] == []
