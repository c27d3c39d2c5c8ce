"""Patches for agents, teams and providers, including everything that refers to them."""

from typing import Any

import pytest

from tinyagi.domain.errors import Conflict, InvalidInput, NotFound
from tinyagi.settings.json_tree import merged, replacing
from tinyagi.settings.parse import parse_settings
from tinyagi.settings.patches import (
    agent_patch,
    agent_removal,
    agents_of,
    provider_patch,
    provider_removal,
    team_patch,
    team_removal,
)


def some_settings(**more: Any) -> dict[str, Any]:
    return {
        "agents": {name: {"name": name.title(), "provider": "scripted"} for name in ("coder", "writer", "tester")},
        "teams": {"dev": {"name": "Dev", "agents": ["coder", "writer", "tester"], "leader_agent": "coder"}},
        **more,
    }


def test_changing_an_agent_keeps_its_other_fields() -> None:
    raw = some_settings()

    after = merged(raw, agent_patch(raw, "coder", {"model": "opus"}))

    assert after["agents"]["coder"] == {"name": "Coder", "provider": "scripted", "model": "opus"}  # type: ignore[index]


def test_the_implicit_default_agent_stays_when_another_is_added() -> None:
    patch = agent_patch({}, "coder", {"name": "Coder", "provider": "scripted"})

    assert list(parse_settings(merged({}, patch)).agents) == ["tinyagi", "coder"]
    assert agents_of({}) == {"tinyagi": {"name": "TinyAGI"}}


def test_the_implicit_default_agent_can_be_changed() -> None:
    patch = agent_patch({}, "tinyagi", {"model": "opus"})

    assert patch == {"agents": {"tinyagi": {"name": "TinyAGI", "model": "opus"}}}


@pytest.mark.parametrize("fields", [{}, {"name": "Ada"}, {"provider": "scripted"}, {"name": None, "provider": "api"}])
def test_a_new_agent_needs_a_name_and_a_provider(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="no agent ada yet, and a new one needs"):
        agent_patch(some_settings(), "ada", fields)


def test_a_new_team_needs_a_name_members_and_a_leader() -> None:
    with pytest.raises(InvalidInput, match="needs name and agents and leader_agent"):
        team_patch(some_settings(), "ops", {})


def test_a_new_provider_needs_a_harness_and_an_address() -> None:
    with pytest.raises(InvalidInput, match="needs harness and base_url"):
        provider_patch(some_settings(), "local", {"name": "Local"})


@pytest.mark.parametrize("name", ["", "  \n"])
def test_an_empty_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="name of coder is empty"):
        agent_patch(some_settings(), "coder", {"name": name})


def test_a_removed_agent_leaves_its_teams() -> None:
    raw = some_settings()

    departure = agent_removal(raw, "tester")

    assert departure.leaders == {}
    assert parse_settings(merged(raw, departure.patch)).teams["dev"].agents == ("coder", "writer")


@pytest.mark.parametrize(("leader", "following"), [("coder", "writer"), ("writer", "tester"), ("tester", "coder")])
def test_the_next_member_becomes_leader(leader: str, following: str) -> None:
    raw = some_settings()
    raw["teams"]["dev"]["leader_agent"] = leader

    departure = agent_removal(raw, leader)

    assert departure.leaders == {"dev": following}
    assert parse_settings(merged(raw, departure.patch)).teams["dev"].leader_agent == following


def test_an_agent_listed_twice_leaves_the_team_completely() -> None:
    raw = some_settings()
    raw["teams"]["dev"]["agents"] = ["coder", "coder", "writer"]

    after = parse_settings(merged(raw, agent_removal(raw, "coder").patch))

    assert (after.teams["dev"].agents, after.teams["dev"].leader_agent) == (("writer",), "writer")


def test_the_only_member_of_a_team_cannot_be_removed() -> None:
    raw = some_settings()
    raw["teams"]["solo"] = {"agents": ["writer"], "leader_agent": "writer"}

    with pytest.raises(Conflict, match="only member of team solo"):
        agent_removal(raw, "writer")


@pytest.mark.parametrize("raw", [{}, {"agents": {"tinyagi": {"name": "T"}}}])
def test_the_last_agent_cannot_be_removed(raw: dict[str, Any]) -> None:
    with pytest.raises(Conflict, match="@tinyagi is the last agent"):
        agent_removal(raw, "tinyagi")


def test_references_to_an_agent_are_removed_with_it() -> None:
    raw = some_settings(
        default_agent="coder",
        channels={"enabled": ["telegram"], "defaults": {"telegram:1": "coder", "telegram:2": "writer"}},
        limits={"hops": 3, "agents": {"coder": {"daily_cost": 1}, "writer": {"daily_cost": 2}}},
    )

    after = merged(raw, agent_removal(raw, "coder").patch)

    parse_settings(after)
    assert "default_agent" not in after
    assert after["channels"] == {"enabled": ["telegram"], "defaults": {"telegram:2": "writer"}}
    assert after["limits"] == {"hops": 3, "agents": {"writer": {"daily_cost": 2}}}


def test_removing_an_agent_adds_no_sections() -> None:
    raw = some_settings(teams={})

    assert agent_removal(raw, "coder").patch == {"agents": {"coder": None}}


def test_a_team_is_removed_with_its_budget() -> None:
    raw = some_settings(limits={"teams": {"dev": {"daily_cost": 1}}})

    assert merged(raw, team_removal(raw, "dev")) == {**raw, "teams": {}, "limits": {"teams": {}}}
    assert team_removal(some_settings(), "dev") == {"teams": {"dev": None}}


def test_a_provider_in_use_cannot_be_removed() -> None:
    raw = some_settings(
        custom_providers={"local": {"harness": "api", "base_url": "http://127.0.0.1:1"}},
        models={"provider": "custom:local"},
    )
    raw["agents"]["coder"]["provider"] = "custom:local"

    with pytest.raises(Conflict, match=r"used by @coder, models\.provider"):
        provider_removal(raw, "local")


def test_an_unknown_name_cannot_be_removed() -> None:
    for remove in (agent_removal, team_removal, provider_removal):
        with pytest.raises(NotFound, match="There is no"):
            remove(some_settings(), "ghost")


def test_the_default_agent_of_a_chat_in_the_original_format_is_removed() -> None:
    raw = {"agents": {"coder": {}, "tester": {}}, "channels": {"defaults": {"web:1": {"agentId": "coder"}}}}

    assert agent_removal(raw, "coder").patch["channels"] == {"defaults": {"web:1": None}}


@pytest.mark.parametrize(
    ("provider", "model", "kept"),
    [
        ("scripted", "sonnet", False),
        ("openai", "sonnet", False),
        ("anthropic", "sonnet", True),
        ("anthropic", "gpt", False),
        ("api", "sonnet", True),
        ("opencode", "sonnet", True),
        ("opencode", "anthropic/claude-x", True),
        ("openai", "gpt-7", True),
        ("custom:own", "sonnet", False),
        ("custom:own", "mine", True),
        ("scripted", "mine", False),
    ],
)
def test_changing_the_provider_keeps_only_a_model_it_knows(provider: str, model: str, kept: bool) -> None:
    raw = some_settings(models={"aliases": {"mine": "glm"}})
    raw["agents"]["coder"] = {"name": "Coder", "provider": "custom:before", "model": model}

    after: Any = merged(raw, agent_patch(raw, "coder", {"provider": provider}))

    assert ("model" in after["agents"]["coder"]) is kept


def test_a_model_given_with_the_provider_is_kept() -> None:
    raw = some_settings()
    raw["agents"]["coder"]["model"] = "sonnet"

    after: Any = merged(raw, agent_patch(raw, "coder", {"provider": "openai", "model": "sonnet"}))

    assert after["agents"]["coder"]["model"] == "sonnet"


def test_a_replacing_patch_leads_from_one_object_to_the_other() -> None:
    before = {"a": 1, "b": {"c": 2, "d": 3}, "e": [1], "note": {"x": None}}
    after = {"a": 1, "b": {"c": 4}, "f": {"g": {}}, "note": {"x": None}}

    assert merged(before, replacing(before, after)) == after
