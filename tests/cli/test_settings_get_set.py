"""Single settings on the command line, with a daemon and without."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Shell
from tests.cli.test_settings_commands import BACKENDS, shell_with, stored
from tinyagi.cli.settings import _effective
from tinyagi.settings.secrets import MASK

KEY = "sk-ant-a-long-secret-7777"


@BACKENDS
async def test_a_setting_is_set_shown_and_removed(backend: str, tmp_path: Path) -> None:
    async with shell_with(backend, tmp_path) as typed:
        changed = await typed("settings", "set", "queue.attempts", "8")

        assert (changed.exit_code, changed.stdout) == (0, "queue.attempts is now 8.\n")
        assert await stored(typed, "queue", "attempts") == 8
        assert (await typed("settings", "get", "queue.attempts")).stdout == "8\n"
        assert await typed.json("settings", "get", "queue.attempts") == 8
        assert (await typed("settings", "unset", "queue.attempts")).stdout == "Removed queue.attempts.\n"
        assert "attempts" not in await stored(typed, "queue")


@BACKENDS
async def test_a_setting_that_is_not_set_shows_its_default(backend: str, tmp_path: Path) -> None:
    async with shell_with(backend, tmp_path) as typed:
        shown = await typed("settings", "get", "agents.coder.timeout_seconds")
        port = await typed("settings", "get", "server.port")
        nothing = await typed("settings", "get", "agents.nobody.model")

    assert (shown.stdout, "this is the default" in shown.stderr) == ("1800.0\n", True)
    assert (port.stdout, "server.port is not set; this is the default." in port.stderr) == ("3777\n", True)
    assert (nothing.exit_code, "agents.nobody.model is not set." in nothing.stderr) == (1, True)


@BACKENDS
async def test_an_optional_setting_without_a_value_is_not_an_error(backend: str, tmp_path: Path) -> None:
    async with shell_with(backend, tmp_path) as typed:
        shown = await typed("settings", "get", "limits.daily_cost")
        rows = [line.split() for line in (await typed("settings", "get", "limits")).stdout.splitlines()]

        assert await typed.json("settings", "get", "limits.daily_cost") is None
    assert (shown.exit_code, shown.stdout, shown.stderr) == (0, "", "limits.daily_cost is not set.\n")
    assert ["limits.daily_cost", "not", "set"] in rows


@BACKENDS
@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("get", "queue.attemptss"), "queue.attemptss is not a setting. Did you mean queue.attempts?"),
        (("get", "agents.coder.zzz"), "agents.coder.zzz is not a setting. There are: name, provider, model, "),
        (("set", "limits.daily_costs", "5"), "limits.daily_costs is not a setting. Did you mean limits.daily_cost?"),
        (("set", "queue", '{"attemptss": 5}'), "queue.attemptss is not a setting. Did you mean queue.attempts?"),
        (("unset", "queue.attemptss"), "queue.attemptss is not a setting. Did you mean queue.attempts?"),
    ],
)
async def test_an_unknown_setting_is_a_usage_error(
    backend: str, command: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    async with shell_with(backend, tmp_path) as typed:
        before = typed.shell.settings
        refused = await typed("settings", *command)

        assert (refused.exit_code, sentence in refused.stderr, refused.stdout) == (2, True, "")
        assert typed.shell.settings == before


@BACKENDS
async def test_a_stored_unknown_setting_can_be_shown_and_removed(backend: str, tmp_path: Path) -> None:
    async with shell_with(backend, tmp_path, {"queue": {"attemptss": 5}}) as typed:
        shown = await typed("settings", "get", "queue.attemptss")
        removed = await typed("settings", "unset", "queue.attemptss")

        assert (shown.stdout, removed.stdout) == ("5\n", "Removed queue.attemptss.\n")
        assert "attemptss" not in await stored(typed, "queue")


@BACKENDS
async def test_a_section_is_shown_with_its_defaults(backend: str, tmp_path: Path) -> None:
    async with shell_with(backend, tmp_path, {"queue": {"attempts": 8}}) as typed:
        rows = [line.split() for line in (await typed("settings", "get", "queue")).stdout.splitlines()]

    assert ["queue.attempts", "8"] in rows
    assert ["queue.delivery_attempts", "10", "default"] in rows


@BACKENDS
async def test_every_stored_setting_is_listed(backend: str, tmp_path: Path) -> None:
    async with shell_with(backend, tmp_path) as typed:
        shown = (await typed("settings", "get")).stdout
        whole = await typed.json("settings", "get")

    assert "teams.dev.leader_agent" in shown
    assert "default" not in shown.split()
    assert whole["teams"]["dev"]["leader_agent"] == "coder"


@BACKENDS
async def test_a_secret_is_read_from_stdin_and_shown_masked(backend: str, tmp_path: Path) -> None:
    async with shell_with(backend, tmp_path) as typed:
        changed = await typed("settings", "set", "models.anthropic.api_key", "-", stdin=f"{KEY}\n")

        assert await stored(typed, "models", "anthropic", "api_key") == KEY
        shown = [
            changed.stdout,
            (await typed("settings", "get")).stdout,
            (await typed("settings", "get", "models.anthropic.api_key")).stdout,
            json.dumps(await typed.json("settings", "get")),
        ]

    assert "••••7777" in changed.stdout
    assert [text for text in shown if KEY in text] == []


@BACKENDS
async def test_an_invalid_value_changes_nothing(backend: str, tmp_path: Path) -> None:
    async with shell_with(backend, tmp_path) as typed:
        before = typed.shell.settings
        refused = await typed("settings", "set", "queue.attempts", "many")

        assert (refused.exit_code, "queue.attempts" in refused.stderr) == (1, True)
        assert typed.shell.settings == before


@BACKENDS
async def test_values_are_json_or_text(backend: str, tmp_path: Path) -> None:
    async with shell_with(backend, tmp_path) as typed:
        await typed("settings", "set", "agents.coder.name", "Ada Lovelace")
        await typed("settings", "set", "agents.writer.name", "42", "--text")
        await typed("settings", "set", "agents.coder.pass_environment", '["EDITOR"]')
        await typed("settings", "set", 'models.aliases."a name.with dots"', "opus")

        assert await stored(typed, "agents", "coder", "name") == "Ada Lovelace"
        assert await stored(typed, "agents", "writer", "name") == "42"
        assert await stored(typed, "agents", "coder", "pass_environment") == ["EDITOR"]
        assert await stored(typed, "models", "aliases", "a name.with dots") == "opus"
        assert 'models.aliases."a name.with dots"' in (await typed("settings", "get")).stdout


async def test_a_setting_that_needs_a_restart_is_reported(tmp_path: Path) -> None:
    async with shell_with("daemon", tmp_path) as typed:
        changed = await typed("settings", "set", "server.port", "4999")

    assert "Restart the daemon for server.port: tinyagi restart" in changed.stderr


@BACKENDS
async def test_a_whole_section_is_removed_only_on_confirmation(backend: str, tmp_path: Path) -> None:
    async with shell_with(backend, tmp_path, {"queue": {"attempts": 8}}) as typed:
        refused = await typed("settings", "unset", "queue")
        removed = await typed("settings", "unset", "queue", "--yes")
        again = await typed("settings", "unset", "queue", "--yes")

    assert (refused.exit_code, removed.exit_code, again.exit_code) == (2, 0, 1)
    assert "queue is not set" in again.stderr


@pytest.mark.parametrize("path", ["", ".", "a..b", 'a."b', "a."])
def test_a_malformed_setting_name_is_a_usage_error(shell: Shell, path: str) -> None:
    result = shell("settings", "set", path, "1")

    assert result.exit_code == 2
    assert "is not the name of a setting" in result.stderr


def test_null_is_not_a_value(shell: Shell) -> None:
    assert "tinyagi settings unset queue.attempts" in shell("settings", "set", "queue.attempts", "null").stderr


def test_a_masked_token_does_not_hide_the_defaults() -> None:
    stored = {"server": {"token": f"{MASK}dHUg"}, "queue": {"attempts": 8}}

    effective: Any = _effective(stored)

    assert effective["server"]["token"] == f"{MASK}dHUg"
    assert (effective["queue"]["attempts"], effective["queue"]["lease_seconds"]) == (8, 60.0)
