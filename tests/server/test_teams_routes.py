"""Teams over HTTP."""

from collections.abc import Sequence
from typing import Final

from tests.server.conftest import Premises
from tinyagi.domain.ids import AgentId
from tinyagi.domain.schedules import NewSchedule

OPS = {"name": "Ops", "agents": ["writer", "tester"], "leader_agent": "tester"}


async def test_teams_are_listed_as_they_are_stored(premises: Premises) -> None:
    assert (await premises.http.get("/api/teams")).json() == premises.settings["teams"]


async def test_a_team_is_added_and_answers_at_once(premises: Premises) -> None:
    answer = await premises.http.put("/api/teams/ops", json={**OPS, "colour": "red"})
    await premises.send("@ops hello")
    await premises.drained()

    assert answer.json() == {"ok": True, "team": {**OPS, "colour": "red"}}
    assert premises.puppet.prompts_of("tester") == ["hello"]


async def test_a_change_is_merged_into_the_team(premises: Premises) -> None:
    answer = await premises.http.put("/api/teams/dev", json={"chatroom": "passive"})

    assert answer.json()["team"] == {**premises.settings["teams"]["dev"], "chatroom": "passive"}
    (entry,) = await premises.store.audit.recent()
    assert (entry.action, entry.target, entry.detail) == ("save_team", "dev", "chatroom")


INVALID_TEAMS: Final[Sequence[tuple[str, object, str]]] = (
    ("ops", {}, "needs name and agents and leader_agent"),
    ("ops", {**OPS, "agents": []}, "needs agents"),
    ("ops", {**OPS, "name": " "}, "name of ops is empty"),
    ("ops", {**OPS, "agents": ["writer", "ghost"]}, "no agent 'ghost'"),
    ("ops", {**OPS, "leader_agent": "coder"}, "'coder' is not a member"),
    ("ops", {**OPS, "chatroom": "loud"}, "chatroom"),
    ("ops", {**OPS, "agents": "writer"}, "agents"),
    ("coder", OPS, "an agent has this id already"),
    ("dev", {"agents": []}, "not a member"),
    ("dev", {"agents": ["writer"]}, "'coder' is not a member"),
    ("dev", {"leader_agent": None}, "leader_agent: is missing"),
    ("De_v!", OPS, "team: "),
)


async def test_an_invalid_team_is_refused_and_changes_nothing(premises: Premises) -> None:
    before = premises.home.settings_file.read_bytes()
    for team, body, sentence in INVALID_TEAMS:
        answer = await premises.http.put(f"/api/teams/{team}", json=body)

        assert answer.status_code == 400, (body, answer.text)
        assert sentence in answer.json()["error"]
    assert premises.home.settings_file.read_bytes() == before


async def test_deleting_a_team_keeps_its_agents(premises: Premises) -> None:
    answer = await premises.http.delete("/api/teams/dev")

    assert answer.json() == {"ok": True}
    assert (await premises.http.get("/api/teams")).json() == {}
    assert len((await premises.http.get("/api/agents")).json()) == 3
    assert (await premises.http.delete("/api/teams/dev")).status_code == 404


async def test_a_team_with_a_schedule_is_not_deleted(premises: Premises) -> None:
    await premises.engine.schedules.add(NewSchedule("stand-up", AgentId("dev"), "report", cron="0 9 * * *"))

    answer = await premises.http.delete("/api/teams/dev")

    assert answer.status_code == 409
    assert "stand-up" in answer.json()["error"]
