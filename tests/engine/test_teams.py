"""Teams: hand-offs, fan-out, chains, cross-talk, chat rooms, loop brakes, chat files."""

from tests.engine.conftest import House
from tests.support.puppet import Gate, in_turn
from tinyagi.domain.ids import AgentId, TeamId
from tinyagi.domain.messages import NewMessage, Status


async def test_a_mention_is_handed_to_the_teammate_who_answers_the_person(house: House) -> None:
    house.puppet.plays["coder"] = lambda _: "I start. [@tester: please test it]"
    async with house.open():
        await house.send("@coder build it", sender="Ada", channel="telegram")
        await house.drained()

        first, second = await house.responses()
        root, handed = await house.messages()

    assert first.message == "I start. @coder → @tester: please test it"
    assert (second.agent, second.sender, second.channel) == ("tester", "Ada", "telegram")
    assert house.puppet.prompts_of("tester") == [
        "[Message from teammate @coder]:\nI start.\n\n------\n\nDirected to you:\nplease test it"
    ]
    assert (handed.parent_message_id, handed.conversation_id, handed.hop) == (root.message_id, root.conversation_id, 1)


async def test_a_message_to_a_team_goes_to_its_leader_with_the_team(house: House) -> None:
    async with house.open():
        await house.send("@dev build it")
        await house.drained()

        (message,) = await house.messages()
        (start,) = await house.events("team_chain_start")
        (end,) = await house.events("team_chain_end")

    assert (message.agent, message.team, message.message) == ("coder", "dev", "@dev build it")
    assert (start.payload["leader"], start.payload["agents"]) == ("coder", ["coder", "writer", "tester"])
    assert end.payload["total_steps"] == 1


async def test_a_direct_message_becomes_a_team_conversation_with_its_first_hand_off(house: House) -> None:
    house.puppet.plays["coder"] = lambda _: "[@tester: test] [@writer: write]"
    async with house.open():
        await house.send("@coder build it")
        await house.drained()

        starts, ends = await house.events("team_chain_start"), await house.events("team_chain_end")

    assert [event.payload["team_id"] for event in starts] == ["dev"]
    assert [event.payload["total_steps"] for event in ends] == [3]


async def test_a_loop_between_agents_stops_at_the_hop_limit(house: House) -> None:
    house.settings["limits"]["hops"] = 4
    house.puppet.plays |= {"coder": lambda _: "[@tester: your turn]", "tester": lambda _: "[@coder: no, yours]"}
    async with house.open():
        await house.send("@coder start", sender="Ada")
        await house.drained()

        (stopped,) = await house.events("loop_stopped")
        notices = [response for response in await house.responses() if response.seq > 0]

    assert len(house.puppet.requests) == 5
    assert (stopped.payload["limit"], stopped.payload["to_agents"]) == (4, ["tester"])
    assert [notice.sender for notice in notices] == ["Ada"]
    assert "4 hand-offs" in notices[0].message


async def test_a_conversation_stops_at_its_message_limit(house: House) -> None:
    house.settings["limits"] |= {"conversation_messages": 6, "hops": 100}
    mention_all = "[@coder: go on] [@writer: go on] [@tester: go on]"
    house.puppet.plays |= {agent: lambda _: mention_all for agent in ("coder", "writer", "tester")}
    async with house.open():
        await house.send("@coder start")
        await house.drained()

        messages, stopped = await house.messages(), await house.events("loop_stopped")

    assert len(messages) == 6
    assert {event.payload["limit"] for event in stopped} == {6}


async def test_a_lane_takes_a_limited_number_of_agent_messages_per_minute(house: House) -> None:
    house.settings["limits"] |= {"agent_messages_per_minute": 3}
    house.puppet.plays["coder"] = lambda _: "[@tester: one more]"
    async with house.open():
        for number in range(5):
            await house.send(f"@coder task {number}")
        await house.drained()

        stopped = await house.events("loop_stopped")

    assert len(house.puppet.prompts_of("tester")) == 3
    assert {event.payload["limit"] for event in stopped} == {3}


async def test_a_room_post_reaches_every_other_member_and_gets_no_response(house: House) -> None:
    house.puppet.plays["coder"] = lambda _: "Done. [#dev: the build is green]"
    async with house.open():
        await house.send("@coder build it")
        await house.drained()

        (response,) = await house.responses()
        (line,) = await house.store.history.of_room(TeamId("dev"))

    assert (line.from_agent, line.message) == ("coder", "the build is green")
    assert house.puppet.prompts_of("tester") == ["[Chat room #dev — @coder]:\nthe build is green"]
    assert house.puppet.prompts_of("writer") == ["[Chat room #dev — @coder]:\nthe build is green"]
    assert response.message == "Done. @coder → #dev: the build is green"


async def test_a_passive_room_waits_for_each_members_next_run(house: House) -> None:
    house.settings["teams"]["dev"]["chatroom"] = "passive"
    house.puppet.plays["coder"] = lambda _: "[#dev: the build is green]"
    async with house.open():
        await house.send("@coder build it")
        await house.until_event("chain_step_done")
        await house.send("@tester what is new?", channel="web")
        await house.until(lambda: _answered(house, 2))

        statuses = {message.agent: message.status for message in await house.messages() if message.is_room_post}

    assert house.puppet.prompts_of("tester") == [
        "what is new?\n\n[Chat room #dev — @coder]:\nthe build is green"
    ] or house.puppet.prompts_of("tester") == ["[Chat room #dev — @coder]:\nthe build is green\n\nwhat is new?"]
    assert house.puppet.prompts_of("writer") == []
    assert statuses == {"tester": Status.COMPLETED, "writer": Status.PENDING}


async def test_a_persons_room_post_reaches_every_member(house: House) -> None:
    async with house.open():
        await house.engine.inbox.post(TeamId("dev"), "lunch is here", "Ada")
        await house.drained()

        responses = await house.responses()

    assert {request.agent for request in house.puppet.requests} == {"coder", "writer", "tester"}
    assert house.puppet.prompts_of("coder") == ["[Chat room #dev — @Ada]:\nlunch is here"]
    assert responses == []


async def test_people_fan_out_to_several_agents_with_shared_context(house: House) -> None:
    async with house.open():
        sent = await house.send(
            "Release day. [@coder: tag it] [@writer: announce it]", message_id="web_1", channel="web"
        )
        await house.drained()

        responses = await house.responses()

    assert sent.message_ids == ("web_1", "web_1.2")
    assert house.puppet.prompts_of("writer") == ["Release day.\n\n------\n\nDirected to you:\nannounce it"]
    assert len(responses) == 2


async def test_a_persons_room_tag_posts_to_the_room(house: House) -> None:
    house.puppet.plays["coder"] = lambda _: "Good morning, Ada."
    async with house.open():
        await house.send("Good morning [#dev: cake in the kitchen]", sender="Ada")
        await house.drained()

        (line,) = await house.store.history.of_room(TeamId("dev"))

    assert (line.from_agent, line.message) == ("Ada", "cake in the kitchen")
    assert "[Chat room #dev — @Ada]:\ncake in the kitchen" in house.puppet.prompts_of("tester")


async def test_every_team_conversation_becomes_a_file(house: House) -> None:
    house.puppet.plays["coder"] = in_turn("Started. [@tester: please test it]", "Thanks.")
    house.puppet.plays["tester"] = lambda _: "All green. [@coder: it works]"
    async with house.open():
        sent = await house.send("@dev build it", sender="Ada")
        await house.drained()

    (file,) = (house.home.chats / "dev").iterdir()
    text = file.read_text(encoding="utf-8")
    assert sent.conversation_id in file.name
    assert (
        text.index("> Ada: @dev build it") < text.index("@coder → @tester: please test it") < text.index("All green.")
    )
    assert text.count("**@coder**") == 2


async def test_a_lane_runs_other_messages_while_a_teammate_works(house: House) -> None:
    gate = house.puppet.plays["tester"] = Gate()
    house.puppet.plays["coder"] = in_turn("[@tester: test it]", "another answer")
    async with house.open():
        await house.send("@coder build it")
        await gate.reached.wait()
        await house.store.queue.enqueue(NewMessage("and this", AgentId("coder"), sender="Grace"))
        await house.until(lambda: _answered(house, 2))
        gate.open.set()
        await house.drained()

    assert house.puppet.prompts_of("coder")[1] == "and this"


async def _answered(house: House, count: int) -> bool:
    return len(await house.responses()) >= count
