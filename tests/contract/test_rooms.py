"""Chat rooms: posts by people, and passive posts."""

from datetime import timedelta

import pytest

from tests.contract.conftest import CODER, DEV, TESTER, WRITER
from tests.contract.test_claim import STUMBLE, claimable, run_all, say, take, texts
from tests.support.clock import FakeClock
from tests.support.log import read_all, types_of
from tinyagi.domain.errors import DuplicateMessage, InvalidInput
from tinyagi.domain.ids import AgentId, MessageId
from tinyagi.domain.messages import (
    MAX_MESSAGES,
    PASSIVE_PRIORITY,
    ROOM_CHANNEL,
    ROOM_PRIORITY,
    Batching,
    NewMessage,
    Status,
)
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.runs import Handoff, Outcome, RoomPost
from tinyagi.store.store import Store

LINE = RoomPost(DEV, "lunch?", (CODER, TESTER), "[Chat room #dev — @Ada]:\nlunch?")


async def passive(store: Store, text: str, agent: AgentId = CODER) -> int:
    return await say(store, text, agent, channel=ROOM_CHANNEL, team=DEV, priority=PASSIVE_PRIORITY)


async def waking(store: Store, text: str, agent: AgentId = CODER) -> int:
    return await say(store, text, agent, channel=ROOM_CHANNEL, team=DEV, priority=ROOM_PRIORITY)


async def test_a_persons_post_reaches_every_member_as_one_conversation(store: Store) -> None:
    line = await store.queue.post(LINE, sender="Ada")

    assert (line.team_id, line.from_agent, line.message) == (DEV, "Ada", "lunch?")
    assert await store.history.of_room(DEV) == (line,)
    first, second = (await take(store, CODER)).primary, (await take(store, TESTER)).primary
    for message in (first, second):
        assert message.message_id.startswith("chatroom_")
        assert (message.channel, message.sender, message.from_agent) == (ROOM_CHANNEL, "Ada", None)
        assert (message.team, message.thread, message.hop) == (DEV, "#dev", 0)
        assert (message.message, message.priority) == (LINE.prompt, ROOM_PRIORITY)
        assert (str(message.conversation_id), message.conversation_team) == (first.message_id, DEV)
    assert (await store.queue.depth()).open_conversations == 1
    assert (await types_of(store.events))[:3] == ["chat_posted", "message_received", "message_received"]


async def test_the_conversation_of_a_persons_post_ends_with_its_last_member(store: Store) -> None:
    await store.queue.post(LINE, sender="Ada")

    await store.queue.complete(await take(store, CODER), Outcome("yes"))
    assert "team_chain_end" not in await types_of(store.events)
    await store.queue.complete(await take(store, TESTER), Outcome("no"))

    (end,) = [event for event in await read_all(store.events) if event.type == "team_chain_end"]
    assert end.payload == {"team_id": DEV, "total_steps": 2}
    assert await store.responses.recent() == ()


async def test_a_post_in_an_empty_room_is_only_stored(store: Store) -> None:
    line = await store.queue.post(RoomPost(DEV, "anybody?", (), "x"), sender="Ada")

    assert await store.history.of_room(DEV) == (line,)
    assert await types_of(store.events) == ["chat_posted"]
    assert (await store.queue.depth()).pending == 0


async def test_a_persons_passive_post_waits_for_each_members_next_run(store: Store) -> None:
    await store.queue.post(RoomPost(DEV, "fyi", (CODER,), "fyi", wakes=False), sender="Ada")

    assert await store.queue.claim(CODER) is None
    await say(store, "question")
    assert texts(await take(store)) == ["question", "fyi"]


async def test_posts_in_a_persons_message_are_stored_with_it(store: Store) -> None:
    parts = [NewMessage("@coder look", CODER, sender="Ada", message_id=MessageId("m1"))]

    (stored,) = await store.queue.enqueue_parts(parts, posts=[LINE])

    (line,) = await store.history.of_room(DEV)
    assert (line.from_agent, line.message) == ("Ada", "lunch?")
    assert (await store.queue.depth()).pending == 3
    assert (await take(store, TESTER)).primary.conversation_id != stored.conversation_id
    with pytest.raises(DuplicateMessage):
        await store.queue.enqueue_parts(parts, posts=[LINE])
    assert len(await store.history.of_room(DEV)) == 1


async def test_a_message_with_a_refused_post_is_not_stored(store: Store) -> None:
    with pytest.raises(InvalidInput, match="lone surrogate"):
        await store.queue.enqueue_parts([NewMessage("x", CODER)], posts=[RoomPost(DEV, "\ud800", (), "")])

    assert (await store.queue.depth()).pending == 0


@pytest.mark.parametrize("line", [RoomPost(DEV, "\ud800", (), ""), RoomPost(DEV, "x", (CODER,), "\ud800")])
async def test_a_post_with_a_lone_surrogate_is_refused(store: Store, line: RoomPost) -> None:
    with pytest.raises(InvalidInput, match="lone surrogate"):
        await store.queue.post(line, sender="Ada")

    assert await store.history.of_room(DEV) == ()


async def test_an_agents_passive_post_is_passive_for_every_member(store: Store) -> None:
    await say(store, "announce")
    post = RoomPost(DEV, "fyi", (TESTER, WRITER), "fyi", wakes=False)

    handed_on = await store.queue.complete(await take(store), Outcome("ok", posts=(post,)))

    assert [message.priority for message in handed_on] == [PASSIVE_PRIORITY] * 2
    assert await store.queue.claim(TESTER) is None
    assert await claimable(store) == ()


async def test_a_hand_off_from_a_room_has_its_own_thread(store: Store) -> None:
    await waking(store, "who tests?")

    (handed,) = await store.queue.complete(await take(store), Outcome("you", handoffs=(Handoff(TESTER, "test", DEV),)))

    assert handed.thread == f"@coder/{handed.conversation_id}"


async def test_a_passive_post_too_long_to_join_a_run_wakes_the_member(store: Store) -> None:
    await store.queue.post(RoomPost(DEV, "long", (CODER,), "x" * 20_000, wakes=False), sender="Ada")

    assert (await take(store)).primary.priority == ROOM_PRIORITY


@pytest.mark.parametrize("batching", list(Batching))
async def test_passive_posts_start_no_run_and_join_the_next_one(store: Store, batching: Batching) -> None:
    await passive(store, "p1")
    await passive(store, "p2")

    assert await store.queue.claim(CODER, batching=batching) is None
    await say(store, "question", channel="api")

    assert texts(await take(store, batching=batching)) == ["question", "p1", "p2"]


async def test_batching_none_joins_passive_posts_only(store: Store) -> None:
    await passive(store, "p1")
    await waking(store, "w1")
    await say(store, "question")

    assert await run_all(store, batching=Batching.NONE) == [["question", "p1"], ["w1"]]


async def test_waking_posts_of_a_room_share_a_run(store: Store) -> None:
    await waking(store, "w1")
    await waking(store, "w2")

    assert await run_all(store) == [["w1", "w2"]]


async def test_with_batching_all_passive_posts_fill_only_free_places(store: Store) -> None:
    await passive(store, "p1")
    await passive(store, "p2")
    await say(store, "older", sender="a")
    for number in range(MAX_MESSAGES):
        await say(store, f"urgent {number}", sender="a" if number == 0 else f"s{number}", priority=5)

    (first, *_) = await run_all(store, batching=Batching.ALL)

    assert len(first) == MAX_MESSAGES
    assert not {"p1", "p2"} & set(first)


async def test_with_batching_all_a_waking_post_does_not_wait_behind_a_passive_one(store: Store) -> None:
    await passive(store, "p1")
    await waking(store, "w1")
    await say(store, "question")

    assert await run_all(store, batching=Batching.ALL) == [["question", "p1", "w1"]]


async def test_with_batching_none_a_passive_post_does_not_overtake_a_waking_one_of_its_room(store: Store) -> None:
    await passive(store, "p1")
    await waking(store, "w1")
    await passive(store, "p2")
    await say(store, "question")

    assert await run_all(store, batching=Batching.NONE) == [["question", "p1"], ["w1", "p2"]]


async def test_older_passive_posts_join_the_run_of_a_waking_post(store: Store) -> None:
    await passive(store, "p1")
    await waking(store, "w1")

    claim = await take(store)

    assert texts(claim) == ["w1", "p1"]
    assert claim.is_room_only


@pytest.mark.parametrize("batching", list(Batching))
async def test_a_passive_post_does_not_hold_back_others(store: Store, batching: Batching) -> None:
    await passive(store, "p1")
    await waking(store, "w1")
    await say(store, "urgent", channel=ROOM_CHANNEL, team=DEV, priority=5)

    primaries = [run[0] for run in await run_all(store, batching=batching)]

    assert "p1" not in primaries
    assert (await store.queue.depth()).pending == 0


async def test_a_passive_post_of_a_failed_run_is_retried_alone(store: Store, clock: FakeClock) -> None:
    number = await passive(store, "p1")
    await say(store, "question")
    await store.queue.fail(await take(store), STUMBLE)
    clock.advance(timedelta(minutes=1))

    assert sorted(await run_all(store)) == [["p1"], ["question"]]
    message = await store.queue.message(number)
    assert message is not None
    assert (message.status, message.priority) == (Status.COMPLETED, ROOM_PRIORITY)


async def test_a_passive_post_is_passive_again_after_a_run_that_used_no_attempt(store: Store, clock: FakeClock) -> None:
    await passive(store, "p1")
    await say(store, "question")
    await store.queue.release(await take(store), reason="shutdown")
    await store.queue.fail(await take(store), Failure(FailureKind.UNAVAILABLE, "429"))
    clock.advance(timedelta(minutes=30))

    assert await run_all(store) == [["question", "p1"]]


async def test_a_retried_dead_passive_post_wakes(store: Store) -> None:
    number = await passive(store, "p1")
    await say(store, "question")
    await store.queue.stop(await take(store), by="Ada")

    assert (await store.queue.retry_dead(number)).priority == ROOM_PRIORITY
    assert await run_all(store) == [["p1"]]


async def test_a_lane_with_only_passive_or_delayed_messages_is_not_claimable(store: Store, clock: FakeClock) -> None:
    await passive(store, "p1")
    await say(store, "later", WRITER, available_at=clock.now + 1000)
    assert await claimable(store) == ()

    clock.now += 1000
    assert await claimable(store) == (WRITER,)
    await waking(store, "w1")
    assert await claimable(store) == (CODER, WRITER)
