"""`tinyagi setup` on a home that has agents and endpoints: it changes only the given options."""

import json
from typing import Any

import pytest

from tests.cli.conftest import KEY, Remote
from tests.support.fake_llm import FakeLlm

pytestmark = pytest.mark.usefixtures("machine_without_providers")

COMPANY: dict[str, Any] = {"models": {"provider": "anthropic"}, "agents": {"boss": {}, "dev": {}}}


def agent(typed: Remote, name: str) -> Any:
    return typed.shell.settings["agents"][name]


def store(typed: Remote, settings: dict[str, Any]) -> None:
    typed.shell.home.prepare()
    typed.shell.home.settings_file.write_text(json.dumps(settings))


async def test_a_provider_for_one_agent_leaves_the_others_unchanged(typed: Remote) -> None:
    store(typed, COMPANY)

    result = await typed("setup", "--agent", "newone", "--provider", "scripted")

    assert result.exit_code == 0, result.stderr
    newone = {"name": "Newone", "provider": "scripted"}
    assert typed.shell.settings == {**COMPANY, "agents": {"boss": {}, "dev": {}, "newone": newone}}
    assert "This also changed" not in result.stderr


async def test_a_model_for_one_agent_does_not_change_the_default(typed: Remote) -> None:
    lab = {"harness": "api", "base_url": "http://127.0.0.1:9", "wire": "openai", "model": "small"}
    store(typed, {**COMPANY, "custom_providers": {"lab": lab}})

    for name, offer in (("coder", "claude"), ("dev", "custom:lab")):
        named = await typed("setup", "--agent", name, "--provider", offer, "--model", "opus", "--no-check")
        assert named.exit_code == 0, named.stderr

    assert typed.shell.settings["models"] == {"provider": "anthropic"}
    assert typed.shell.settings["custom_providers"] == {"lab": lab}
    assert agent(typed, "coder") == {"name": "Coder", "provider": "anthropic", "model": "opus"}
    assert agent(typed, "dev") == {"provider": "custom:lab", "model": "opus"}


async def test_a_key_for_one_agent_keeps_the_vendor_of_the_others(typed: Remote, llm: FakeLlm) -> None:
    models = {"provider": "api", "anthropic": {"model": "opus", "api_key": KEY}}
    store(typed, {"models": models, "agents": {"boss": {}}})

    result = await typed("setup", "--agent", "dev", "--provider", "openai", "--api-key-stdin", stdin=f"{KEY}\n")

    assert result.exit_code == 0, result.stderr
    assert typed.shell.settings["models"] == {**models, "openai": {"api_key": KEY}}
    assert typed.shell.settings["agents"] == {
        "boss": {"model": "opus"},
        "dev": {"name": "Dev", "provider": "api", "model": "gpt"},
    }


async def test_other_affected_agents_are_named(typed: Remote, llm: FakeLlm) -> None:
    store(typed, COMPANY)
    default = await typed("setup", "--provider", "claude", "--model", "opus", "--no-check")
    key = ("--agent", "dev", "--provider", "anthropic", "--api-key-stdin")
    shared = await typed("setup", *key, stdin=f"{KEY}\n")

    assert "This also changed @dev" in default.stderr
    assert "This also changed @boss" in shared.stderr


async def test_the_first_connected_model_becomes_the_default(typed: Remote, llm: FakeLlm) -> None:
    await typed("setup", "--sample-team")
    await typed("setup", "--provider", "openai", "--api-key-stdin", "--agent", "coder", stdin=f"{KEY}\n")

    assert typed.shell.settings["models"]["provider"] == "api"
    assert typed.shell.settings["models"]["openai"]["model"] == "gpt"
    assert agent(typed, "lead")["provider"] == "scripted"


async def test_a_stored_endpoint_is_used_again(typed: Remote, llm: FakeLlm) -> None:
    own = {"harness": "api", "base_url": f"{llm.url}/v1", "wire": "anthropic", "model": "big", "api_key": KEY}
    store(typed, {**COMPANY, "custom_providers": {"own": own}})

    result = await typed("setup", "--agent", "coder", "--provider", "custom:own")

    assert result.exit_code == 0, result.stderr
    assert agent(typed, "coder") == {"name": "Coder", "provider": "custom:own", "model": "big"}
    assert typed.shell.settings["custom_providers"] == {"own": own}


async def test_a_stored_address_is_kept(typed: Remote, llm: FakeLlm) -> None:
    llm.key, llm.models = None, ("llama3.2:latest", "qwen3:8b")
    address = ("--base-url", f"{llm.url}/v1", "--model", "qwen3:8b")
    for options in (("ollama", *address), ("scripted",), ("ollama",)):
        assert (await typed("setup", "--provider", *options)).exit_code == 0

    stored = typed.shell.settings["custom_providers"]["ollama"]
    assert (stored["base_url"], stored["model"]) == (f"{llm.url}/v1", "qwen3:8b")
    assert agent(typed, "tinyagi") == {"name": "TinyAGI", "provider": "custom:ollama", "model": "qwen3:8b"}


async def test_an_endpoint_keeps_its_harness(typed: Remote) -> None:
    gate = {"harness": "claude", "base_url": "https://gate.example", "api_key": KEY}
    store(typed, {**COMPANY, "custom_providers": {"gate": gate}})

    result = await typed("setup", "--agent", "dev", "--provider", "custom:gate", "--no-check")

    assert result.exit_code == 0, result.stderr
    assert typed.shell.settings["custom_providers"] == {"gate": gate}
    assert agent(typed, "dev") == {"provider": "custom:gate"}


async def test_the_address_of_a_shared_endpoint_cannot_be_changed_for_one_agent(typed: Remote, llm: FakeLlm) -> None:
    lab = {"harness": "api", "base_url": "http://127.0.0.1:9", "model": "small"}
    store(typed, {**COMPANY, "agents": {"boss": {"provider": "custom:lab"}}, "custom_providers": {"lab": lab}})
    before = typed.shell.settings

    result = await typed("setup", "--agent", "dev", "--provider", "custom:lab", "--base-url", llm.url)

    assert result.exit_code == 2
    assert "custom:lab is at http://127.0.0.1:9 and is also used by @boss." in result.stderr
    assert typed.shell.settings == before


async def test_a_stored_key_is_not_sent_to_another_address(typed: Remote, llm: FakeLlm) -> None:
    lab = {"harness": "api", "base_url": "http://127.0.0.1:9", "model": "small", "api_key": KEY}
    store(typed, {"agents": {"boss": {"provider": "custom:lab"}}, "custom_providers": {"lab": lab}})

    result = await typed("setup", "--base-url", llm.url)

    assert result.exit_code == 1
    assert "Give a key: --key-env NAME or --api-key-stdin." in result.stderr
    assert [KEY in seen.headers.get("authorization", "") for seen in llm.seen] == [False]


async def test_a_refused_key_is_reported_with_its_source(
    typed: Remote, llm: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = await typed("setup", "--provider", "anthropic", "--api-key-stdin", stdin="sk-wrong-12345\n")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-wrong-12345")
    found = await typed("setup", "--provider", "anthropic")
    await typed("setup", "--provider", "anthropic", "--api-key-stdin", "--no-check", stdin="sk-wrong-12345\n")
    stored = await typed("setup", "--provider", "anthropic")

    assert "refused the key (401: wrong key). Nothing was changed" in given.stderr
    assert "refused the key (401: wrong key). Check ANTHROPIC_API_KEY. Nothing was changed" in found.stderr
    assert "in settings.json. Nothing was changed" in stored.stderr
