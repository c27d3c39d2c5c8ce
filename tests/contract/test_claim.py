import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.contract.conftest import CODER, DEV, TESTER, WRITER
from tests.support.clock import FakeClock
from tests.support.log import read_all
from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import CHAT_CHANNELS, ROOM_CHANNEL, ROOM_PRIORITY, Batching, NewMessage, Status
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.runs import Claim, Outcome
from tinyagi.store.store import Store

STUMBLE = Failure(FailureKind.MESSAGE, "exit code 1")


async def say(store: Store, text: str, agent: AgentId = CODER, **fields: Any) -> int:
    new = NewMessage(text, agent)._replace(**fields)
    return (await store.queue.enqueue(new)).id


async def claimable(store: Store) -> tuple[AgentId, ...]:
    return tuple(lane.agent for lane in await store.queue.claimable_lanes())


async def take(store: Store, agent: AgentId = CODER, batching: Batching = Batching.THREAD) -> Claim:
    claim = await store.queue.claim(agent, batching=batching)
    assert claim is not None
    return claim


def texts(claim: Claim) -> list[str]:
    return [message.message for message in claim.messages]


async def run_all(store: Store, agent: AgentId = CODER, batching: Batching = Batching.THREAD) -> list[list[str]]:
    """Run the lane until nothing is due; returns the texts of each run."""
    runs = []
    while claim := await store.queue.claim(agent, batching=batching):
        runs.append(texts(claim))
        await store.queue.complete(claim, Outcome("done"))
    return runs


async def test_a_claim_takes_the_oldest_message_and_the_lane(store: Store, clock: FakeClock) -> None:
    first = await say(store, "one")
    await say(store, "two")
    clock.now += 250

    claim = await take(store)

    assert [message.id for message in claim.messages] == [first]
    assert claim.attempt == 1
    assert claim.lease_until == clock.now + 60_000
    running = await store.queue.message(first)
    assert running is not None
    assert (running.status, running.claim_id, running.started_at) == (Status.PROCESSING, claim.id, clock.now)
    start = (await read_all(store.events))[-1]
    assert (start.type, start.payload["ids"], start.payload["wait_ms"]) == ("chain_step_start", [first], 250)
    assert await store.queue.processing() == (running,)


async def test_a_busy_lane_gives_no_second_claim(store: Store) -> None:
    await say(store, "one")
    await say(store, "two")
    await take(store)

    assert await store.queue.claim(CODER) is None


async def test_one_of_many_concurrent_claims_wins(store: Store) -> None:
    for number in range(5):
        await say(store, str(number))

    claims = await asyncio.gather(*(store.queue.claim(CODER) for _ in range(8)))

    assert sum(claim is not None for claim in claims) == 1


async def test_lanes_do_not_wait_for_each_other(store: Store) -> None:
    await say(store, "a", CODER)
    await say(store, "b", WRITER)

    claims = await asyncio.gather(store.queue.claim(CODER), store.queue.claim(WRITER), store.queue.claim(TESTER))

    assert [claim is not None for claim in claims] == [True, True, False]


async def test_higher_priority_runs_first_and_room_posts_last(store: Store) -> None:
    await say(store, "room", sender="t", channel=ROOM_CHANNEL, team=DEV, priority=ROOM_PRIORITY)
    await say(store, "normal", sender="a")
    await say(store, "urgent", sender="b", priority=5)

    assert await run_all(store, batching=Batching.NONE) == [["urgent"], ["normal"], ["room"]]


async def test_priority_moves_a_whole_thread_and_keeps_its_order(store: Store) -> None:
    await say(store, "b1", sender="b")
    await say(store, "a1", sender="a")
    await say(store, "a2", sender="a", priority=9)

    assert await run_all(store, batching=Batching.NONE) == [["a1"], ["a2"], ["b1"]]


@pytest.mark.parametrize("batching", list(Batching))
async def test_a_delayed_message_that_is_due_is_not_overtaken_in_its_thread(
    store: Store, clock: FakeClock, batching: Batching
) -> None:
    await say(store, "a1", sender="a", available_at=clock.now + 10)
    await say(store, "a2", sender="a", priority=5)
    await say(store, "b1", sender="b", priority=9)
    clock.now += 10

    runs = await run_all(store, batching=batching)

    assert runs == ([["b1", "a1", "a2"]] if batching is Batching.ALL else [["b1"], ["a1"], ["a2"]])


async def test_a_message_in_back_off_holds_back_its_thread_and_no_other(store: Store, clock: FakeClock) -> None:
    await say(store, "a1", sender="a")
    await say(store, "a2", sender="a")
    await say(store, "b1", sender="b")
    await store.queue.fail(await take(store), STUMBLE)

    assert await run_all(store) == [["b1"]]
    due_at = await store.queue.next_due_at()
    assert due_at is not None
    clock.now = due_at - 1
    assert await run_all(store) == []
    clock.now = due_at
    assert await run_all(store) == [["a1"], ["a2"]]


async def test_a_delayed_message_does_not_hold_back_others(store: Store, clock: FakeClock) -> None:
    await say(store, "later", available_at=clock.now + 5000)
    await say(store, "now")

    assert await run_all(store) == [["now"]]
    assert await store.queue.next_due_at() == clock.now + 5000
    clock.advance(timedelta(seconds=5))
    await say(store, "after")
    assert await run_all(store) == [["later"], ["after"]]


async def test_a_paused_lane_gives_nothing_until_it_is_resumed(store: Store) -> None:
    await say(store, "x")
    assert await store.lanes.pause(CODER)
    assert not await store.lanes.pause(CODER)
    assert await store.queue.claim(CODER) is None
    assert await claimable(store) == ()

    assert await store.lanes.resume(CODER)

    assert not await store.lanes.resume(CODER)
    assert await claimable(store) == (CODER,)
    assert texts(await take(store)) == ["x"]


async def test_pausing_lets_the_current_run_finish(store: Store) -> None:
    await say(store, "x")
    claim = await take(store)

    await store.lanes.pause(CODER)

    await store.queue.complete(claim, Outcome("done"))
    assert (await store.queue.depth()).completed == 1


async def test_a_held_lane_waits_for_its_time(store: Store, clock: FakeClock) -> None:
    await say(store, "x")
    await store.lanes.hold(CODER, until=clock.now + 1000, reason="over budget")

    assert await store.queue.claim(CODER) is None
    assert await store.queue.next_due_at() == clock.now + 1000
    (lane,) = await store.lanes.all()
    assert (lane.agent, lane.hold_reason) == (CODER, "over budget")
    clock.now += 1000
    assert await store.queue.claim(CODER) is not None


@pytest.mark.parametrize("channel", sorted(CHAT_CHANNELS))
async def test_waiting_chat_messages_of_one_person_share_a_run(store: Store, channel: str) -> None:
    for number in range(3):
        await say(store, f"a{number}", channel=channel, sender="a")
    await say(store, "b0", channel=channel, sender="b")

    assert await run_all(store) == [["a0", "a1", "a2"], ["b0"]]


@pytest.mark.parametrize("channel", ["api", "cli", "schedule", "heartbeat"])
async def test_direct_calls_run_alone(store: Store, channel: str) -> None:
    await say(store, "one", channel=channel)
    await say(store, "two", channel=channel)

    assert await run_all(store) == [["one"], ["two"]]


async def test_a_hand_off_on_a_chat_channel_runs_alone(store: Store) -> None:
    for number in range(2):
        await say(store, f"h{number}", channel="web", from_agent=WRITER, thread="same")

    assert await run_all(store) == [["h0"], ["h1"]]


async def test_a_run_takes_at_most_twenty_messages(store: Store) -> None:
    for number in range(45):
        await say(store, str(number), channel="web")

    assert [len(run) for run in await run_all(store)] == [20, 20, 5]


async def test_a_run_takes_at_most_32000_characters_but_always_one_message(store: Store) -> None:
    for letter, length in (("a", 40_000), ("b", 20_000), ("c", 12_000), ("d", 1)):
        await say(store, letter * length, channel="web")

    assert [[text[0] for text in run] for run in await run_all(store)] == [["a"], ["b", "c"], ["d"]]


async def test_room_posts_join_the_next_run_of_any_kind(store: Store) -> None:
    await say(store, "post 1", channel=ROOM_CHANNEL, team=DEV, priority=ROOM_PRIORITY)
    await say(store, "question", channel="api")
    await say(store, "post 2", channel=ROOM_CHANNEL, team=DEV, priority=ROOM_PRIORITY)

    claim = await take(store)

    assert texts(claim) == ["question", "post 1", "post 2"]
    assert not claim.is_room_only


async def test_a_run_of_room_posts_sends_no_response(store: Store) -> None:
    for number in range(2):
        await say(store, f"post {number}", channel=ROOM_CHANNEL, team=DEV, priority=ROOM_PRIORITY)

    claim = await take(store)
    await store.queue.complete(claim, Outcome("noted"))

    assert claim.is_room_only
    assert await store.responses.recent() == ()


async def test_a_message_that_failed_before_runs_alone(store: Store, clock: FakeClock) -> None:
    for number in range(3):
        await say(store, f"m{number}", channel="web")
    await store.queue.fail(await take(store), STUMBLE)
    clock.advance(timedelta(minutes=1))

    assert await run_all(store) == [["m0"], ["m1"], ["m2"]]


async def test_batching_all_takes_everything_pending(store: Store) -> None:
    await say(store, "a", channel="api", sender="a")
    await say(store, "b", channel="web", sender="b")
    await say(store, "c", channel="cli", sender="c", priority=3)

    assert await run_all(store, batching=Batching.ALL) == [["c", "a", "b"]]


async def test_batching_all_leaves_delayed_and_backed_off_messages(store: Store, clock: FakeClock) -> None:
    await say(store, "a1", sender="a")
    await say(store, "a2", sender="a")
    await store.queue.fail(await take(store), STUMBLE)
    await say(store, "later", sender="c", available_at=clock.now + 900_000)
    await say(store, "b1", sender="b")
    await say(store, "b2", sender="b")

    assert await run_all(store, batching=Batching.ALL) == [["b1", "b2"]]


async def test_batching_none_takes_one(store: Store) -> None:
    await say(store, "a", channel="web")
    await say(store, "b", channel="web")

    assert await run_all(store, batching=Batching.NONE) == [["a"], ["b"]]


async def test_renewing_extends_the_lease(store: Store, clock: FakeClock) -> None:
    await say(store, "x")
    claim = await take(store)
    clock.now += 30_000

    assert await store.queue.renew(claim, lease=timedelta(seconds=90)) == clock.now + 90_000
    (lane,) = await store.lanes.all()
    assert lane.lease_until == clock.now + 90_000


async def test_a_claim_id_contains_its_event_id(store: Store) -> None:
    await say(store, "x")

    claim = await take(store)

    (start,) = await store.events.read_after(0, event_type="chain_step_start")
    assert claim.id.endswith(f"_{start.id}")
