"""Costs of runs: added up by complete and fail, recorded once per run."""

import asyncio

import pytest

from tests.contract.conftest import CODER, TESTER, WRITER
from tests.contract.test_claim import say, take
from tests.support.clock import FakeClock
from tests.support.log import read_all
from tinyagi.domain.errors import ClaimLost
from tinyagi.domain.limits import Charge, Spent, Usage
from tinyagi.domain.messages import ROOM_CHANNEL, ROOM_PRIORITY
from tinyagi.domain.retry import Failure, FailureKind, RetryPolicy
from tinyagi.domain.runs import Outcome
from tinyagi.store.store import Store

DAY = "2026-01-01"
CHARGE = Charge(DAY, ("*", "agent:coder"), 100, 0.25)


async def test_a_completed_run_is_charged_to_every_scope(store: Store) -> None:
    await say(store, "x")
    await store.queue.complete(await take(store), Outcome("done", charge=CHARGE))

    assert await store.spending.of_day(DAY) == {"*": Spent(100, 0.25), "agent:coder": Spent(100, 0.25)}
    assert await store.spending.of_day("2026-01-02") == {}


async def test_charges_of_runs_written_together_add_up(store: Store) -> None:
    for agent in (CODER, WRITER, TESTER):
        await say(store, "x", agent)
    claims = [await take(store, agent) for agent in (CODER, WRITER, TESTER)]

    await asyncio.gather(
        *(
            store.queue.complete(claim, Outcome("done", charge=Charge(DAY, ("*", f"agent:{claim.agent}"), 10, 0.5)))
            for claim in claims
        )
    )

    spent = await store.spending.of_day(DAY)
    assert spent["*"] == Spent(30, 1.5)
    assert spent["agent:writer"] == Spent(10, 0.5)


async def test_a_failed_run_is_charged(store: Store) -> None:
    await say(store, "x")
    await store.queue.complete(await take(store), Outcome("done", charge=CHARGE))
    await say(store, "y")
    await store.queue.fail(await take(store), Failure(FailureKind.MESSAGE, "exit code 1", charge=CHARGE))

    assert (await store.spending.of_day(DAY))["*"] == Spent(200, 0.5)


async def test_a_stale_holder_is_charged_nothing(store: Store) -> None:
    await say(store, "x")
    stale = await take(store)
    await store.queue.release(stale, reason="shutdown")

    with pytest.raises(ClaimLost):
        await store.queue.complete(stale, Outcome("late", charge=CHARGE))
    with pytest.raises(ClaimLost):
        await store.queue.fail(stale, Failure(FailureKind.MESSAGE, "late", charge=CHARGE))

    assert await store.spending.of_day(DAY) == {}


async def test_the_usage_of_a_failed_run_is_recorded_with_its_primary_only(store: Store) -> None:
    first = await say(store, "m0", channel="web")
    second = await say(store, "m1", channel="web")
    usage = Usage(7, 3, cost=0.1)

    await store.queue.fail(await take(store), Failure(FailureKind.MESSAGE, "exit code 1", usage=usage))

    usages = {event.payload["id"]: event.payload["usage"] for event in (await read_all(store.events))[-2:]}
    assert usages[first]["input_tokens"] == 7
    assert usages[second] is None


async def test_the_usage_of_the_last_attempt_is_recorded(store: Store) -> None:
    await say(store, "x")
    failure = Failure(FailureKind.MESSAGE, "exit code 1", usage=Usage(7))

    await store.queue.fail(await take(store), failure, policy=RetryPolicy(attempts=1))

    dead = next(event for event in await read_all(store.events) if event.type == "message_dead")
    assert dead.payload["usage"]["input_tokens"] == 7


async def test_a_failure_can_send_a_notice_while_the_message_waits(store: Store, clock: FakeClock) -> None:
    await say(store, "m0", channel="web", sender="Ada")
    await say(store, "m1", channel="web", sender="Ada")
    missing = Failure(FailureKind.UNAVAILABLE, "no such program", notice="it waits for a program")

    await store.queue.fail(await take(store), missing)

    (notice,) = await store.responses.pending("web")
    assert (notice.message, notice.sender, notice.seq) == ("it waits for a program", "Ada", 1)
    assert notice.original_message == "m0"
    clock.now = await store.queue.next_due_at() or 0
    await store.queue.complete(await take(store), Outcome("answer"))
    assert [response.seq for response in await store.responses.pending("web")] == [1, 0]


async def test_a_dead_message_sends_only_its_final_notice(store: Store) -> None:
    await say(store, "x")
    failure = Failure(FailureKind.MESSAGE, "exit code 1", notice="still trying")

    await store.queue.fail(await take(store), failure, policy=RetryPolicy(attempts=1))

    (notice,) = await store.responses.pending("api")
    assert "still trying" not in notice.message


async def test_a_failed_room_post_sends_no_notice(store: Store) -> None:
    await say(store, "post", channel=ROOM_CHANNEL, priority=ROOM_PRIORITY, team="dev")

    await store.queue.fail(await take(store), Failure(FailureKind.MESSAGE, "exit code 1", notice="still trying"))

    assert await store.responses.recent() == ()
