"""The inbox: messages are routed once, stored with their routing event, or refused with a reason."""

from datetime import timedelta

import pytest

from tests.engine.conftest import House, open_an_hour_ahead
from tinyagi.domain.errors import DuplicateMessage, InvalidInput
from tinyagi.domain.ids import TeamId


async def test_the_routing_of_a_message_is_recorded(house: House) -> None:
    async with house.open(start=False):
        await house.send("@dev build it")
        (routed,) = await house.events("agent_routed")

    assert routed.payload == {"agent_name": "Coder", "provider": "scripted", "model": "", "team_id": "dev"}


@pytest.mark.parametrize("text", ["@coder build it", "@Coder build it", "@dev build it"])
async def test_the_stored_text_keeps_the_prefix_and_the_prompt_does_not(house: House, text: str) -> None:
    async with house.open():
        await house.send(text)
        await house.drained()
        (received,) = await house.events("message_received")
        (response,) = await house.responses()
        _, asked = await house.store.history.of_agent()

    assert received.payload["message"]["message"] == response.original_message == asked.content == text
    assert house.puppet.prompts_of("coder") == ["build it"]


async def test_a_prefix_of_another_agent_is_part_of_the_prompt(house: House) -> None:
    async with house.open():
        await house.send("@writer hello", agent="tester")
        await house.drained()

    assert house.puppet.prompts_of("tester") == ["@writer hello"]


async def test_a_named_agent_or_team_wins_over_the_prefix(house: House) -> None:
    async with house.open(start=False):
        await house.send("@writer hello", agent="tester")
        await house.send("hello", agent="dev")
        direct, to_team = await house.messages()

    assert (direct.agent, direct.message) == ("tester", "@writer hello")
    assert (to_team.agent, to_team.team) == ("coder", "dev")


async def test_a_chat_can_have_a_default_agent(house: House) -> None:
    house.settings["channels"] = {"defaults": {"telegram:4711": "tester"}}
    async with house.open(start=False):
        await house.send("hello", channel="telegram", sender="Ada", sender_id="4711")
        await house.send("hello", channel="telegram", sender="Grace", sender_id="4712")
        sticky, default = await house.messages()

    assert (sticky.agent, default.agent) == ("tester", "coder")


async def test_an_unknown_agent_is_refused_with_the_known_ones(house: House) -> None:
    async with house.open(start=False):
        with pytest.raises(InvalidInput, match="coder, writer, tester, dev"):
            await house.send("hello", agent="ghost")


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_an_empty_message_is_refused(house: House, text: str) -> None:
    async with house.open(start=False):
        with pytest.raises(InvalidInput, match="needs a text"):
            await house.send(text)
        with pytest.raises(InvalidInput, match="needs a text"):
            await house.engine.inbox.post(TeamId("dev"), text, "Ada")


async def test_a_repeated_id_is_refused_and_posts_once(house: House) -> None:
    async with house.open(start=False):
        await house.send("[#dev: once only]", message_id="api_1")
        with pytest.raises(DuplicateMessage):
            await house.send("[#dev: once only]", message_id="api_1")

        assert len(await house.store.history.of_room(TeamId("dev"))) == 1


async def test_an_unknown_room_is_refused(house: House) -> None:
    async with house.open(start=False):
        with pytest.raises(InvalidInput, match="no team 'sales'"):
            await house.engine.inbox.post(TeamId("sales"), "hello", "Ada")


async def test_a_delay_uses_the_clock_of_the_store(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tinyagi.wiring.open_store", open_an_hour_ahead)
    async with house.open(start=False):
        await house.send("later", delay=timedelta(hours=1))
        (message,) = await house.messages()

    assert message.available_at >= message.created_at + 3_599_000


async def test_a_delay_is_stored_with_the_message(house: House) -> None:
    async with house.open(start=False):
        await house.send("later", delay=timedelta(hours=1))
        (message,) = await house.messages()

    assert 3_590_000 <= message.available_at - message.created_at <= 3_610_000


async def test_files_are_named_in_the_prompt(house: House) -> None:
    async with house.open():
        plan = house.home.files / "plan.pdf"
        plan.write_text("the plan")
        await house.send("@coder look at this", files=("plan.pdf",))
        await house.drained()

    assert house.puppet.prompts_of("coder") == [f"look at this\n[file: {plan}]"]


@pytest.mark.parametrize("file", ["/etc/passwd", "../settings.json", "nothing.pdf", "link.pdf"])
async def test_a_file_outside_the_allowed_folders_is_refused(house: House, file: str) -> None:
    async with house.open(start=False):
        (house.home.files / "link.pdf").symlink_to(house.home.settings_file)
        with pytest.raises(InvalidInput, match="not attached"):
            await house.send("@coder look at this", files=(file,))

        assert await house.messages() == []


async def test_a_file_of_the_agents_workspace_is_accepted(house: House) -> None:
    async with house.open(start=False):
        plan = house.folder / "workspace" / "coder" / "plan.pdf"
        plan.parent.mkdir(parents=True)
        plan.write_text("the plan")

        await house.send("@coder look at this", files=(str(plan),))
        with pytest.raises(InvalidInput, match="outside"):
            await house.send("@tester look at this", files=(str(plan),))
