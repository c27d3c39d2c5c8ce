"""Loop brakes, checked by the transaction that enqueues hand-offs."""

import asyncio

from tests.contract.conftest import CODER, DEV, TESTER, WRITER
from tests.contract.test_claim import claimable, run_all, say, take
from tests.support.clock import FakeClock
from tests.support.log import read_all, types_of
from tinyagi.domain.events import RecordedEvent
from tinyagi.domain.ids import AgentId
from tinyagi.domain.limits import Brakes
from tinyagi.domain.messages import ROOM_CHANNEL, ROOM_PRIORITY, Message
from tinyagi.domain.runs import Handoff, Outcome, RoomPost
from tinyagi.store.store import Store

BOTH = (Handoff(TESTER, "test", DEV), Handoff(WRITER, "write", DEV))


async def hand_on(store: Store, outcome: Outcome, agent: AgentId = CODER) -> tuple[Message, ...]:
    return await store.queue.complete(await take(store, agent), outcome)


async def stops(store: Store) -> list[RecordedEvent]:
    return [event for event in await read_all(store.events) if event.type == "loop_stopped"]


async def test_hand_offs_beyond_the_hop_limit_are_refused_with_one_notice(store: Store) -> None:
    await say(store, "go", sender="Ada", hop=3)

    handed_on = await hand_on(store, Outcome("over to you", handoffs=BOTH, brakes=Brakes(hops=3)))

    assert handed_on == ()
    assert (await store.queue.depth()).pending == 0
    (stop,) = await stops(store)
    assert stop.payload == {
        "reason": "more than 3 hand-offs in a row",
        "limit": 3,
        "to_agents": [TESTER, WRITER],
    }
    assert (stop.agent, stop.conversation_id) == (CODER, stop.message_id)
    answer, notice = await store.responses.pending("api")
    assert (answer.seq, notice.seq, notice.sender) == (0, 1, "Ada")
    assert "@tester, @writer" in notice.message
    assert "chain_handoff" not in await types_of(store.events)
    assert (await store.queue.depth()).open_conversations == 0


async def test_hand_offs_at_the_hop_limit_pass(store: Store) -> None:
    await say(store, "go", hop=2)

    assert len(await hand_on(store, Outcome("ok", handoffs=BOTH, brakes=Brakes(hops=3)))) == 2
    assert await stops(store) == []


async def test_hand_offs_without_brakes_pass(store: Store) -> None:
    await say(store, "go", hop=1000)

    assert len(await hand_on(store, Outcome("ok", handoffs=BOTH))) == 2


async def test_the_conversation_limit_holds_within_one_run(store: Store) -> None:
    await say(store, "go")

    (handed,) = await hand_on(store, Outcome("ok", handoffs=BOTH, brakes=Brakes(conversation=2)))

    assert handed.agent == TESTER
    (stop,) = await stops(store)
    assert (stop.payload["limit"], stop.payload["to_agents"]) == (2, [WRITER])


async def test_runs_written_together_share_the_limit_of_their_conversation(store: Store) -> None:
    await say(store, "go")
    await hand_on(store, Outcome("ok", handoffs=BOTH))
    claims = [await take(store, agent) for agent in (TESTER, WRITER)]
    outcome = Outcome("back", handoffs=(Handoff(CODER, "look", DEV),), brakes=Brakes(conversation=4))

    handed_on = await asyncio.gather(*(store.queue.complete(claim, outcome) for claim in claims))

    assert sorted(map(len, handed_on)) == [0, 1]
    assert len(await stops(store)) == 1


async def test_a_lane_takes_a_limited_number_of_agent_messages_per_minute(store: Store, clock: FakeClock) -> None:
    brakes = Brakes(per_minute=2)
    for number in range(3):
        await say(store, f"go {number}")
        await hand_on(store, Outcome("ok", handoffs=(Handoff(TESTER, "test", DEV),), brakes=brakes))

    assert (await store.queue.depth()).pending == 2
    (stop,) = await stops(store)
    assert stop.payload["reason"] == "more than 2 messages from agents to @tester within a minute"
    clock.now += 59_999
    await say(store, "go 4")
    assert await hand_on(store, Outcome("ok", handoffs=(Handoff(TESTER, "test", DEV),), brakes=brakes)) == ()
    clock.now += 1
    await say(store, "go 5")
    assert len(await hand_on(store, Outcome("ok", handoffs=(Handoff(TESTER, "test", DEV),), brakes=brakes))) == 1


async def test_runs_written_together_share_the_limit_of_a_lane(store: Store) -> None:
    for agent in (CODER, WRITER):
        await say(store, "go", agent)
    claims = [await take(store, agent) for agent in (CODER, WRITER)]
    outcome = Outcome("ok", handoffs=(Handoff(TESTER, "test", DEV),), brakes=Brakes(per_minute=1))

    handed_on = await asyncio.gather(*(store.queue.complete(claim, outcome) for claim in claims))

    assert sorted(map(len, handed_on)) == [0, 1]


async def test_messages_from_people_do_not_count_as_agent_traffic(store: Store) -> None:
    for _ in range(5):
        await say(store, "hello", TESTER)
    await say(store, "go")

    outcome = Outcome("ok", handoffs=(Handoff(TESTER, "test", DEV),), brakes=Brakes(per_minute=1))
    assert len(await hand_on(store, outcome)) == 1


async def test_a_room_post_is_stored_when_deliveries_are_refused(store: Store) -> None:
    await say(store, "announce")
    post = RoomPost(DEV, "we ship", (TESTER, WRITER), "hear: we ship")

    (handed,) = await hand_on(store, Outcome("ok", posts=(post,), brakes=Brakes(conversation=2)))

    assert handed.agent == TESTER
    (line,) = await store.history.of_room(DEV)
    assert line.message == "we ship"
    (stop,) = await stops(store)
    assert stop.payload["to_agents"] == [WRITER]


async def test_room_posts_count_as_agent_traffic(store: Store) -> None:
    await say(store, "announce")
    post = RoomPost(DEV, "we ship", (TESTER,), "hear: we ship", wakes=False)
    outcome = Outcome("ok", posts=(post,), handoffs=(), brakes=Brakes(per_minute=1))
    await hand_on(store, outcome)
    await say(store, "announce again")

    assert await hand_on(store, outcome) == ()


async def test_each_brake_is_recorded_and_one_notice_names_all(store: Store) -> None:
    await say(store, "first")
    await hand_on(store, Outcome("ok", handoffs=(Handoff(TESTER, "t", DEV),)))
    await say(store, "second")
    outcome = Outcome("ok", handoffs=BOTH, posts=(), brakes=Brakes(per_minute=1, conversation=1))
    await hand_on(store, outcome)
    await say(store, "third")
    busy = Outcome("ok", handoffs=(*BOTH, Handoff(WRITER, "again", DEV)), brakes=Brakes(per_minute=1))
    await hand_on(store, busy)

    first, to_tester, to_writer = await stops(store)
    assert first.payload["to_agents"] == [TESTER, WRITER]
    assert [to_tester.payload["to_agents"], to_writer.payload["to_agents"]] == [[TESTER], [WRITER]]
    notices = [response for response in await store.responses.pending("api") if response.seq == 1]
    assert len(notices) == 2
    assert "@tester" in notices[1].message
    assert "@writer" in notices[1].message


async def test_a_notice_gets_the_next_sequence_number(store: Store) -> None:
    number = await say(store, "go", hop=9)
    await store.queue.stop(await take(store), by="Ada")
    await store.queue.retry_dead(number)

    await hand_on(store, Outcome("ok", handoffs=BOTH, brakes=Brakes(hops=1)))

    assert sorted(response.seq for response in await store.responses.pending("api")) == [0, 1, 2]


async def test_a_run_for_a_room_is_stopped_without_a_notice(store: Store) -> None:
    await say(store, "post", channel=ROOM_CHANNEL, priority=ROOM_PRIORITY, team=DEV, hop=5)

    await hand_on(store, Outcome("ok", handoffs=BOTH, brakes=Brakes(hops=1)))

    assert len(await stops(store)) == 1
    assert await store.responses.recent() == ()


async def test_a_loop_between_two_agents_ends(store: Store) -> None:
    await say(store, "go")
    brakes = Brakes(hops=4)
    steps = 0
    while lanes := await claimable(store):
        other = TESTER if lanes[0] == CODER else CODER
        await hand_on(
            store, Outcome("your turn", handoffs=(Handoff(other, "your turn", DEV),), brakes=brakes), lanes[0]
        )
        steps += 1

    assert steps == 5
    assert await run_all(store) == []
