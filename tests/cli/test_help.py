"""Every command has help, and help is fast."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from tests.cli.conftest import Shell
from tinyagi.cli.main import app

HEAVY = (
    "anyio", "apsw", "asyncio", "deltalake", "fastapi", "httpx", "msgspec", "plotly", "pluggy", "psutil", "pyarrow",
    "pydantic", "pydantic_core", "pyspark", "starlette", "uvicorn",
)  # fmt: skip
PROGRAM = """
import sys
sys.argv = ["tinyagi", *{arguments!r}]
from tinyagi.cli.main import main
try:
    main()
except SystemExit:
    pass
print("\\nLOADED", *sorted({{name.partition(".")[0] for name in sys.modules}}))
"""
READS = {
    "agent list", "agent show", "agent provider", "team list", "team show", "team visualize", "chatroom",
    "setup", "provider show", "provider list", "provider check", "model",
    "pairing list", "pairing pending", "pairing approved", "schedule list",
    "queue status", "queue dead", "trace", "plugin list", "bench", "status", "logs", "version", "doctor", "demo",
    "pipeline run", "pipeline status", "pipeline tables", "pipeline query", "pipeline report", "pipeline verify",
    "pipeline replay", "backup list", "queue list", "settings get", "task list", "task show",
    "project list", "recall",
}  # fmt: skip
DESTROYS = {
    "agent remove": ("coder",),
    "team remove": ("dev",),
    "provider remove": ("local",),
    "channel reset": ("telegram",),
    "pairing unpair": ("telegram", "7"),
    "schedule remove": ("morning",),
    "queue delete": ("7",),
    "queue cancel": ("7",),
    "task remove": ("T-1",),
    "project remove": ("WEB",),
    "queue kill": ("7",),
    "pipeline backfill": (),
    "pipeline vacuum": ("--keep-hours", "0"),
    "pipeline detach": (),
    "pipeline forget": ("--sender", "Ada"),
}


def commands(group: Any = None, prefix: str = "") -> Iterator[tuple[str, Any]]:
    group = typer.main.get_command(app) if group is None else group
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


COMMANDS = dict(commands())


# Typer itself imports pydantic as soon as it parses arguments.
@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (["--help"], set()),
        (["agent", "--help"], {"pydantic", "pydantic_core"}),
        (["pipeline", "query", "--help"], {"pydantic", "pydantic_core"}),
    ],
)
def test_help_loads_nothing_heavy(arguments: list[str], allowed: set[str]) -> None:
    program = PROGRAM.format(arguments=arguments)
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    loaded = output.rpartition("LOADED")[2].split()
    assert "typer" in loaded
    assert set(loaded) & set(HEAVY) - allowed == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_an_example(name: str, shell: Shell) -> None:
    result = shell(*name.split(), "--help")

    assert result.exit_code == 0
    assert COMMANDS[name].help
    assert "Examples:" in result.stdout or name == "version"


def test_each_example_is_on_a_separate_line(shell: Shell) -> None:
    lines = [line.strip() for line in shell("queue", "list", "--help").stdout.splitlines()]

    begin = lines.index("Examples:")
    assert lines[begin + 1 : begin + 3] == ["tinyagi queue list", "tinyagi queue list --agent coder --json"]


@pytest.mark.parametrize("name", sorted(READS))
def test_every_read_prints_json(name: str) -> None:
    assert "--json" in [flag for option in COMMANDS[name].params for flag in option.opts]


@pytest.mark.parametrize("name", sorted(DESTROYS))
def test_a_destructive_command_needs_yes_without_a_terminal(name: str, shell: Shell) -> None:
    result = shell(*name.split(), *DESTROYS[name])

    assert result.exit_code == 2
    assert "There is no terminal for a prompt: add --yes." in result.stderr


def test_the_root_help_lists_every_command(shell: Shell) -> None:
    listed = shell("--help").stdout

    for name in {name.split()[0] for name in COMMANDS}:
        assert f"│ {name} " in listed


def test_an_unknown_command_is_a_usage_error(shell: Shell) -> None:
    assert shell("nonsense").exit_code == 2


def test_the_version_is_printed(shell: Shell) -> None:
    assert shell("version").stdout.strip() == shell.json("version")["version"]
    assert shell("--version").stdout == shell("version").stdout


@pytest.mark.parametrize("arguments", [(), ("queue",), ("queue", "dead")])
def test_h_is_short_for_help(shell: Shell, arguments: tuple[str, ...]) -> None:
    assert shell(*arguments, "-h").stdout == shell(*arguments, "--help").stdout
