"""Vacating a lane: pending messages are abandoned or moved, running ones are left alone."""

import pytest

from tests.contract.conftest import CODER, DEV, TESTER, WRITER
from tests.contract.test_claim import STUMBLE, run_all, say, take, texts
from tests.support.clock import FakeClock
from tests.support.log import read_all, types_of
from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import PASSIVE_PRIORITY, ROOM_CHANNEL, NewMessage, Status
from tinyagi.domain.runs import Handoff, Outcome, RoomPost
from tinyagi.store.lanes import LANE_SLICE, LaneDepth
from tinyagi.store.store import Store

REASON = "@coder was removed"


async def test_abandoned_messages_are_dead_and_their_senders_get_a_notice(store: Store, clock: FakeClock) -> None:
    number = await say(store, "one", sender="Ada", channel="web")
    kept = await say(store, "theirs", WRITER)
    clock.now += 5

    assert await store.queue.abandon(CODER, reason=REASON) == 1

    (dead,) = await store.queue.dead()
    assert (dead.id, dead.status, dead.last_error, dead.retry_count) == (number, Status.DEAD, REASON, 0)
    (notice,) = await store.responses.pending("web")
    assert (notice.sender, notice.seq, notice.message_id) == ("Ada", 1, dead.message_id)
    assert REASON in notice.message
    event = next(event for event in await read_all(store.events) if event.type == "message_dead")
    assert event.payload == {
        "id": number,
        "claim_id": None,
        "attempt": 0,
        "kind": "abandoned",
        "reason": REASON,
        "usage": None,
    }
    left = await store.queue.message(kept)
    assert left is not None
    assert left.status is Status.PENDING
    depth = await store.queue.depth()
    assert (depth.pending, depth.dead, depth.open_conversations) == (1, 1, 1)


async def test_a_running_message_is_not_abandoned(store: Store) -> None:
    await say(store, "runs")
    claim = await take(store)
    await say(store, "waits")

    assert await store.queue.abandon(CODER, reason=REASON) == 1

    await store.queue.complete(claim, Outcome("done"))
    depth = await store.queue.depth()
    assert (depth.completed, depth.dead, depth.pending) == (1, 1, 0)


async def test_delayed_and_backed_off_messages_are_abandoned(store: Store, clock: FakeClock) -> None:
    await say(store, "fails")
    await store.queue.fail(await take(store), STUMBLE)
    await say(store, "later", available_at=clock.now + 60_000)

    assert await store.queue.abandon(CODER, reason=REASON) == 2

    assert sorted((dead.message, dead.retry_count) for dead in await store.queue.dead()) == [("fails", 1), ("later", 0)]
    assert await store.queue.next_due_at() is None


async def test_an_abandoned_room_post_sends_no_notice_and_keeps_its_priority(store: Store) -> None:
    await store.queue.post(RoomPost(DEV, "line", (CODER,), "a line", wakes=False), sender="ada")

    assert await store.queue.abandon(CODER, reason=REASON) == 1

    (dead,) = await store.queue.dead()
    assert dead.priority == PASSIVE_PRIORITY
    assert await store.responses.pending(ROOM_CHANNEL) == ()


async def test_a_teams_conversation_ends_with_its_last_message(store: Store) -> None:
    await say(store, "go", team=DEV)
    await store.queue.complete(await take(store), Outcome("ok", handoffs=(Handoff(TESTER, "test", DEV),)))
    assert "team_chain_end" not in await types_of(store.events)

    await store.queue.abandon(TESTER, reason="@tester was removed")

    end = (await read_all(store.events))[-1]
    assert (end.type, end.payload) == ("team_chain_end", {"team_id": DEV, "total_steps": 2})


async def test_an_abandoned_message_can_be_retried(store: Store) -> None:
    number = await say(store, "one")
    await store.queue.abandon(CODER, reason=REASON)

    await store.queue.retry_dead(number)

    assert await run_all(store) == [["one"]]


async def test_more_than_a_slice_is_abandoned_and_moved(store: Store) -> None:
    many = LANE_SLICE * 2 + 5
    await store.queue.enqueue_many([NewMessage(str(number), CODER) for number in range(many)])

    assert await store.queue.move(CODER, WRITER) == many
    assert await store.queue.abandon(WRITER, reason=REASON) == many

    depth = await store.queue.depth()
    assert (depth.pending, depth.dead, depth.outgoing) == (0, many, many)


async def test_an_empty_lane_has_nothing_to_abandon_or_move(store: Store) -> None:
    assert await store.queue.abandon(CODER, reason=REASON) == 0
    assert await store.queue.move(CODER, WRITER) == 0
    assert await types_of(store.events) == []


async def test_moved_messages_run_in_the_other_lane_in_order(store: Store) -> None:
    await say(store, "one")
    await say(store, "two", WRITER)
    await say(store, "three")
    await say(store, "first", priority=5)

    assert await store.queue.move(CODER, WRITER) == 3

    assert await store.queue.claim(CODER) is None
    assert await run_all(store, WRITER) == [["one"], ["two"], ["three"], ["first"]], "one thread, in its order"


async def test_moving_changes_only_the_lane(store: Store, clock: FakeClock) -> None:
    number = await say(store, "one", sender="Ada", channel="web")
    before = await store.queue.message(number)
    clock.now += 5

    await store.queue.move(CODER, WRITER)

    event = (await read_all(store.events))[-1]
    assert (event.type, event.agent, event.payload) == ("message_moved", CODER, {"id": number, "to_agent": WRITER})
    assert before is not None
    assert await store.queue.message(number) == before._replace(
        agent=WRITER, updated_at=clock.now, last_event_id=event.id
    )
    lanes = (await store.queue.depth()).lanes
    assert lanes == (LaneDepth(CODER), LaneDepth(WRITER, pending=1))


async def test_a_moved_message_in_back_off_still_holds_back_its_thread(store: Store, clock: FakeClock) -> None:
    await say(store, "fails", channel="web", sender="Ada")
    await store.queue.fail(await take(store), STUMBLE)
    await say(store, "follows", channel="web", sender="Ada")
    await say(store, "other", channel="web", sender="Grace")

    assert await store.queue.move(CODER, WRITER) == 3

    assert texts(await take(store, WRITER)) == ["other"]
    assert await store.queue.claim(WRITER) is None


async def test_a_slice_moves_messages_in_back_off_first(store: Store, clock: FakeClock) -> None:
    await store.queue.enqueue_many([NewMessage(str(number), CODER, sender="crowd") for number in range(LANE_SLICE)])
    await say(store, "fails", sender="Ada", priority=9)
    await store.queue.fail(await take(store), STUMBLE)

    await store.queue.move(CODER, WRITER)

    moved = [event.payload["id"] for event in await read_all(store.events) if event.type == "message_moved"]
    assert moved.index(LANE_SLICE + 1) < LANE_SLICE


async def test_a_running_message_is_not_moved(store: Store) -> None:
    await say(store, "runs")
    claim = await take(store)

    assert await store.queue.move(CODER, WRITER) == 0

    assert await store.queue.complete(claim, Outcome("done")) == ()


async def test_a_lane_is_not_moved_to_itself_or_to_an_invalid_agent(store: Store) -> None:
    await say(store, "one")
    events = len(await read_all(store.events))

    assert await store.queue.move(CODER, CODER) == 0
    with pytest.raises(InvalidInput, match="not an agent id"):
        await store.queue.move(CODER, AgentId("Not An Id"))

    assert len(await read_all(store.events)) == events
    assert await run_all(store) == [["one"]]
