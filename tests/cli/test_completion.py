"""The shell completes commands and names, without a daemon."""

import json

import pytest
from typer.testing import CliRunner

from tests.cli.conftest import CLEAN, Shell
from tinyagi.cli.main import app

SETTINGS: dict[str, object] = {
    "agents": {"coder": {}, "clerk": {}},
    "teams": {"core": {}},
    "custom_providers": {"local": {}},
}


def complete(shell: Shell, *words: str) -> set[str]:
    line = ["tinyagi", "--home", str(shell.home.path), *words]
    environment = {
        **CLEAN,
        "_TINYAGI_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(line),
        "COMP_CWORD": str(len(line) - 1),
    }
    return set(CliRunner().invoke(app, prog_name="tinyagi", env=environment).stdout.split())


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("agent", "re"), {"remove", "reset"}),
        (("agent", "show", "c"), {"coder", "clerk"}),
        (("team", "show", "c"), {"core"}),
        (("send", "--agent", "co"), {"coder", "core"}),
        (("provider", "remove", "l"), {"local"}),
    ],
)
def test_names_are_completed_from_the_settings(shell: Shell, words: tuple[str, ...], found: set[str]) -> None:
    shell.home.prepare()
    shell.home.settings_file.write_text(json.dumps(SETTINGS))

    assert complete(shell, *words) == found


@pytest.mark.parametrize("content", [None, "{", "[]", '{"agents": 3}'])
def test_completion_ignores_broken_settings(shell: Shell, content: str | None) -> None:
    if content is not None:
        shell.home.prepare()
        shell.home.settings_file.write_text(content)

    assert complete(shell, "agent", "show", "c") == set()
