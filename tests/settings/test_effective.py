"""Policies, budgets and the roster made from settings."""

from datetime import timedelta

import pytest

from tinyagi.domain.ids import AgentId, TeamId
from tinyagi.domain.limits import Brakes, Budget, Price, Retention
from tinyagi.domain.retry import RetryPolicy
from tinyagi.settings.effective import (
    brakes,
    budgets,
    default_agent,
    heartbeat_of,
    price_of,
    retention,
    retry_policy,
    roster,
)
from tinyagi.settings.parse import parse_settings


def test_the_defaults_match_the_domain() -> None:
    settings = parse_settings({})

    assert retry_policy(settings) == RetryPolicy()
    assert retention(settings) == Retention()
    assert brakes(settings) == Brakes()
    assert budgets(settings) == {}
    assert price_of(settings, "any") == Price()


def test_every_field_of_the_retry_policy_can_be_set() -> None:
    queue = {
        "attempts": 1,
        "timeout_attempts": 3,
        "retry_base_seconds": 0.5,
        "retry_factor": 2,
        "retry_jitter": 0,
        "hold_base_seconds": 7,
        "hold_cap_seconds": 8,
        "delivery_attempts": 9,
        "delivery_cap_seconds": 10,
    }

    assert retry_policy(parse_settings({"queue": queue})) == RetryPolicy(
        attempts=1,
        timeout_attempts=3,
        base=timedelta(milliseconds=500),
        factor=2,
        jitter=0,
        hold_base=timedelta(seconds=7),
        hold_cap=timedelta(seconds=8),
        delivery_attempts=9,
        delivery_cap=timedelta(seconds=10),
    )


def test_every_field_of_the_retention_can_be_set() -> None:
    queue = {"keep_completed_hours": 1, "keep_acked_hours": 2, "keep_events_days": 3, "unfetched_days": 0.5}

    assert retention(parse_settings({"queue": queue})) == Retention(
        timedelta(hours=1), timedelta(hours=2), timedelta(days=3), timedelta(hours=12)
    )


def test_every_brake_can_be_set() -> None:
    limits = {"hops": 1, "conversation_messages": 2, "agent_messages_per_minute": 3}

    assert brakes(parse_settings({"limits": limits})) == Brakes(1, 2, 3)


def test_budgets_have_the_scopes_of_spending() -> None:
    limits = {
        "daily_cost": 5,
        "agents": {"coder": {"daily_tokens": 9}, "free": {}},
        "teams": {"dev": {"daily_cost": 0, "daily_tokens": 1}},
    }

    assert budgets(parse_settings({"limits": limits})) == {
        "*": Budget(cost=5),
        "agent:coder": Budget(tokens=9),
        "team:dev": Budget(cost=0, tokens=1),
    }


def test_a_price_is_found_with_or_without_the_date_of_the_model() -> None:
    settings = parse_settings({"limits": {"prices": {"gpt-6": {"input": 1}, "claude-x": {"output": 2, "cache": 0.5}}}})

    assert price_of(settings, "gpt-6") == price_of(settings, "gpt-6-2026-01-31") == Price(input=1)
    assert price_of(settings, "claude-x-20260131") == price_of(settings, "claude-x@latest") == Price(0, 2, 0.5)
    assert price_of(settings, "gpt-6-mini") == Price()
    assert price_of(settings, "") == Price()


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"agents": {"b": {}, "tinyagi": {}, "a": {}}, "default_agent": "a"}, "a"),
        ({"agents": {"b": {}, "tinyagi": {}}}, "tinyagi"),
        ({"agents": {"b": {}, "a": {}}}, "b"),
        ({}, "tinyagi"),
    ],
)
def test_the_default_agent_is_the_configured_one_then_tinyagi_then_the_first(
    raw: dict[str, object], expected: str
) -> None:
    assert default_agent(parse_settings(raw)) == roster(parse_settings(raw)).default == expected


def test_the_roster_has_all_agents_and_teams_by_id() -> None:
    loaded = roster(
        parse_settings(
            {
                "agents": {"coder": {"name": "Coder"}, "writer": {"name": ""}},
                "teams": {"dev": {"agents": ["writer", "coder", "writer"], "leader_agent": "coder"}},
            }
        )
    )

    assert {agent.id: agent.name for agent in loaded.agents.values()} == {"coder": "Coder", "writer": "writer"}
    team = loaded.teams[TeamId("dev")]
    assert (team.name, team.agents, team.leader) == ("dev", ("writer", "coder"), "coder")


@pytest.mark.parametrize(
    ("heartbeat", "interval", "expected"),
    [
        ({}, None, None),
        ({"enabled": True}, None, 3600),
        ({"interval": 60}, None, 60),
        ({"enabled": False}, 3600, None),
        ({"enabled": True}, 1800, 1800),
        ({"enabled": True}, 0, None),
        ({}, 3600, 3600),
        ({"interval": 60}, 3600, 60),
        ({"enabled": False, "interval": 60}, 3600, None),
        ({}, 0, None),
        ({"interval": 60}, 0, 60),
        ({"interval": 0}, 3600, None),
    ],
)
def test_a_heartbeat_is_on_when_it_is_configured(
    heartbeat: dict[str, object], interval: int | None, expected: int | None
) -> None:
    settings = parse_settings(
        {"agents": {"a": {"heartbeat": heartbeat}}, "monitoring": {"heartbeat_interval": interval}},
    )

    assert heartbeat_of(settings, AgentId("a")) == (None if expected is None else timedelta(seconds=expected))
    assert heartbeat_of(settings, AgentId("gone")) is None
