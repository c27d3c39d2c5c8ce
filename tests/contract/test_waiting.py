"""Waiting messages: they are listed with what they wait for, and can be cancelled or moved."""

import pytest

from tests.contract.conftest import CODER, DEV, TESTER, WRITER
from tests.contract.test_claim import STUMBLE, run_all, say, take
from tests.support.clock import FakeClock
from tests.support.log import read_all, types_of
from tinyagi.domain.errors import Conflict, InvalidInput, NotFound
from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import Status
from tinyagi.domain.runs import Handoff, Outcome, RoomPost
from tinyagi.store.lanes import LaneDepth
from tinyagi.store.queue import Retrying
from tinyagi.store.store import Store


async def test_waiting_messages_are_listed_in_the_order_they_came(store: Store) -> None:
    first = await say(store, "one")
    second = await say(store, "two", WRITER)
    third = await say(store, "three", priority=5)

    waiting = await store.queue.waiting()

    assert [one.message.id for one in waiting] == [first, second, third]
    assert [one.message.id for one in await store.queue.waiting(agent=CODER)] == [first, third]
    assert [one.message.id for one in await store.queue.waiting(limit=1)] == [first]
    assert [one.message.id for one in await store.queue.waiting(after=first, limit=1)] == [second]


async def test_running_and_completed_messages_are_not_listed(store: Store) -> None:
    await say(store, "done")
    await store.queue.complete(await take(store), Outcome("ok"))
    await say(store, "runs")
    await take(store)

    assert await store.queue.waiting() == ()


async def test_a_message_names_the_one_before_it_in_its_thread(store: Store) -> None:
    first = await say(store, "one", sender="Ada")
    other = await say(store, "another", sender="Grace")
    second = await say(store, "two", sender="Ada")

    behind = {one.message.id: one.behind for one in await store.queue.waiting()}

    assert behind == {first: None, other: None, second: first}


async def test_a_message_names_the_one_in_back_off_before_it(store: Store) -> None:
    failing = await say(store, "fails", sender="Ada")
    await store.queue.fail(await take(store), STUMBLE)
    later = await say(store, "later", sender="Ada")

    for _ in range(2):
        waiting = {one.message.id: (one.waits_for, one.behind) for one in await store.queue.waiting()}
        assert waiting[failing] == ("time", None)
        assert waiting[later][1] == failing
        assert await store.queue.claim(CODER) is None


async def test_messages_in_back_off_are_counted_with_the_next_attempt(store: Store, clock: FakeClock) -> None:
    assert await store.queue.retrying() == Retrying(0, None)
    await say(store, "fails", sender="Ada")
    await store.queue.fail(await take(store), STUMBLE)
    await say(store, "delayed", available_at=clock.now + 1)

    counted = await store.queue.retrying()

    assert counted == Retrying(1, next(iter(await store.queue.waiting())).message.available_at)


async def test_a_cancelled_message_is_dead_and_its_sender_gets_a_notice(store: Store) -> None:
    number = await say(store, "one", sender="Ada", channel="web")

    cancelled = await store.queue.cancel(number, reason="cancelled by its owner")

    assert cancelled.agent == CODER
    (dead,) = await store.queue.dead()
    assert (dead.id, dead.last_error, dead.retry_count) == (number, "cancelled by its owner", 0)
    (notice,) = await store.responses.pending("web")
    assert notice.message == "This message to @coder was cancelled before it was answered."
    event = next(event for event in await read_all(store.events) if event.type == "message_dead")
    assert (event.payload["kind"], event.payload["claim_id"]) == ("abandoned", None)
    depth = await store.queue.depth()
    assert (depth.pending, depth.dead, depth.open_conversations) == (0, 1, 0)


async def test_cancelling_a_message_in_back_off_unblocks_its_thread(store: Store) -> None:
    failing = await say(store, "fails", sender="Ada")
    await store.queue.fail(await take(store), STUMBLE)
    await say(store, "later", sender="Ada")
    assert await store.queue.claim(CODER) is None, "parks what waits behind"

    await store.queue.cancel(failing, reason="cancelled")

    assert await run_all(store) == [["later"]]


async def test_cancelling_the_last_message_ends_the_chain_of_a_team(store: Store) -> None:
    await say(store, "go", team=DEV)
    await store.queue.complete(await take(store), Outcome("ok", handoffs=(Handoff(TESTER, "test", DEV),)))
    (handed_on,) = await store.queue.waiting()

    await store.queue.cancel(handed_on.message.id, reason="cancelled")

    end = (await read_all(store.events))[-1]
    assert (end.type, end.payload) == ("team_chain_end", {"team_id": DEV, "total_steps": 2})


async def test_a_cancelled_room_post_sends_no_notice(store: Store) -> None:
    await store.queue.post(RoomPost(DEV, "line", (CODER,), "a line"), sender="ada")
    (post,) = await store.queue.waiting()

    await store.queue.cancel(post.message.id, reason="cancelled")

    assert await store.responses.recent() == ()


async def test_a_moved_message_runs_in_the_other_lane(store: Store) -> None:
    moved = await say(store, "one", sender="Ada")
    await say(store, "two", sender="Ada")

    message = await store.queue.move_message(moved, WRITER)

    assert (message.agent, message.status) == (WRITER, Status.PENDING)
    assert await run_all(store, WRITER) == [["one"]]
    assert await run_all(store) == [["two"]]
    event = next(event for event in await read_all(store.events) if event.type == "message_moved")
    assert (event.agent, event.payload) == (CODER, {"id": moved, "to_agent": WRITER})


async def test_moving_a_message_in_back_off_unblocks_its_thread(store: Store) -> None:
    failing = await say(store, "fails", sender="Ada")
    await store.queue.fail(await take(store), STUMBLE)
    await say(store, "later", sender="Ada")
    assert await store.queue.claim(CODER) is None, "parks what waits behind"

    await store.queue.move_message(failing, WRITER)

    assert await run_all(store) == [["later"]]
    assert await store.queue.claim(WRITER) is None, "it still waits for its time"


async def test_only_waiting_messages_can_be_cancelled_or_moved(store: Store) -> None:
    running = await say(store, "runs")
    claim = await take(store)
    before = await types_of(store.events)

    with pytest.raises(Conflict, match=f"Message {running} is running"):
        await store.queue.cancel(running, reason="cancelled")
    with pytest.raises(Conflict, match="is running"):
        await store.queue.move_message(running, WRITER)
    with pytest.raises(NotFound, match="no message 4711"):
        await store.queue.cancel(4711, reason="cancelled")

    assert await types_of(store.events) == before
    await store.queue.complete(claim, Outcome("done"))
    with pytest.raises(Conflict, match=f"Message {running} is completed"):
        await store.queue.cancel(running, reason="cancelled")


async def test_a_message_can_only_be_moved_to_another_valid_agent(store: Store) -> None:
    number = await say(store, "one")

    with pytest.raises(InvalidInput, match="not an agent id"):
        await store.queue.move_message(number, AgentId("Not An Id"))
    with pytest.raises(Conflict, match="already waits for @coder"):
        await store.queue.move_message(number, CODER)

    assert (await store.queue.depth()).lanes == (LaneDepth(CODER, pending=1),)


async def test_a_message_is_found_by_its_message_id(store: Store) -> None:
    number = await say(store, "one", message_id="cli_1")

    found = await store.queue.message_named("cli_1")

    assert found is not None
    assert found.id == number
    assert await store.queue.message_named("cli_2") is None
