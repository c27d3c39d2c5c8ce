"""Adding and deleting agents: no waiting message is lost, also after refusals and crashes."""

import json
from typing import Any

import pytest

from tests.engine.conftest import House
from tests.support.puppet import Gate
from tinyagi.agents.workspace_files import WorkspaceError
from tinyagi.domain.errors import Conflict, InvalidInput, NotFound
from tinyagi.domain.ids import AgentId, TeamId
from tinyagi.domain.messages import Status
from tinyagi.domain.schedules import NewSchedule
from tinyagi.engine.agent_admin import AgentAdmin, EndMessages, MoveMessages
from tinyagi.settings.errors import InvalidSettings

CODER, WRITER, ADA = AgentId("coder"), AgentId("writer"), AgentId("ada")


def admin_of(house: House) -> AgentAdmin:
    return AgentAdmin(house.store, house.engine.settings, house.home)


def stored(house: House) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(house.home.settings_file.read_text(encoding="utf-8"))
    return found


async def paused(house: House, agent: AgentId) -> bool:
    return any(lane.paused for lane in await house.store.lanes.all() if lane.agent == agent)


async def test_a_new_agent_has_a_workspace_and_runs(house: House) -> None:
    async with house.open():
        made = await admin_of(house).save_agent(ADA, {"name": "Ada", "provider": "scripted"})
        again = await admin_of(house).save_agent(ADA, {"model": "m"})
        await house.send("hello", agent="ada")
        await house.drained()
        (response,) = await house.responses()

    assert (made, again) == (True, False)
    assert (house.folder / "workspace" / "ada" / "AGENTS.md").is_file()
    assert response.message == "echo: hello"


async def test_an_agent_without_a_usable_workspace_is_not_added(house: House) -> None:
    async with house.open(start=False):
        before = stored(house)
        (house.folder / "taken").write_text("a file", encoding="utf-8")
        fields = {"name": "Ada", "provider": "scripted", "working_directory": str(house.folder / "taken")}
        with pytest.raises(WorkspaceError):
            await admin_of(house).save_agent(ADA, fields)

        assert stored(house) == before


async def test_an_invalid_agent_gets_no_workspace(house: House) -> None:
    deep: object = 1
    for _ in range(500):
        deep = {"a": deep}
    async with house.open(start=False):
        for fields in ({"name": "Ada", "provider": "nobody"}, {"name": "Ada", "provider": "scripted", "deep": deep}):
            with pytest.raises(InvalidSettings):
                await admin_of(house).save_agent(ADA, fields)

    assert not (house.folder / "workspace" / "ada").exists()


async def test_a_deleted_agent_leaves_its_teams_and_keeps_its_workspace(house: House) -> None:
    async with house.open():
        await house.send("hello", agent="coder")
        await house.drained()
        gone = await admin_of(house).delete_agent(CODER, None, by="Ada")
        team = house.engine.rules.roster.teams[TeamId("dev")]

    assert (gone.messages, gone.leaders, gone.default_agent) == (0, {"dev": "writer"}, "writer")
    assert (team.agents, team.leader) == (("writer", "tester"), "writer")
    assert (house.folder / "workspace" / "coder" / "AGENTS.md").is_file()


async def test_deleting_an_agent_with_waiting_messages_needs_a_choice(house: House) -> None:
    async with house.open(start=False):
        await house.send("one", agent="coder")
        await house.send("two", agent="coder")
        before = stored(house)
        with pytest.raises(Conflict, match=r"2 messages wait for @coder\. Use \?messages=dead"):
            await admin_of(house).delete_agent(CODER, None, by="Ada")

        assert stored(house) == before
        assert not await paused(house, CODER)


async def test_waiting_messages_move_to_another_agent_in_order(house: House) -> None:
    async with house.open():
        gate = house.puppet.plays["coder"] = Gate("the last work of the old one")
        await house.send("first", agent="coder", channel="web", sender="Ada")
        await gate.reached.wait()
        for text in ("second", "third"):
            await house.send(text, agent="coder", channel="api", sender="Grace")
        gone = await admin_of(house).delete_agent(CODER, MoveMessages(WRITER), by="Ada")
        gate.open.set()
        await house.drained()
        answers = [response.message for response in await house.responses()]

    assert gone.messages == 2
    assert "the last work of the old one" in answers
    assert [prompt.splitlines()[0] for prompt in house.puppet.prompts_of("writer")] == ["second", "third"]
    assert house.puppet.prompts_of("coder") == ["first"]


async def test_waiting_messages_can_be_marked_dead(house: House) -> None:
    async with house.open(start=False):
        await house.send("one", agent="coder")
        gone = await admin_of(house).delete_agent(CODER, EndMessages(), by="Ada")
        (message,) = await house.messages()

    assert gone.messages == 1
    assert (message.status, message.last_error) == (Status.DEAD, "agent @coder was deleted")


async def test_messages_move_only_to_another_known_agent(house: House) -> None:
    async with house.open(start=False):
        with pytest.raises(InvalidInput, match=r"no agent @ghost to move to\. There are: coder, writer, tester"):
            await admin_of(house).delete_agent(CODER, MoveMessages(AgentId("ghost")), by="Ada")
        with pytest.raises(InvalidInput, match="to @coder itself"):
            await admin_of(house).delete_agent(CODER, MoveMessages(CODER), by="Ada")


async def test_an_unknown_agent_cannot_be_deleted(house: House) -> None:
    async with house.open(start=False):
        with pytest.raises(NotFound, match="no agent @ghost"):
            await admin_of(house).delete_agent(AgentId("ghost"), EndMessages(), by="Ada")


async def test_an_agent_or_team_with_a_schedule_cannot_be_deleted(house: House) -> None:
    async with house.open(start=False):
        for target in ("coder", "dev"):
            await house.engine.schedules.add(
                NewSchedule(f"daily {target}", AgentId(target), "report", cron="0 9 * * *")
            )
        with pytest.raises(Conflict, match="Schedules send to coder: daily coder"):
            await admin_of(house).delete_agent(CODER, None, by="Ada")
        with pytest.raises(Conflict, match="daily dev"):
            await admin_of(house).delete_team("dev")

        assert CODER in house.engine.rules.roster.agents


async def test_an_interrupted_deletion_can_be_repeated(house: House) -> None:
    """A crash between settings and queue leaves no agent, and messages in a paused lane."""
    async with house.open(start=False):
        await house.send("precious", agent="coder")
        await house.store.lanes.pause(CODER)
        patch = {"agents": {"coder": None}, "teams": {"dev": {"agents": ["writer"], "leader_agent": "writer"}}}
        await house.engine.settings.save(patch)

        gone = await admin_of(house).delete_agent(CODER, MoveMessages(WRITER), by="Ada")
        (message,) = await house.messages()

        assert (gone.messages, message.agent, message.status) == (1, "writer", Status.PENDING)
        assert not await paused(house, CODER)


async def test_a_late_refusal_does_not_leave_the_lane_paused(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async with house.open(start=False):
        pause = house.store.lanes.pause

        async def pause_late(agent: AgentId) -> bool:
            await house.send("just now", agent="coder")
            return await pause(agent)

        monkeypatch.setattr(house.store.lanes, "pause", pause_late)
        with pytest.raises(Conflict, match="1 message waits for @coder"):
            await admin_of(house).delete_agent(CODER, None, by="Ada")

        assert CODER in house.engine.rules.roster.agents
        assert not await paused(house, CODER)


async def test_deleting_an_agent_resets_its_lane_and_sessions(house: House) -> None:
    async with house.open(start=False):
        await house.store.lanes.pause(CODER)
        await admin_of(house).delete_agent(CODER, None, by="Ada")

        assert not await paused(house, CODER)
        assert await house.has_event("session_reset")


async def test_deleting_a_team_keeps_its_agents(house: House) -> None:
    async with house.open(start=False):
        await admin_of(house).delete_team("dev")

        assert house.engine.rules.roster.teams == {}
        assert len(house.engine.rules.roster.agents) == 3
        with pytest.raises(NotFound):
            await admin_of(house).delete_team("dev")
