"""From JSON to types: known names are checked, unknown ones kept, and all problems reported at once."""

import json

import pytest
from pydantic import ValidationError

from tinyagi.domain.messages import Batching
from tinyagi.domain.runs import Permissions, SessionScope, Wire
from tinyagi.settings.errors import InvalidSettings
from tinyagi.settings.model import Harness, WhileRunning
from tinyagi.settings.parse import find_problems, parse_settings

COMPLETE: dict[str, object] = {
    "default_agent": "coder",
    "workspace": {"path": "/work", "name": "work"},
    "channels": {
        "enabled": ["discord", "telegram"],
        "discord": {"bot_token": "d"},
        "telegram": {"bot_token": "t"},
        "whatsapp": {"mode": "cloud"},
        "defaults": {"telegram:7": "coder"},
    },
    "models": {
        "provider": "custom:glm",
        "anthropic": {"model": "opus", "api_key": "a", "oauth_token": "o"},
        "openai": {"model": "gpt", "api_key": "k"},
        "opencode": {"model": "x/y"},
        "aliases": {"fast": "haiku"},
    },
    "agents": {
        "coder": {
            "name": "Coder",
            "provider": "anthropic",
            "model": "sonnet",
            "working_directory": "c",
            "system_prompt": "s",
            "prompt_file": "p.md",
            "heartbeat": {"enabled": False, "interval": 60},
            "batching": "all",
            "while_running": "interrupt",
            "timeout_seconds": 1.5,
            "idle_timeout_seconds": 0,
            "permissions": "plan",
            "session_scope": "thread",
            "history_tokens": 1,
            "answer_tokens": 2,
            "pass_environment": ["LANG"],
        },
        "writer": {},
    },
    "custom_providers": {
        "glm": {
            "name": "GLM",
            "harness": "api",
            "base_url": "https://glm.example/v1",
            "api_key": "g",
            "model": "glm-5",
            "wire": "anthropic",
        }
    },
    "teams": {
        "dev": {"name": "Dev", "agents": ["coder", "writer"], "leader_agent": "writer", "chatroom": "passive"},
    },
    "queue": {"max_runs": 2, "retry_base_seconds": 0.5},
    "limits": {
        "daily_cost": 5,
        "agents": {"coder": {"daily_tokens": 9}},
        "teams": {"dev": {"daily_cost": 1.5}},
        "prices": {"m": {"input": 3, "output": 15, "cache": 0.3}},
    },
    "responses": {"suffix": False, "long_answer_characters": 100},
    "plugins": {"enabled": False, "disabled": ["x"], "timeout_seconds": 1},
    "monitoring": {"heartbeat_interval": 0},
    "server": {"port": 1},
    "pipeline": {"every": "hour"},
}


def problems(raw: dict[str, object]) -> tuple[str, ...]:
    with pytest.raises(InvalidSettings) as caught:
        parse_settings(raw)
    return caught.value.problems


def problem(raw: dict[str, object]) -> str:
    (only,) = problems(raw)
    return only


def agent(**fields: object) -> dict[str, object]:
    return {"agents": {"coder": fields}}


def test_known_settings_are_parsed_into_types() -> None:
    settings = parse_settings(COMPLETE)

    coder = settings.agents["coder"]
    assert coder.batching is Batching.ALL
    assert coder.while_running is WhileRunning.INTERRUPT
    assert coder.permissions is Permissions.PLAN
    assert coder.session_scope is SessionScope.THREAD
    assert coder.pass_environment == ("LANG",)
    assert coder.heartbeat.enabled is False
    assert settings.custom_providers["glm"].harness is Harness.API
    assert settings.custom_providers["glm"].wire is Wire.ANTHROPIC
    assert settings.teams["dev"].agents == ("coder", "writer")
    assert settings.limits.prices["m"].output == 15
    assert settings.channels.enabled == ("discord", "telegram")


def test_every_section_keeps_unknown_names() -> None:
    def with_unknown(value: object) -> object:
        if isinstance(value, dict):
            kept = {name: with_unknown(item) for name, item in value.items()}
            texts_only = value and all(isinstance(item, str) for item in value.values())
            return kept if texts_only else {**kept, "unknown": {"deep": [1, None, {"x": True}]}}
        return value

    raw = with_unknown(COMPLETE)
    assert isinstance(raw, dict)
    for mapping in ("agents", "teams", "custom_providers"):
        del raw[mapping]["unknown"]
    for mapping in ("agents", "teams", "prices"):
        del raw["limits"][mapping]["unknown"]

    again = json.loads(parse_settings(raw).model_dump_json(exclude_unset=True))

    assert again == raw


def test_every_setting_is_optional() -> None:
    settings = parse_settings({})

    assert settings.workspace.path == "~/tinyagi-workspace"
    assert settings.models.provider == "anthropic"
    assert settings.models.anthropic.model == "sonnet"
    assert settings.queue.max_runs == 8


@pytest.mark.parametrize("raw", [{}, {"agents": {}}, {"agents": None}])
def test_a_default_agent_exists_without_configured_agents(raw: dict[str, object]) -> None:
    settings = parse_settings(raw)

    assert list(settings.agents) == ["tinyagi"]
    assert settings.agents["tinyagi"].name == "TinyAGI"


def test_the_unconfigured_default_agent_can_be_referenced() -> None:
    raw: dict[str, object] = {
        "default_agent": "tinyagi",
        "teams": {"one": {"agents": ["tinyagi"], "leader_agent": "tinyagi"}},
    }

    assert parse_settings(raw).teams["one"].leader_agent == "tinyagi"


def test_null_means_not_set() -> None:
    settings = parse_settings({"queue": {"max_runs": None}, "teams": None, "models": {"anthropic": {"model": None}}})

    assert settings.queue.max_runs == 8
    assert settings.teams == {}
    assert settings.models.anthropic.model == "sonnet"


def test_the_default_agent_of_a_chat_can_have_the_original_format() -> None:
    defaults = {"telegram:7": {"agentId": "coder"}, "telegram:8": "writer"}

    settings = parse_settings({"channels": {"defaults": defaults}})

    assert settings.channels.defaults == {"telegram:7": "coder", "telegram:8": "writer"}
    for wrong in ({}, {"agentId": 7}, {"agentId": None}):
        with pytest.raises(InvalidSettings, match=r"channels\.defaults\.telegram:7: .* is not text"):
            parse_settings({"channels": {"defaults": {"telegram:7": wrong}}})


def test_settings_are_immutable() -> None:
    with pytest.raises(ValidationError):
        parse_settings({}).queue.max_runs = 3


def test_the_repr_of_settings_shows_no_values() -> None:
    settings = parse_settings({"models": {"openai": {"api_key": "hidden-1"}}, "other": {"token": "hidden-2"}})

    assert "hidden" not in f"{settings!r} {settings} {settings.models.openai!r}"
    assert "models" in repr(settings)


def test_an_unknown_provider_is_reported_with_the_known_ones() -> None:
    raw = agent(provider="claud")
    raw["custom_providers"] = {"glm": {"harness": "api", "base_url": "https://glm.example"}}

    assert problem(raw) == (
        "agents.coder.provider: 'claud' is not a provider; use anthropic, openai, opencode, api, scripted, custom:glm"
    )


def test_an_unknown_custom_provider_is_refused() -> None:
    assert problem({"models": {"provider": "custom:glm"}}) == (
        "models.provider: 'custom:glm' is not in custom_providers; "
        "add it there or use anthropic, openai, opencode, api, scripted"
    )


@pytest.mark.parametrize("section", ["agents", "teams", "custom_providers"])
@pytest.mark.parametrize("name", ["Coder", "", "a b", "-x", "a" * 65, "../x", "ä"])
def test_ids_are_checked_in_every_section(section: str, name: str) -> None:
    fields: dict[str, object] = {
        "agents": {},
        "teams": {"agents": ["tinyagi"], "leader_agent": "tinyagi"},
        "custom_providers": {"harness": "api", "base_url": "https://x.example"},
    }

    found = problems({section: {name: fields[section]}})

    assert found[0].startswith(f"{section}.{name}: {name!r} is not an id; use up to 64 lowercase letters")


def test_unknown_members_and_leaders_of_a_team_are_refused() -> None:
    raw: dict[str, object] = {
        "agents": {"coder": {}, "dev": {}},
        "teams": {
            "dev": {"agents": ["coder"], "leader_agent": "coder"},
            "docs": {"agents": ["coder", "ghost"], "leader_agent": "dev"},
        },
    }

    assert problems(raw) == (
        "teams.dev: an agent has this id already; give the team another one",
        "teams.docs.agents: there is no agent 'ghost'; use some of coder, dev",
        "teams.docs.leader_agent: 'dev' is not a member; use one of teams.docs.agents",
    )


def test_an_unknown_default_agent_is_refused() -> None:
    raw = agent()
    raw["default_agent"] = "ghost"

    assert problem(raw) == "default_agent: there is no agent 'ghost'; use one of coder"


def test_a_wire_is_refused_for_other_harnesses_than_api() -> None:
    provider = {"harness": "codex", "base_url": "https://x.example", "wire": "openai"}

    assert "custom_providers.x.wire" in problem({"custom_providers": {"x": provider}})


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (agent(permissions="all"), "agents.coder.permissions: 'all' is not known; use 'bypass', 'default' or 'plan'"),
        (agent(timeout_seconds=0), "agents.coder.timeout_seconds: 0 is too small, it must be more than 0"),
        (
            agent(pass_environment=["A", 1]),
            "agents.coder.pass_environment[1]: 1 is not text: put it in quotation marks",
        ),
        (agent(heartbeat=True), "agents.coder.heartbeat: true is not an object: use {…}"),
        ({"agents": []}, "agents: this list is not an object: use {…}"),
        ({"queue": {"max_runs": 0}}, "queue.max_runs: 0 is too small, the minimum is 1"),
        ({"queue": {"max_runs": 10**9}}, "queue.max_runs: 1000000000 is too large, the maximum is 1000"),
        ({"queue": {"max_runs": "8"}}, "queue.max_runs: '8' is not a whole number"),
        ({"queue": {"max_runs": True}}, "queue.max_runs: true is not a whole number"),
        ({"queue": {"max_runs": 8.5}}, "queue.max_runs: 8.5 is not a whole number"),
        ({"queue": {"retry_jitter": "x"}}, "queue.retry_jitter: 'x' is not a number"),
        ({"queue": {"lease_seconds": float("inf")}}, "queue.lease_seconds: Infinity is not a number"),
        ({"responses": {"suffix": 1}}, "responses.suffix: 1 is neither true nor false"),
        ({"plugins": {"disabled": "x"}}, "plugins.disabled: 'x' is not a list: use […]"),
        ({"channels": {"enabled": {"a": 1}}}, "channels.enabled: this object is not a list: use […]"),
        ({"limits": {"daily_cost": -1}}, "limits.daily_cost: -1 is too small, the minimum is 0"),
        (
            {"custom_providers": {"x": {"base_url": "https://x.example"}}},
            "custom_providers.x.harness: is missing",
        ),
        (
            {"custom_providers": {"x": {"harness": [], "base_url": "https://x.example", "wire": "openai"}}},
            "custom_providers.x.harness: this list is not known; use 'claude', 'codex' or 'api'",
        ),
    ],
)
def test_a_problem_is_reported_with_its_dotted_name(raw: dict[str, object], found: str) -> None:
    assert problem(raw) == found


def test_missing_members_and_leader_of_a_team_are_reported() -> None:
    assert problems({"teams": {"dev": {}}}) == ("teams.dev.agents: is missing", "teams.dev.leader_agent: is missing")


@pytest.mark.parametrize("address", ["", "example.com", "ftp://x.example", "https://me:secret@x.example", "https://"])
def test_an_address_must_be_a_url_without_a_password(address: str) -> None:
    found = problem({"custom_providers": {"x": {"harness": "api", "base_url": address}}})

    assert found.startswith("custom_providers.x.base_url: this is not an address")
    assert "secret" not in found


def test_a_problem_has_the_path_of_its_value() -> None:
    raw: dict[str, object] = {
        "agents": {"a.b": {"pass_environment": ["A", 1]}},
        "models": {"provider": "claud"},
        "custom_providers": {"x": {"base_url": "https://x.example"}},
    }

    assert [(problem.path, str(problem).split(":")[0]) for problem in find_problems(raw)] == [
        (("agents", "a.b", "pass_environment", 1), "agents.a.b.pass_environment[1]"),
        (("custom_providers", "x", "harness"), "custom_providers.x.harness"),
        (("agents", "a.b"), "agents.a.b"),
        (("models", "provider"), "models.provider"),
    ]
    assert find_problems(COMPLETE) == []


def test_all_problems_are_reported_at_once() -> None:
    raw: dict[str, object] = {
        "agents": {"coder": {"provider": "claud", "batching": "some"}},
        "queue": {"max_runs": -1, "attempts": "many"},
        "teams": {"dev": {"agents": ["ghost"], "leader_agent": "ghost"}},
    }

    found = problems(raw)

    assert {sentence.split(":")[0] for sentence in found} == {
        "agents.coder.provider",
        "agents.coder.batching",
        "queue.max_runs",
        "queue.attempts",
        "teams.dev.agents",
    }


@pytest.mark.parametrize(
    "raw",
    [
        {"models": {"openai": {"api_key": ["sk-hidden-0123456789"]}}},
        {"models": {"openai": {"api_key": 12345678}}},
        {"models": {"openai": "sk-hidden-0123456789-and-more"}},
        {"agents": {"coder": {"provider": "sk-hidden-0123456789-and-more"}}},
        {"default_agent": "sk-hidden-0123456789-and-more"},
    ],
)
def test_an_error_does_not_contain_a_secret(raw: dict[str, object]) -> None:
    with pytest.raises(InvalidSettings) as caught:
        parse_settings(raw)

    assert "hidden" not in str(caught.value)
    assert "1234" not in str(caught.value)
    assert caught.value.__context__ is None
