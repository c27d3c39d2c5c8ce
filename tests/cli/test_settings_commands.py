"""Agents, teams and providers are set up the same way with a daemon and before the first start."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Remote, Shell
from tests.server.conftest import Premises
from tinyagi.cli.context import Installation
from tinyagi.cli.settings_backend import open_backend
from tinyagi.settings.home import Home

BACKENDS = pytest.mark.parametrize("backend", ["file", "daemon"])
SETTINGS: Mapping[str, Any] = {
    "models": {"provider": "scripted"},
    "agents": {name: {"name": name.title(), "provider": "scripted"} for name in ("coder", "writer", "tester")},
    "teams": {"dev": {"name": "Dev", "agents": ["coder", "writer"], "leader_agent": "coder"}},
}


@asynccontextmanager
async def shell_with(backend: str, folder: Path, changed: Mapping[str, Any] = {}) -> AsyncIterator[Remote]:
    """A shell on these settings: `file` is without a daemon, `daemon` with one."""
    if backend == "file":
        home = Home(folder / "home")
        home.prepare()
        home.settings_file.write_text(json.dumps({**SETTINGS, **changed}))
        yield Remote(Shell(home))
        return
    premises = Premises(folder)
    premises.settings |= {**SETTINGS, **changed}
    async with premises.serve():
        yield Remote(Shell(premises.home, str(premises.http.base_url)))


async def stored(typed: Remote, *path: str) -> Any:
    found: Any = typed.shell.settings
    for name in path:
        found = found[name]
    return found


@BACKENDS
async def test_an_agent_is_added_shown_and_listed(backend: str, tmp_path: Path) -> None:
    async with shell_with(backend, tmp_path) as typed:
        result = await typed("agent", "add", "clerk", "--model", "opus", "--prompt", "Be kind.")

        assert result.exit_code == 0, result.stderr
        added = {"name": "Clerk", "provider": "scripted", "model": "opus", "system_prompt": "Be kind."}
        assert await stored(typed, "agents", "clerk") == added
        shown = await typed.json("agent", "show", "clerk")
        assert Path(shown.pop("working_directory")).name == "clerk"
        assert shown == {"id": "clerk", **added, "teams": []}
        assert list(await typed.json("agent", "list")) == ["coder", "writer", "tester", "clerk"]
        assert "@clerk" in (await typed("agent", "list")).stdout


@BACKENDS
async def test_settings_of_any_shape_are_shown(backend: str, tmp_path: Path) -> None:
    agent = {**SETTINGS["agents"]["coder"], "heartbeat": {"interval": 60}, "pass_environment": ["A"]}
    async with shell_with(backend, tmp_path, {"agents": {"coder": agent}, "teams": {}}) as typed:
        shown = (await typed("agent", "show", "coder")).stdout

        assert '{"interval": 60}' in shown
        assert '["A"]' in shown


@BACKENDS
async def test_an_edit_warns_about_a_misspelt_setting(backend: str, tmp_path: Path) -> None:
    async with shell_with(backend, tmp_path, {"limits": {"daily_costs": 5}}) as typed:
        changed = await typed("provider", "set", "openai")

        assert changed.exit_code == 0
        assert "Did you mean limits.daily_cost?" in changed.stderr


@BACKENDS
async def test_an_agent_gets_another_provider(backend: str, tmp_path: Path) -> None:
    async with shell_with(backend, tmp_path) as typed:
        await typed("agent", "provider", "coder", "openai", "-m", "gpt")

        expected = {"agent": "coder", "provider": "openai", "model": "gpt"}
        assert await typed.json("agent", "provider", "coder") == expected
        assert (await stored(typed, "agents", "coder"))["name"] == "Coder"


@BACKENDS
@pytest.mark.parametrize(
    ("name", "provider"),
    [("claude", "anthropic"), ("codex", "openai"), ("ollama", "custom:ollama"), ("lab", "custom:lab"), ("api", "api")],
)
async def test_providers_accept_the_names_of_setup(backend: str, name: str, provider: str, tmp_path: Path) -> None:
    custom = {one: {"harness": "api", "base_url": "http://127.0.0.1:9", "model": "m"} for one in ("ollama", "lab")}
    async with shell_with(backend, tmp_path, {"custom_providers": custom}) as typed:
        for command in (("agent", "provider", "coder", name), ("agent", "add", "new", "-p", name)):
            result = await typed(*command)
            assert result.exit_code == 0, result.stderr
        await typed("provider", "set", name)

        assert (await stored(typed, "agents", "coder"))["provider"] == provider
        assert (await stored(typed, "agents", "new"))["provider"] == provider
        assert await stored(typed, "models", "provider") == provider


async def test_a_key_is_stored_for_a_provider_named_as_in_setup(tmp_path: Path) -> None:
    async with shell_with("file", tmp_path) as typed:
        result = await typed("provider", "set", "claude", "--model", "opus", "--api-key", "sk-ant-0123456789")

        assert result.exit_code == 0, result.stderr
        assert await stored(typed, "models", "anthropic") == {"api_key": "sk-ant-0123456789", "model": "opus"}


@BACKENDS
async def test_a_missing_provider_program_is_a_warning(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shell_with(backend, tmp_path) as typed:
        monkeypatch.setenv("PATH", str(tmp_path))

        added = await typed("agent", "add", "clerk", "--provider", "anthropic")
        changed = await typed("agent", "provider", "coder", "openai")

        assert "The program claude is not on the PATH. Install it: npm install" in added.stderr
        assert "The program codex is not on the PATH." in changed.stderr
        assert "tinyagi setup --agent coder" in changed.stderr


@BACKENDS
async def test_a_model_unknown_to_the_new_provider_is_dropped_with_a_note(backend: str, tmp_path: Path) -> None:
    async with shell_with(backend, tmp_path) as typed:
        await typed("agent", "provider", "coder", "anthropic", "-m", "sonnet")

        changed = await typed("agent", "provider", "coder", "scripted")

        assert changed.stdout == "@coder: scripted, no model\n"
        assert "scripted does not know the model sonnet" in changed.stderr
        assert await stored(typed, "agents", "coder") == {"name": "Coder", "provider": "scripted"}


@BACKENDS
@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("agent", "add", "coder"), "There is already an agent 'coder'."),
        (("agent", "add", "Not An Id"), "is not an id"),
        (("agent", "add", "new", "--provider", "nobody"), "'nobody' is not a provider"),
        (("agent", "show", "nobody"), "There are: coder, writer, tester."),
        (("agent", "provider", "nobody", "openai"), "There is no agent 'nobody'."),
        (("team", "add", "coder", "--agents", "writer"), "There is an agent 'coder'"),
        (("team", "add", "dev", "--agents", "writer"), "There is already a team 'dev'."),
        (("team", "add", "new", "--agents", "nobody"), "nobody"),
        (("team", "add", "new", "--agents", "coder", "--leader", "tester"), "'tester' is not one of coder"),
        (("team", "show", "nobody"), "There are: dev."),
        (("team", "remove", "nobody", "--yes"), "There is no team 'nobody'."),
        (("team", "remove-agent", "dev", "tester"), "@tester is not in #dev"),
        (("provider", "set", "nobody"), "'nobody' is not a provider; use claude or anthropic, codex or openai"),
        (("agent", "provider", "coder", "ollama"), "Connect it first: tinyagi setup --provider ollama"),
        (("agent", "add", "new", "-p", "custom:lab"), "tinyagi setup --provider custom:lab --base-url URL"),
        (("provider", "remove", "nobody", "--yes"), "There is no provider 'nobody'."),
        (("provider", "add", "new", "--url", "not a url"), "base_url"),
        (("channel", "reset", "pigeon", "--yes"), "'pigeon' is not one of discord, telegram, webhook, whatsapp"),
    ],
)
async def test_a_refused_command_changes_nothing(
    backend: str, command: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    async with shell_with(backend, tmp_path) as typed:
        before = typed.shell.settings
        result = await typed(*command)

        assert result.exit_code in {1, 2}
        assert sentence in result.stderr
        assert "Traceback" not in result.stderr
        assert typed.shell.settings == before


@BACKENDS
async def test_a_team_is_added_and_changed(backend: str, tmp_path: Path) -> None:
    async with shell_with(backend, tmp_path) as typed:
        added = await typed("team", "add", "ops", "--agents", "@tester, writer")
        assert added.exit_code == 0, added.stderr
        await typed("team", "add-agent", "ops", "coder", "--leader")
        await typed("team", "remove-agent", "ops", "tester")

        assert await typed.json("team", "show", "ops") == {
            "id": "ops", "name": "Ops", "agents": ["writer", "coder"], "leader_agent": "coder",
        }  # fmt: skip
        await typed("team", "remove-agent", "ops", "coder")
        assert (await stored(typed, "teams", "ops"))["leader_agent"] == "writer"
        assert "last member" in (await typed("team", "remove-agent", "ops", "writer")).stderr
        assert (await typed("team", "remove", "ops", "--yes")).exit_code == 0
        assert list(await typed.json("team", "list")) == ["dev"]


@BACKENDS
async def test_teams_are_drawn(backend: str, tmp_path: Path) -> None:
    async with shell_with(backend, tmp_path) as typed:
        drawn = (await typed("team", "visualize")).stdout

        assert drawn.splitlines()[:3] == ["#dev  Dev", "└── @coder  scripted  leads", "    └── @writer  scripted"]


@BACKENDS
async def test_the_default_provider_and_model_are_changed(backend: str, tmp_path: Path) -> None:
    async with shell_with(backend, tmp_path) as typed:
        assert "no models" in (await typed("model", "opus")).stderr
        await typed("provider", "set", "anthropic", "--model", "opus", "--api-key", "sk-ant-0123456789")
        assert await typed.json("provider", "show") == {"provider": "anthropic", "model": "opus"}
        await typed("model", "haiku")

        assert await typed.json("model") == {"provider": "anthropic", "model": "haiku"}
        assert (await stored(typed, "models", "anthropic"))["api_key"] == "sk-ant-0123456789"


@BACKENDS
async def test_a_providers_key_is_never_shown(backend: str, tmp_path: Path) -> None:
    async with shell_with(backend, tmp_path) as typed:
        result = await typed(
            "provider", "add", "local", "--url", "http://localhost/v1", "--key", "-", stdin="sk-0123456789\n"
        )
        assert result.exit_code == 0, result.stderr
        assert (await stored(typed, "custom_providers", "local"))["api_key"] == "sk-0123456789"
        assert "0123456" not in (await typed("provider", "list", "--json")).output
        await typed("provider", "set", "custom:local")

        used = await typed("provider", "remove", "local", "--yes")
        assert "still used by models.provider" in used.stderr
        await typed("provider", "set", "scripted")
        assert (await typed("provider", "remove", "custom:local", "--yes")).exit_code == 0


@BACKENDS
async def test_the_stored_settings_of_a_channel_are_removed(backend: str, tmp_path: Path) -> None:
    channels = {"enabled": ["telegram"], "telegram": {"bot_token": "123:abcdefghijkl"}}
    async with shell_with(backend, tmp_path, {"channels": channels}) as typed:
        await typed("channel", "reset", "telegram", "--yes")
        assert await stored(typed, "channels") == {"enabled": []}


@pytest.mark.parametrize("command", [("agent", "list"), ("team", "list"), ("provider", "list"), ("model",)])
def test_reading_a_new_home_creates_no_files(shell: Shell, command: tuple[str, ...]) -> None:
    assert shell(*command).exit_code == 0
    assert not shell.home.path.exists()


def test_the_first_edit_adds_the_first_run_settings(shell: Shell) -> None:
    result = shell("agent", "add", "coder", "--provider", "scripted")

    assert "First run:" in result.stderr
    assert list(shell.settings["agents"]) == ["tinyagi", "coder"]


def test_broken_settings_are_reported_and_kept(shell: Shell) -> None:
    shell.home.prepare()
    shell.home.settings_file.write_text("{")

    result = shell("agent", "add", "coder")

    assert result.exit_code == 1
    assert "line 1, column 2" in result.stderr
    assert shell.home.settings_file.read_text() == "{"


async def test_removing_an_agent_names_the_new_team_leader(remote: Remote) -> None:
    result = await remote("agent", "remove", "coder", "--yes")

    assert result.exit_code == 0, result.stderr
    assert "@writer leads #dev now." in result.stderr
    assert list(await remote.json("agent", "list")) == ["writer", "tester"]


async def test_agents_are_reset_one_after_the_other(remote: Remote, premises: Premises) -> None:
    result = await remote("agent", "reset", "@coder", "writer")

    assert result.exit_code == 0
    assert [event.agent for event in await premises.events("session_reset")] == ["coder", "writer"]


async def test_concurrent_edits_are_all_kept(tmp_path: Path) -> None:
    async with shell_with("file", tmp_path) as typed:
        names = [f"agent{number}" for number in range(4)]
        processes = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tinyagi", "--home", str(typed.shell.home.path), "agent", "add", name,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
            )
            for name in names
        ]  # fmt: skip
        assert [await process.wait() for process in processes] == [0] * len(names)

        assert set(names) < set(typed.shell.settings["agents"])


@BACKENDS
async def test_a_provider_with_a_new_address_loses_its_key_with_a_note(
    backend: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    local = {"harness": "api", "base_url": "http://localhost:8000/v1", "api_key": "sk-local-0123456789"}
    async with shell_with(backend, tmp_path, {"custom_providers": {"local": local}}) as typed:
        async with open_backend(Installation(typed.shell.home.path, typed.shell.url)) as opened:
            await opened.update({"custom_providers": {"local": {"base_url": "http://elsewhere.example/v1"}}})

        assert "api_key" not in await stored(typed, "custom_providers", "local")
        assert "custom:local" in capsys.readouterr().err


@BACKENDS
async def test_an_agent_cannot_use_a_system_path(backend: str, tmp_path: Path) -> None:
    async with shell_with(backend, tmp_path) as typed:
        for option in ("--directory", "--prompt-file"):
            refused = await typed("agent", "add", "spy", option, "/etc/passwd")

            assert refused.exit_code != 0
            assert "/etc/passwd" in refused.stderr
        assert "spy" not in await stored(typed, "agents")


@BACKENDS
async def test_an_agent_is_added_with_api_access(backend: str, tmp_path: Path) -> None:
    async with shell_with(backend, tmp_path) as typed:
        assert (await typed("agent", "add", "boss", "--api-access", "all")).exit_code == 0
        refused = await typed("agent", "add", "clerk", "--api-access", "some")

        assert (await stored(typed, "agents", "boss"))["api_access"] == "all"
        assert refused.exit_code != 0
        assert "agents.clerk.api_access" in refused.stderr
        assert "clerk" not in await stored(typed, "agents")
