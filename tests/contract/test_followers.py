"""Followers: waiting messages that would share the current run if it started now."""

import pytest

from tests.contract.conftest import TESTER
from tests.contract.test_claim import STUMBLE, say, take
from tests.support.clock import FakeClock
from tinyagi.domain.messages import MAX_MESSAGES
from tinyagi.store.store import Store


async def test_the_newest_message_of_the_same_chat_is_a_follower(store: Store, clock: FakeClock) -> None:
    await say(store, "first", channel="web", sender="ada")
    claim = await take(store)
    assert await store.queue.newest_follower(claim) is None

    clock.now += 100
    await say(store, "second", channel="web", sender="ada")
    clock.now += 100
    await say(store, "third", channel="web", sender="ada")
    newest = clock.now
    clock.now += 100

    assert await store.queue.newest_follower(claim) == newest


async def test_messages_of_other_threads_or_later_times_are_no_followers(store: Store, clock: FakeClock) -> None:
    await say(store, "first", channel="web", sender="ada")
    claim = await take(store)
    await say(store, "somebody else", channel="web", sender="bob")
    await say(store, "elsewhere", channel="telegram", sender="ada")
    await say(store, "another lane", TESTER, channel="web", sender="ada")
    await say(store, "not yet due", channel="web", sender="ada", available_at=clock.now + 1)

    assert await store.queue.newest_follower(claim) is None


@pytest.mark.parametrize("channel", ["api", "cli", "schedule"])
async def test_a_direct_call_has_no_followers(store: Store, channel: str) -> None:
    await say(store, "first", channel=channel)
    claim = await take(store)
    await say(store, "second", channel=channel)

    assert await store.queue.newest_follower(claim) is None


async def test_a_run_of_a_retried_message_has_no_followers(store: Store, clock: FakeClock) -> None:
    await say(store, "first", channel="web")
    await store.queue.fail(await take(store), STUMBLE)
    clock.now += 60_000
    claim = await take(store)
    await say(store, "second", channel="web")

    assert await store.queue.newest_follower(claim) is None


async def test_a_full_run_has_no_followers(store: Store) -> None:
    for number in range(MAX_MESSAGES):
        await say(store, str(number), channel="web")
    claim = await take(store)
    await say(store, "one too many", channel="web")

    assert len(claim.messages) == MAX_MESSAGES
    assert await store.queue.newest_follower(claim) is None
