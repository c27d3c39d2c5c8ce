"""Settings without effect are reported with a suggestion."""

import logging
from typing import Any

import pytest

from tests.settings.conftest import write
from tests.support.old_home import SETTINGS
from tinyagi.settings.first_run import detect_provider, ensure_settings, first_settings
from tinyagi.settings.home import Home
from tinyagi.settings.live import LiveSettings
from tinyagi.settings.parse import unknown_settings
from tinyagi.settings.settings_file import SettingsFile

BUDGET = "limits.daily_costs is not a setting and has no effect. Did you mean limits.daily_cost?"


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        ({"limits": {"daily_costs": 5}}, BUDGET),
        ({"agents": {"coder": {"providr": "api"}}}, "Did you mean agents.coder.provider?"),
        ({"agents": {"coder": {"heartbeat": {"intervals": 5}}}}, "Did you mean agents.coder.heartbeat.interval?"),
        ({"limits": {"agents": {"coder": {"daily_token": 1}}}}, "Did you mean limits.agents.coder.daily_tokens?"),
        ({"Agents": {}}, "Did you mean agents?"),
        ({"limit": {}}, "Did you mean limits?"),
        ({"queue": {"max-runs": 2}}, "Did you mean queue.max_runs?"),
        ({"limits": {"spending": 5}}, "limits.spending is not a setting and has no effect."),
        ({"house_rules": {"tea": 5}}, "house_rules is not a setting and has no effect."),
    ],
)
def test_an_unknown_name_is_reported(raw: dict[str, Any], sentence: str) -> None:
    (found,) = unknown_settings(raw)

    assert found.endswith(sentence)


@pytest.mark.parametrize(
    "raw",
    [
        first_settings(detect_provider({}, lambda _: None)),
        {name: value for name, value in SETTINGS.items() if name not in {"house_rules", "agents"}},
        {"agents": {"any_id": {}}, "models": {"aliases": {"fast": "haiku"}}, "limits": {"prices": {"gpt": {}}}},
        {"channels": {"whatsapp": {"mode": "web"}, "defaults": {"telegram:1": {"agentId": "a"}}}},
        {"_note": "mine", "$schema": "x", "agents": {"coder": {"//": "why"}}},
        {"agents": 5, "limits": {"agents": {"coder": 5}}},
    ],
)
def test_known_names_legacy_names_and_notes_are_not_reported(raw: dict[str, Any]) -> None:
    assert unknown_settings(raw) == ()


def test_many_unknown_names_are_reported_in_a_few_lines() -> None:
    assert len(unknown_settings({f"x{number}": 1 for number in range(500)})) == 21


def test_unknown_names_are_printed_at_the_start(home: Home) -> None:
    write(home, {"limits": {"daily_costs": 5}})

    assert BUDGET in ensure_settings(home, {}, which=lambda _: None)


async def test_an_unknown_name_in_an_edit_is_logged_once(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    write(home, {})
    live = LiveSettings(SettingsFile(home))
    for queue in ({}, {"max_runs": 2}):
        write(home, {"limits": {"daily_costs": 5}, "queue": queue})
        with caplog.at_level(logging.WARNING):
            await live.poll_once()

    assert [record.getMessage() for record in caplog.records] == [BUDGET]
    assert live.warnings == (BUDGET,)
