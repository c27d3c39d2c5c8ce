"""A removal by `PUT /api/settings` passes the same checks as the DELETE route."""

from typing import Any

import pytest

from tests.server.conftest import Premises
from tests.support.puppet import Gate
from tinyagi.domain.ids import AgentId
from tinyagi.domain.schedules import NewSchedule

KEY = "sk-ant-0123456789abcdef"
WITHOUT_CODER: Any = {
    "merge": {"agents": {"coder": None}},
    "replace": {
        "agents": {name: {"name": name.title(), "provider": "scripted"} for name in ("writer", "tester")},
    },
}
MODES = pytest.mark.parametrize("mode", ["merge", "replace"])


async def put(premises: Premises, mode: str, patch: object) -> tuple[int, Any]:
    answer = await premises.http.put(f"/api/settings?mode={mode}", json=patch)
    return answer.status_code, answer.json()


async def test_replace_removes_keys_missing_from_a_named_section(closed_premises: Premises) -> None:
    closed_premises.settings["limits"] = {"hops": 3, "daily_cost": 5}
    closed_premises.settings["models"] = {"anthropic": {"api_key": KEY, "model": "opus"}}
    async with closed_premises.serve() as premises:
        status, answer = await put(
            premises, "replace", {"limits": {"daily_cost": 7}, "models": {"anthropic": {"api_key": "••••cdef"}}}
        )
        stored = premises.engine.settings.raw

    assert status == 200, answer
    assert stored["limits"] == {"daily_cost": 7}
    assert stored["models"] == {"anthropic": {"api_key": KEY}}
    assert stored["agents"] == premises.settings["agents"]
    assert answer["settings"]["models"] == {"anthropic": {"api_key": "••••cdef"}}


async def test_merge_is_the_default(premises: Premises) -> None:
    await premises.http.put("/api/settings", json={"queue": {"attempts": 7}})

    assert premises.engine.settings.raw["queue"] == {**premises.settings["queue"], "attempts": 7}


async def test_an_unknown_mode_is_refused(premises: Premises) -> None:
    assert (await put(premises, "overwrite", {}))[0] == 400


@MODES
async def test_an_agent_removed_from_the_settings_leaves_its_teams(premises: Premises, mode: str) -> None:
    await premises.http.put("/api/settings", json={"default_agent": "coder", "limits": {"agents": {"coder": {}}}})

    status, answer = await put(premises, mode, WITHOUT_CODER[mode])

    assert status == 200, answer
    settings = answer["settings"]
    assert list(settings["agents"]) == ["writer", "tester"]
    assert settings["teams"]["dev"]["agents"] == ["writer", "tester"]
    assert settings["teams"]["dev"]["leader_agent"] == "writer"
    assert "default_agent" not in settings
    assert settings["limits"]["agents"] == {}


@MODES
async def test_an_agent_with_waiting_messages_cannot_be_removed(premises: Premises, mode: str) -> None:
    gate = premises.puppet.plays["coder"] = Gate()
    await premises.send("first", agent="coder")
    await gate.reached.wait()
    await premises.send("second", agent="coder", sender="Grace")

    status, answer = await put(premises, mode, WITHOUT_CODER[mode])
    gate.open.set()
    await premises.drained()

    assert status == 409
    assert "1 message waits for @coder" in answer["error"]
    assert "DELETE /api/agents/coder" in answer["error"]
    assert "coder" in premises.engine.settings.current.agents


@MODES
async def test_an_agent_with_a_schedule_cannot_be_removed(premises: Premises, mode: str) -> None:
    await premises.engine.schedules.add(NewSchedule("daily", AgentId("coder"), "hello", cron="0 8 * * *"))

    status, answer = await put(premises, mode, WITHOUT_CODER[mode])

    assert (status, "daily" in answer["error"]) == (409, True)
    assert "coder" in premises.engine.settings.current.agents


@MODES
async def test_the_last_agent_cannot_be_removed(premises: Premises, mode: str) -> None:
    agents: object = {} if mode == "replace" else dict.fromkeys(("coder", "writer", "tester"))

    status, answer = await put(premises, mode, {"agents": agents, "teams": None})

    assert (status, "last agent" in answer["error"]) == (409, True)


@MODES
async def test_a_team_with_a_schedule_cannot_be_removed(premises: Premises, mode: str) -> None:
    await premises.engine.schedules.add(NewSchedule("daily", AgentId("dev"), "hello", cron="0 8 * * *"))

    status, answer = await put(premises, mode, {"teams": {} if mode == "replace" else {"dev": None}})

    assert (status, "daily" in answer["error"]) == (409, True)
    assert "dev" in premises.engine.settings.current.teams


@MODES
async def test_a_provider_in_use_cannot_be_removed(premises: Premises, mode: str) -> None:
    mine = {"harness": "api", "base_url": "http://127.0.0.1:9"}
    patch = {"custom_providers": {"mine": mine}, "agents": {"coder": {"provider": "custom:mine"}}}
    await premises.http.put("/api/settings", json=patch)

    status, answer = await put(premises, mode, {"custom_providers": {} if mode == "replace" else {"mine": None}})

    assert (status, "still used by @coder" in answer["error"]) == (409, True)


async def test_removing_an_agent_resets_its_sessions_and_its_lane(premises: Premises) -> None:
    await premises.store.lanes.pause(AgentId("coder"))

    await put(premises, "merge", {"agents": {"coder": None}})

    assert await premises.has_event("session_reset")
    assert not any(lane.paused for lane in await premises.store.lanes.all())


@pytest.mark.parametrize("wrong", [{"agents": 5}, {"teams": {"dev": []}}, {"queue": "fast"}])
@MODES
async def test_invalid_settings_are_refused_in_both_modes(premises: Premises, mode: str, wrong: object) -> None:
    assert (await put(premises, mode, wrong))[0] == 400
