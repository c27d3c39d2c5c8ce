"""Waiting for a budget or a person: held teams, withheld runs, and lifted holds."""

from collections.abc import Awaitable, Callable

import pytest

from tests.contract.conftest import CODER, DEV
from tests.contract.test_claim import claimable, run_all, say, take, texts
from tests.support.clock import FakeClock
from tests.support.log import read_all, types_of
from tinyagi.domain.events import BudgetReached
from tinyagi.domain.ids import TeamId
from tinyagi.domain.messages import PASSIVE_PRIORITY, ROOM_CHANNEL, ROOM_PRIORITY, Batching
from tinyagi.domain.runs import Claim, Deferral, Outcome
from tinyagi.store.store import Store

HELD = frozenset({DEV})
OPS = TeamId("ops")
EVERY_BATCHING = pytest.mark.parametrize("batching", list(Batching))

Taking = Callable[[Store, Batching], Awaitable[Claim | None]]


async def by_claim(store: Store, batching: Batching) -> Claim | None:
    return await store.queue.claim(CODER, batching=batching, held_teams=HELD)


async def by_completion(store: Store, batching: Batching) -> Claim | None:
    await say(store, "before", priority=9, sender="before")
    before = await store.queue.claim(CODER, batching=Batching.NONE)
    assert before is not None
    _, following = await store.queue.complete_and_claim(before, Outcome("done"), batching=batching, held_teams=HELD)
    return following


BOTH_WAYS = pytest.mark.parametrize("claim", [by_claim, by_completion])


@BOTH_WAYS
@EVERY_BATCHING
async def test_messages_of_a_held_team_are_skipped(store: Store, claim: Taking, batching: Batching) -> None:
    await say(store, "held", team=DEV, sender="a")
    await say(store, "other team", team=OPS, sender="b")

    taken = await claim(store, batching)

    assert taken is not None
    assert texts(taken) == ["other team"]


@BOTH_WAYS
async def test_a_lane_with_only_held_messages_gives_no_claim(store: Store, claim: Taking) -> None:
    await say(store, "held", team=DEV)

    assert await claim(store, Batching.THREAD) is None
    assert await run_all(store) == [["held"]]


@EVERY_BATCHING
async def test_messages_of_a_held_team_do_not_join_a_run(store: Store, batching: Batching) -> None:
    await say(store, "question", channel="web", sender="ada")
    await say(store, "for the team", channel="web", sender="ada", team=DEV)
    for priority in (ROOM_PRIORITY, PASSIVE_PRIORITY):
        await say(store, "post", channel=ROOM_CHANNEL, team=DEV, priority=priority)

    taken = await by_claim(store, batching)

    assert taken is not None
    assert texts(taken) == ["question"]


async def test_a_post_behind_many_held_posts_joins_the_run(store: Store) -> None:
    for _ in range(25):
        await say(store, "held", channel=ROOM_CHANNEL, team=DEV, priority=ROOM_PRIORITY)
    await say(store, "theirs", channel=ROOM_CHANNEL, team=OPS, priority=ROOM_PRIORITY)
    await say(store, "question")

    taken = await by_claim(store, Batching.THREAD)

    assert taken is not None
    assert texts(taken) == ["question", "theirs"]


async def test_a_delayed_message_of_a_held_team_waits_when_due(store: Store, clock: FakeClock) -> None:
    await say(store, "delayed", team=DEV, available_at=clock.now + 5)
    clock.now += 5

    assert await by_claim(store, Batching.THREAD) is None


async def test_an_urgent_message_overtakes_a_held_message_of_its_thread(store: Store) -> None:
    await say(store, "held", sender="ada", team=DEV)
    await say(store, "urgent", sender="ada", priority=5)

    taken = await by_claim(store, Batching.NONE)

    assert taken is not None
    assert texts(taken) == ["urgent"]


async def test_batching_all_skips_a_held_message_within_a_thread(store: Store) -> None:
    await say(store, "held", sender="ada", team=DEV)
    await say(store, "urgent", sender="ada", priority=5)
    await say(store, "first", sender="bob", priority=9)

    taken = await by_claim(store, Batching.ALL)

    assert taken is not None
    assert texts(taken) == ["first", "urgent"]


async def test_a_withheld_run_is_recorded_with_a_notice_and_holds_its_lane(store: Store, clock: FakeClock) -> None:
    number = await say(store, "x", sender="Ada")
    until = clock.now + 10_000
    fact = BudgetReached("agent:coder", "the daily budget is used up", until)

    await store.queue.release(await take(store), reason="over budget", withheld=Deferral(fact, "it waits", until))

    message = await store.queue.message(number)
    assert message is not None
    assert (message.status, message.retry_count) == ("pending", 0)
    recorded = (await read_all(store.events))[-4:]
    assert [event.type for event in recorded] == ["message_released", "budget_reached", "response_ready", "lane_held"]
    assert (recorded[1].message_id, recorded[1].agent, recorded[1].payload["until"]) == (
        message.message_id,
        CODER,
        until,
    )
    (notice,) = await store.responses.pending("api")
    assert (notice.message, notice.sender, notice.seq) == ("it waits", "Ada", 1)
    (lane,) = await store.lanes.all()
    assert (lane.hold_until, lane.hold_reason, lane.claim_id) == (until, "over budget", None)
    assert await store.queue.claim(CODER) is None
    clock.now = until
    assert (await take(store)).attempt == 1


async def test_a_run_can_be_withheld_without_holding_the_lane(store: Store) -> None:
    await say(store, "x", team=DEV)
    fact = BudgetReached("team:dev", "the daily budget is used up", 5)

    await store.queue.release(await take(store), reason="over budget", withheld=Deferral(fact, "it waits"))

    assert "lane_held" not in await types_of(store.events)
    assert await claimable(store) == (CODER,)
    assert await by_claim(store, Batching.THREAD) is None


async def test_a_withheld_room_post_sends_no_notice(store: Store) -> None:
    await say(store, "post", channel=ROOM_CHANNEL, team=DEV, priority=ROOM_PRIORITY)
    fact = BudgetReached("team:dev", "the daily budget is used up", 5)

    await store.queue.release(await take(store), reason="over budget", withheld=Deferral(fact, "it waits"))

    assert await store.responses.recent() == ()
    assert (await types_of(store.events))[-1] == "budget_reached"


async def test_a_hold_can_be_lifted(store: Store, clock: FakeClock) -> None:
    await say(store, "x")
    await store.lanes.hold(CODER, until=clock.now + 10_000, reason="over budget")

    await store.lanes.hold(CODER, until=0, reason="the limit was raised")

    (lane,) = await store.lanes.all()
    assert (lane.hold_until, lane.hold_reason, lane.holds) == (0, None, 0)
    event = (await read_all(store.events))[-1]
    assert (event.type, event.payload["hold_until"]) == ("lane_held", 0)
    assert event.payload["reason"] == "the limit was raised"
    assert await claimable(store) == (CODER,)
    assert await store.queue.next_due_at() is None
    assert texts(await take(store)) == ["x"]
