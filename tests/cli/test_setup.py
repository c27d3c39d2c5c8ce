"""`tinyagi setup`: every provider, every answer as an option, and a real call to a model before anything is stored."""

import asyncio
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.cli.conftest import KEY, Remote, Shell
from tests.server.conftest import Premises
from tests.support.fake_llm import FakeLlm
from tinyagi.cli.main import app
from tinyagi.settings.home import Home

pytestmark = pytest.mark.usefixtures("machine_without_providers")


def agent(typed: Remote, name: str = "tinyagi") -> Any:
    return typed.shell.settings["agents"][name]


async def test_setup_of_a_new_home_shows_the_next_step(typed: Remote) -> None:
    result = await typed("setup")

    assert result.exit_code == 0, result.stderr
    assert "@tinyagi uses scripted answers, without a model." in result.stdout
    assert f"  tinyagi --home {typed.shell.home.path} start\n" in result.stdout
    assert agent(typed)["provider"] == "scripted"


async def test_hints_name_the_home_only_when_the_command_did(typed: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINYAGI_HOME", str(typed.shell.home.path))

    result = await asyncio.to_thread(CliRunner().invoke, app, ["setup"])

    assert result.exit_code == 0, result.stderr
    assert "  tinyagi start\n" in result.stdout
    assert "--home" not in result.stdout


async def test_a_home_in_a_hint_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    home = Home(tmp_path / "my home")

    result = await Remote(Shell(home))("setup", "--sample-team")

    words = shlex.split(result.stdout.splitlines()[-1])
    assert words == ["tinyagi", "--home", str(home.path), "send", "@crew build a paper plane", "--wait"]


async def test_an_endpoint_is_named_by_its_model_and_its_address(typed: Remote, llm: FakeLlm) -> None:
    llm.key, llm.models = None, ("fake-1",)

    first = await typed("setup", "--provider", "custom", "--base-url", f"{llm.url}/v1")
    second = await typed("setup", "--agent", "coder", "--provider", "scripted")

    assert f"@tinyagi uses fake-1 at {llm.url}/v1.\n" in first.stdout
    assert f"Messages without a recipient go to @tinyagi, which uses fake-1 at {llm.url}/v1.\n" in second.stdout


async def test_the_added_team_is_suggested(typed: Remote) -> None:
    await typed("setup", "--sample-team")

    result = await typed("setup", "--team", "dev", "--members", "tinyagi")

    assert "@dev build a paper plane" in result.stdout
    assert "@crew build a paper plane" not in result.stdout


@pytest.mark.parametrize(
    ("offer", "model", "asked"), [("anthropic", "sonnet", "claude-sonnet-5-5"), ("openai", "gpt", "gpt-6.1-sol")]
)
async def test_a_key_from_stdin_is_checked_with_a_real_call_and_stored(
    offer: str, model: str, asked: str, typed: Remote, llm: FakeLlm
) -> None:
    result = await typed("setup", "--provider", offer, "--api-key-stdin", stdin=f"{KEY}\n")

    assert result.exit_code == 0, result.stderr
    assert f"{asked} answered in" in result.stdout
    assert [one.model for one in llm.asked] == [asked]
    assert typed.shell.settings["models"] == {"provider": "api", offer: {"model": model, "api_key": KEY}}
    assert agent(typed) == {"name": "TinyAGI", "provider": "api", "model": model}
    assert KEY not in result.stdout + result.stderr


async def test_a_key_is_read_from_any_variable(typed: Remote, llm: FakeLlm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)

    assert (await typed("setup", "--provider", "anthropic", "--key-env", "MY_KEY")).exit_code == 0
    assert typed.shell.settings["models"]["anthropic"]["api_key"] == KEY


async def test_a_key_in_the_vendors_variable_is_used_and_not_stored(
    typed: Remote, llm: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    result = await typed("setup", "--yes")

    assert result.exit_code == 0, result.stderr
    assert agent(typed)["model"] == "gpt"
    assert KEY not in typed.shell.home.settings_file.read_text()


@pytest.mark.parametrize(
    ("options", "stdin", "sentence"),
    [
        (("--provider", "anthropic", "--api-key-stdin"), "sk-wrong-12345\n", "refused the key"),
        (("--provider", "openai", "--api-key-stdin", "-m", "nonsense"), f"{KEY}\n", "does not know the model nonsense"),
        (("--provider", "custom", "--base-url", "http://127.0.0.1:9", "-m", "m"), None, "cannot be reached"),
        (("--provider", "claude"), None, "Install it with `npm install -g @anthropic-ai/claude-code`. Nothing"),
    ],
)
async def test_a_failed_check_stores_nothing(
    options: tuple[str, ...], stdin: str | None, sentence: str, typed: Remote, llm: FakeLlm
) -> None:
    llm.models = ("claude-sonnet-5-5", "gpt-6.1-sol")
    await typed("setup")
    before = typed.shell.home.settings_file.read_bytes()

    result = await typed("setup", *options, stdin=stdin)

    assert result.exit_code == 1
    assert sentence in result.stderr
    assert "Nothing was changed; --no-check stores it anyway." in result.stderr
    assert typed.shell.home.settings_file.read_bytes() == before


async def test_an_unreachable_endpoint_is_named(typed: Remote) -> None:
    result = await typed("setup", "--provider", "custom", "--base-url", "http://127.0.0.1:9")

    assert result.exit_code == 1
    assert "http://127.0.0.1:9 cannot be reached" in result.stderr


async def test_an_unknown_model_is_refused_with_the_known_ones(typed: Remote, llm: FakeLlm) -> None:
    llm.models = ("alpha", "beta")
    endpoint = ("--provider", "custom", "--base-url", llm.url, "--api-key-stdin", "-m", "gamma")

    result = await typed("setup", *endpoint, stdin=f"{KEY}\n")

    assert "It has: alpha, beta." in result.stderr


async def test_no_check_stores_the_provider_without_a_call(typed: Remote) -> None:
    result = await typed("setup", "--provider", "claude", "--model", "opus", "--no-check")

    assert result.exit_code == 0, result.stderr
    assert agent(typed) == {"name": "TinyAGI", "provider": "anthropic", "model": "opus"}


async def test_an_installed_program_is_used_with_its_own_login(typed: Remote, machine_without_providers: Path) -> None:
    (machine_without_providers / "codex").write_text("#!/bin/sh\necho codex-cli 1.2.3\n")
    (machine_without_providers / "codex").chmod(0o700)

    result = await typed("setup", "--provider", "codex")

    assert "codex-cli 1.2.3 is installed and uses its own login" in result.stdout
    assert agent(typed) == {"name": "TinyAGI", "provider": "openai"}


async def test_ollama_uses_its_first_installed_model(typed: Remote, llm: FakeLlm) -> None:
    llm.key, llm.models = None, ("llama3.2:latest", "qwen3:8b")

    result = await typed("setup", "--provider", "ollama", "--base-url", f"{llm.url}/v1")

    assert result.exit_code == 0, result.stderr
    assert typed.shell.settings["custom_providers"] == {
        "ollama": {
            "name": "Ollama",
            "harness": "api",
            "base_url": f"{llm.url}/v1",
            "wire": "openai",
            "model": "llama3.2:latest",
        }
    }
    assert agent(typed)["provider"] == "custom:ollama"


async def test_a_missing_or_empty_ollama_is_reported_with_the_remedy(typed: Remote, llm: FakeLlm) -> None:
    llm.key = None
    away = await typed("setup", "--provider", "ollama", "--base-url", "http://127.0.0.1:9/v1")
    empty = await typed("setup", "--provider", "ollama", "--base-url", f"{llm.url}/v1")

    assert (away.exit_code, empty.exit_code) == (1, 1)
    assert "ollama serve" in away.stderr
    assert "ollama pull llama3.2" in empty.stderr


async def test_openrouter_and_custom_endpoints_are_custom_providers(typed: Remote, llm: FakeLlm) -> None:
    routed = ("--provider", "openrouter", "--base-url", f"{llm.url}/v1", "--api-key-stdin")
    assert (await typed("setup", *routed, stdin=f"{KEY}\n")).exit_code == 0
    own = ("--provider", "custom:lab", "--base-url", llm.url, "--wire", "anthropic", "--api-key-stdin", "-m", "mine")
    assert (await typed("setup", *own, stdin=f"{KEY}\n")).exit_code == 0

    assert typed.shell.settings["custom_providers"]["openrouter"]["model"] == "openrouter/auto"
    assert typed.shell.settings["custom_providers"]["lab"]["wire"] == "anthropic"
    assert [one.path for one in llm.seen if one.asked] == ["/v1/chat/completions", "/v1/messages"]
    assert agent(typed) == {"name": "TinyAGI", "provider": "custom:lab", "model": "mine"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--provider", "anthropic"), "anthropic needs a key: --key-env NAME"),
        (("--provider", "nonsense"), "'nonsense' is not one of claude, codex"),
        (("--provider", "custom", "-m", "m"), "--base-url is missing"),
        (("--provider", "claude", "--base-url", "http://x"), "has its own address"),
        (("--provider", "custom", "--base-url", "x:1", "-m", "m"), "--base-url: this is not an address"),
        (("--provider", "anthropic", "--key-env", "NOT_SET"), "the variable NOT_SET is empty or not set"),
        (("--agent", "Not An Id"), "is not an id"),
        (("--team", "dev"), "A team needs both"),
    ],
)
async def test_a_wrong_argument_is_a_usage_error(options: tuple[str, ...], sentence: str, typed: Remote) -> None:
    result = await typed("setup", *options)

    assert (result.exit_code, sentence in result.stderr) == (2, True), result.stderr


async def test_a_second_run_changes_only_the_given_options(typed: Remote, llm: FakeLlm) -> None:
    await typed("setup", "--provider", "anthropic", "--api-key-stdin", stdin=f"{KEY}\n")
    first = typed.shell.settings

    assert (await typed("setup")).exit_code == 0
    assert typed.shell.settings == first
    assert (await typed("setup", "--provider", "anthropic")).exit_code == 0
    assert typed.shell.settings == first
    assert (await typed("setup", "--model", "opus")).exit_code == 0

    changed = typed.shell.settings
    assert changed["models"] == {"provider": "api", "anthropic": {"model": "opus", "api_key": KEY}}
    assert changed["agents"] == {"tinyagi": {"name": "TinyAGI", "provider": "api", "model": "opus"}}


async def test_a_new_agent_and_team_use_the_connected_provider(typed: Remote, llm: FakeLlm) -> None:
    await typed("setup", "--provider", "openai", "--api-key-stdin", "--agent", "coder", stdin=f"{KEY}\n")
    result = await typed("setup", "--team", "dev", "--members", "tinyagi,coder,tester")

    assert result.exit_code == 0, result.stderr
    assert agent(typed, "coder") == {"name": "Coder", "provider": "api", "model": "gpt"}
    assert agent(typed, "tester")["name"] == "Tester"
    assert typed.shell.settings["teams"]["dev"]["leader_agent"] == "tinyagi"


async def test_the_first_agent_with_a_model_becomes_the_default_agent(typed: Remote, llm: FakeLlm) -> None:
    await typed("setup", "--provider", "openai", "--api-key-stdin", "--agent", "coder", stdin=f"{KEY}\n")
    await typed("setup", "--agent", "writer", "--model", "luna")

    assert typed.shell.settings["default_agent"] == "coder"


async def test_the_scripts_of_the_sample_team_are_never_overwritten(typed: Remote, tmp_path: Path) -> None:
    await typed("setup", "--sample-team")
    script = tmp_path / "tinyagi-workspace" / "lead" / "script.toml"
    script.write_text("# mine\n")
    result = await typed("setup", "--sample-team")

    assert "Team #crew: @lead, @maker, @checker; @lead leads." in result.stdout
    assert script.read_text() == "# mine\n"
    assert agent(typed, "maker") == {"name": "Maker", "provider": "scripted"}


async def test_an_existing_team_is_not_replaced_by_the_sample_team(typed: Remote) -> None:
    await typed("setup", "--team", "crew", "--members", "tinyagi")

    result = await typed("setup", "--sample-team")

    assert (result.exit_code, "already a team #crew" in result.stderr) == (2, True)
    assert typed.shell.settings["teams"]["crew"]["agents"] == ["tinyagi"]


async def test_a_running_daemon_uses_the_provider_at_once(premises: Premises, llm: FakeLlm) -> None:
    llm.key = None
    port = {**json.loads(premises.home.settings_file.read_text()), "server": {"port": premises.port}}
    premises.home.settings_file.write_text(json.dumps(port))
    typed = Remote(Shell(premises.home))

    result = await typed("setup", "--provider", "custom", "--base-url", llm.url, "-m", "m", "--agent", "coder")

    assert result.exit_code == 0, result.stderr
    assert " start\n" not in result.stdout
    assert premises.engine.settings.current.agents["coder"].provider == "custom:own"


async def test_setup_prints_its_result_as_json(typed: Remote) -> None:
    shown = await typed.json("setup", "--sample-team")

    assert (shown["provider"], shown["agent"], shown["teams"]) == (
        "scripted",
        "tinyagi",
        {"crew": ["lead", "maker", "checker"]},
    )


async def test_provider_check_reports_each_provider_with_its_agents(typed: Remote, llm: FakeLlm) -> None:
    endpoint = ("--provider", "custom:lab", "--base-url", llm.url, "--api-key-stdin", "-m", "mine")
    await typed("setup", *endpoint, "--agent", "coder", stdin=f"{KEY}\n")

    good = await typed.json("provider", "check")
    llm.key = "sk-another-key"
    bad = await typed("provider", "check", "lab")

    assert [(one["provider"], one["agents"], one["ok"]) for one in good] == [
        ("scripted", "@tinyagi", True),
        ("custom:lab", "@coder", True),
    ]
    assert bad.exit_code == 1
    assert "FAILS" in bad.stdout
    assert "refused the key" in bad.stdout


async def test_provider_check_accepts_the_names_of_setup(typed: Remote, llm: FakeLlm) -> None:
    llm.key, llm.models = None, ("llama3.2:latest",)
    unknown = await typed("provider", "check", "ollama")
    await typed("setup", "--provider", "ollama", "--base-url", f"{llm.url}/v1")

    (checked,) = await typed.json("provider", "check", "ollama")

    assert (checked["provider"], checked["ok"]) == ("custom:ollama", True)
    assert unknown.exit_code == 2
    assert "ollama is not connected yet. Connect it first: tinyagi setup --provider ollama" in unknown.stderr
