"""Claims of dead processes. The owners here are invented; tests/e2e kills real processes."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.contract.conftest import CODER, TESTER, WRITER
from tests.contract.test_claim import run_all, say, take
from tests.support.clock import FakeClock
from tests.support.log import types_of
from tinyagi.domain.errors import ClaimLost
from tinyagi.domain.ids import ClaimId
from tinyagi.domain.messages import Status
from tinyagi.domain.retry import RetryPolicy
from tinyagi.domain.runs import Outcome
from tinyagi.store.store import Store
from tinyagi.system.processes import ProcessIdentity

HERE = ProcessIdentity("here", "boot", 1, 1.0)
Alive = Callable[[ProcessIdentity], bool | None]


@asynccontextmanager
async def two_stores(database: Path, clock: FakeClock, alive: Alive) -> AsyncIterator[tuple[Store, Store]]:
    """A holder, and a second process that may recover its claims."""
    async with (
        await Store.open(database, clock=clock, owner=HERE, dice=random.Random(1)) as holder,
        await Store.open(database, clock=clock, alive=alive, dice=random.Random(2)) as other,
    ):
        yield holder, other


async def test_a_dead_process_loses_its_claim_at_once(database: Path, clock: FakeClock) -> None:
    async with two_stores(database, clock, lambda owner: False) as (holder, other):
        number = await say(holder, "x")
        claim = await take(holder)

        assert await other.queue.recover() == 1

        message = await other.queue.message(number)
        assert message is not None
        assert (message.status, message.retry_count, message.available_at) == (Status.PENDING, 1, 0)
        assert (await types_of(other.events))[-1] == "message_recovered"
        assert (await take(other)).attempt == 2
        with pytest.raises(ClaimLost):
            await holder.queue.complete(claim, Outcome("too late"))


async def test_lost_claims_are_listed_and_can_be_recovered_one_by_one(database: Path, clock: FakeClock) -> None:
    async with two_stores(database, clock, lambda owner: owner != HERE) as (holder, other):
        for agent in (CODER, TESTER, WRITER):
            await say(holder, "x", agent)
        first, second = await take(holder, CODER), await take(holder, TESTER)
        await take(other, WRITER)

        assert set(await other.queue.lost_claims()) == {first.id, second.id}
        assert await other.queue.recover([second.id, ClaimId("claim_unknown")]) == 1
        assert await other.queue.lost_claims() == (first.id,)
        assert await other.queue.recover([]) == 0
        assert await other.queue.recover() == 1
        assert (await other.queue.depth()).processing == 1


async def test_recovery_follows_the_given_policy(database: Path, clock: FakeClock) -> None:
    async with two_stores(database, clock, lambda owner: False) as (holder, other):
        number = await say(holder, "x")
        await take(holder)

        await other.queue.recover(policy=RetryPolicy(attempts=1))

        message = await other.queue.message(number)
        assert message is not None
        assert message.status is Status.DEAD


async def test_a_live_process_of_this_host_keeps_its_claim_past_its_lease(database: Path, clock: FakeClock) -> None:
    async with two_stores(database, clock, lambda owner: True) as (holder, other):
        await say(holder, "x")
        claim = await take(holder)
        clock.now += 8 * 3600 * 1000

        assert await other.queue.recover() == 0

        assert await other.queue.claim(CODER) is None
        await holder.queue.complete(claim, Outcome("after a long sleep"))
        assert len(await other.responses.pending("api")) == 1


async def test_a_process_of_another_host_is_judged_by_its_lease(database: Path, clock: FakeClock) -> None:
    async with two_stores(database, clock, lambda owner: None) as (holder, other):
        await say(holder, "x")
        claim = await take(holder)
        clock.now = claim.lease_until
        assert await other.queue.recover() == 0
        clock.now += 1

        assert await other.queue.recover() == 1

        with pytest.raises(ClaimLost):
            await holder.queue.renew(claim)


async def test_a_message_is_dead_after_five_crashes(database: Path, clock: FakeClock) -> None:
    async with two_stores(database, clock, lambda owner: False) as (holder, other):
        number = await say(holder, "poison")
        for _ in range(5):
            await take(holder)
            assert await other.queue.recover() == 1

        message = await other.queue.message(number)

        assert message is not None
        assert message.status is Status.DEAD
        assert len(await other.responses.pending("api")) == 1


async def test_recovery_keeps_the_order_of_the_thread(database: Path, clock: FakeClock) -> None:
    async with two_stores(database, clock, lambda owner: False) as (holder, other):
        for text in ("first", "second", "third"):
            await say(holder, text)
        await take(holder)

        await other.queue.recover()

        assert await run_all(other) == [["first"], ["second"], ["third"]]


async def test_recovery_returns_every_message_of_a_coalesced_run(database: Path, clock: FakeClock) -> None:
    async with two_stores(database, clock, lambda owner: False) as (holder, other):
        for text in ("first", "second", "third"):
            await say(holder, text, channel="web")
        assert len((await take(holder)).messages) == 3

        assert await other.queue.recover() == 3
        assert await other.queue.recover() == 0
        assert (await other.queue.depth()).processing == 0
