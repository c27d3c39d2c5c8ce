"""The settings of one run of an agent."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import Batching
from tinyagi.domain.runs import Endpoint, Permissions, RunLimits, SessionScope, Wire
from tinyagi.settings.agent_setup import AgentSetup, NotConfigured, agent_setup
from tinyagi.settings.home import Home
from tinyagi.settings.model import WhileRunning
from tinyagi.settings.parse import parse_settings

HOME = Home(Path("/h"))
CUSTOM: dict[str, object] = {"base_url": "https://glm.example/v1", "api_key": "g", "model": "glm-5"}


def setup(agent: Mapping[str, object] | None = None, **sections: object) -> AgentSetup:
    raw = {"workspace": {"path": "/srv/agents"}, "agents": {"coder": agent or {}}, **sections}
    return agent_setup(parse_settings(raw), AgentId("coder"), HOME)


def test_an_agent_without_settings_has_the_defaults() -> None:
    assert setup() == AgentSetup(
        id=AgentId("coder"),
        name="coder",
        provider="anthropic",
        adapter="anthropic",
        model="sonnet",
        endpoint=Endpoint(),
        workspace=Path("/srv/agents/coder"),
        limits=RunLimits(),
        permissions=Permissions.BYPASS,
        batching=Batching.THREAD,
        while_running=WhileRunning.QUEUE,
        session_scope=SessionScope.AGENT,
        system_prompt=None,
        prompt_file=None,
        pass_environment=(),
    )


def test_settings_of_the_agent_win() -> None:
    found = setup(
        {
            "name": "Coder",
            "provider": "openai",
            "model": "gpt-x",
            "working_directory": "/elsewhere",
            "system_prompt": "Be brief.",
            "prompt_file": "prompts/coder.md",
            "batching": "none",
            "while_running": "interrupt",
            "permissions": "default",
            "session_scope": "thread",
            "timeout_seconds": 60,
            "idle_timeout_seconds": 30,
            "history_tokens": 1,
            "answer_tokens": 2,
            "pass_environment": ["LANG"],
        },
        queue={"kill_grace_seconds": 1, "max_answer_characters": 3},
        models={"openai": {"model": "gpt-y", "api_key": "k"}},
    )

    assert (found.name, found.provider, found.adapter, found.model) == ("Coder", "openai", "openai", "gpt-x")
    assert found.endpoint == Endpoint(api_key="k")
    assert found.workspace == Path("/elsewhere")
    assert found.prompt_file == Path("/elsewhere/prompts/coder.md")
    assert found.system_prompt == "Be brief."
    assert found.limits == RunLimits(timedelta(minutes=1), timedelta(seconds=30), timedelta(seconds=1), 3, 1, 2)
    assert (found.permissions, found.batching) == (Permissions.DEFAULT, Batching.NONE)
    assert (found.while_running, found.session_scope) == (WhileRunning.INTERRUPT, SessionScope.THREAD)
    assert found.pass_environment == ("LANG",)


def test_credentials_come_from_the_settings() -> None:
    models = {"anthropic": {"api_key": "a", "oauth_token": "o"}, "openai": {"api_key": "k"}}

    assert setup(models=models).endpoint == Endpoint(api_key="a", oauth_token="o")  # noqa: S106
    assert setup({"provider": "openai"}, models=models).endpoint == Endpoint(api_key="k")
    assert setup({"provider": "opencode"}, models=models).endpoint == Endpoint()
    assert setup({"provider": "scripted"}, models=models).endpoint == Endpoint()


def test_empty_credentials_are_ignored() -> None:
    assert setup(models={"anthropic": {"api_key": "", "oauth_token": ""}}).endpoint == Endpoint()


@pytest.mark.parametrize(
    ("provider", "expected"), [("anthropic", "opus"), ("openai", "gpt-x"), ("opencode", "o/x"), ("scripted", "")]
)
def test_an_agent_without_a_model_has_its_providers_model(provider: str, expected: str) -> None:
    models = {"anthropic": {"model": "opus"}, "openai": {"model": "gpt-x"}, "opencode": {"model": "o/x"}}

    assert setup({"provider": provider}, models=models).model == expected
    assert setup({}, models={**models, "provider": provider}).model == expected


def test_aliases_are_resolved_and_those_of_the_settings_win() -> None:
    assert setup({"provider": "openai", "model": "astra"}).model == "gpt-6-astra"
    assert setup({"model": "fast"}, models={"aliases": {"fast": "haiku"}}).model == "haiku"
    assert setup(models={"aliases": {"sonnet": "claude-mine"}}).model == "claude-mine"


@pytest.mark.parametrize(("harness", "adapter"), [("claude", "anthropic"), ("codex", "openai"), ("api", "api")])
def test_a_custom_provider_is_run_by_its_harness(harness: str, adapter: str) -> None:
    found = setup({"provider": "custom:glm"}, custom_providers={"glm": {**CUSTOM, "harness": harness}})

    assert (found.provider, found.adapter, found.model) == ("custom:glm", adapter, "glm-5")
    assert found.endpoint == Endpoint(base_url="https://glm.example/v1", api_key="g", wire=Wire.OPENAI)


def test_a_custom_provider_has_its_own_wire_and_model_names() -> None:
    provider = {**CUSTOM, "harness": "api", "wire": "anthropic", "api_key": ""}

    found = setup({"provider": "custom:glm", "model": "sonnet"}, custom_providers={"glm": provider})

    assert found.endpoint == Endpoint(base_url="https://glm.example/v1", wire=Wire.ANTHROPIC)
    assert found.model == "sonnet"


@pytest.mark.parametrize(
    ("agent", "models", "wire", "key"),
    [
        ({"model": "sonnet"}, {}, Wire.ANTHROPIC, "a"),
        ({"model": "claude-x"}, {"openai": {"api_key": "k"}}, Wire.ANTHROPIC, "a"),
        ({"model": "gpt"}, {"openai": {"api_key": "k"}}, Wire.OPENAI, "k"),
        ({}, {}, Wire.ANTHROPIC, "a"),
        ({}, {"openai": {"model": "gpt"}}, Wire.ANTHROPIC, "a"),
        ({}, {"openai": {"model": "gpt"}, "anthropic": {}}, Wire.OPENAI, None),
        ({}, {"openai": {"model": "gpt", "api_key": "k"}}, Wire.OPENAI, "k"),
        ({}, {"openai": {"api_key": "k"}}, Wire.OPENAI, "k"),
        ({"model": "mine"}, {"aliases": {"mine": "claude-x"}}, Wire.ANTHROPIC, "a"),
    ],
)
def test_the_official_endpoint_follows_from_the_model(
    agent: dict[str, object], models: dict[str, object], wire: Wire, key: str | None
) -> None:
    found = setup({**agent, "provider": "api"}, models={"anthropic": {"api_key": "a"}, **models})

    assert found.adapter == "api"
    assert found.endpoint == Endpoint(api_key=key, wire=wire)
    assert found.model.startswith("claude") is (wire is Wire.ANTHROPIC)


def test_an_endpoint_without_a_model_has_an_empty_model() -> None:
    assert setup({"provider": "api"}, models={"openai": {"api_key": "k"}}).model == ""


@pytest.mark.parametrize(
    ("provider", "seconds", "expected"),
    [
        ("api", None, timedelta(minutes=10)),
        ("custom:glm", None, timedelta(minutes=10)),
        ("anthropic", None, None),
        ("scripted", None, None),
        ("api", 0, None),
        ("anthropic", 5, timedelta(seconds=5)),
    ],
)
def test_only_endpoints_have_a_default_idle_timeout(
    provider: str, seconds: int | None, expected: timedelta | None
) -> None:
    agent = {"provider": provider, "idle_timeout_seconds": seconds}

    found = setup(agent, custom_providers={"glm": {**CUSTOM, "harness": "api"}})

    assert found.limits.idle == expected


@pytest.mark.parametrize(
    ("workspace", "directory", "expected"),
    [
        ("/srv/agents", None, "/srv/agents/coder"),
        ("/srv/agents", "", "/srv/agents/coder"),
        ("/srv/agents", "mine", "/srv/agents/mine"),
        ("/srv/agents", "/mine", "/mine"),
        ("/srv/agents", "~/mine", f"{Path.home()}/mine"),
        ("~/agents", None, f"{Path.home()}/agents/coder"),
        ("agents", None, "/h/agents/coder"),
    ],
)
def test_the_workspace_is_absolute(workspace: str, directory: str | None, expected: str) -> None:
    found = setup({"working_directory": directory}, workspace={"path": workspace})

    assert found.workspace == Path(expected)


def test_a_prompt_file_is_expanded_and_optional() -> None:
    assert setup({"prompt_file": "~/prompt.md"}).prompt_file == Path.home() / "prompt.md"
    assert setup({"prompt_file": ""}).prompt_file is None


def test_an_unknown_agent_is_refused_with_the_remedy() -> None:
    with pytest.raises(NotConfigured, match=r"There is no agent @ghost\. Add it to `agents` in /h/settings\.json"):
        agent_setup(parse_settings({}), AgentId("ghost"), HOME)


def test_an_unresolvable_path_is_refused_with_its_setting() -> None:
    with pytest.raises(NotConfigured, match=r"agents\.coder\.working_directory"):
        setup({"working_directory": "~no-such-user-here/x"})


def test_credentials_are_not_in_the_repr() -> None:
    assert "hidden" not in repr(setup(models={"anthropic": {"api_key": "hidden"}}))
