"""Pairing: unknown people get a code for an hour, and approved people may write."""

import asyncio
from datetime import timedelta

import pytest

from tests.support.clock import FakeClock
from tinyagi.domain.errors import InvalidInput, NotFound
from tinyagi.domain.pairing import PairedSender, PairingRequest
from tinyagi.store.pairing import ALPHABET, CODE_LENGTH, CODE_LIFE, MAX_PENDING
from tinyagi.store.store import Store

HOUR = CODE_LIFE // timedelta(milliseconds=1)


async def ask(store: Store, sender_id: str = "1", channel: str = "telegram", sender: str = "Ada") -> PairingRequest:
    answer = await store.pairing.ask(channel, sender_id, sender)
    assert answer is not None
    request, is_new = answer
    assert is_new
    return request


async def test_an_unknown_sender_gets_a_code_for_an_hour(store: Store, clock: FakeClock) -> None:
    request = await ask(store)

    assert len(request.code) == CODE_LENGTH
    assert set(request.code) <= set(ALPHABET)
    assert request == PairingRequest(request.code, "telegram", "1", "Ada", clock.now, clock.now + HOUR)
    assert await store.pairing.pending() == (request,)
    assert not await store.pairing.is_approved("telegram", "1", "Ada")


async def test_asking_again_returns_the_same_code_until_it_expires(store: Store, clock: FakeClock) -> None:
    first = await ask(store)
    clock.now += HOUR - 1

    assert await store.pairing.ask("telegram", "1", "Ada L.") == (first, False)
    clock.now += 1
    second = await ask(store)
    assert second.code != first.code
    assert await store.pairing.pending() == (second,)


async def test_every_sender_gets_a_different_code(store: Store) -> None:
    codes = await asyncio.gather(*(ask(store, str(number)) for number in range(20)), ask(store, "1", "discord"))

    assert len({request.code for request in codes}) == 21
    assert len(await store.pairing.pending()) == 21


async def test_at_most_a_hundred_requests_are_pending(store: Store, clock: FakeClock) -> None:
    first = await ask(store, "0")
    clock.now += 1
    for number in range(1, MAX_PENDING):
        await ask(store, str(number))

    assert await store.pairing.ask("telegram", "late", "Eve") is None
    assert await store.pairing.ask("telegram", "0", "Ada") == (first, False)
    clock.now = first.expires_at
    assert (await ask(store, "late")).sender_id == "late"
    assert await store.pairing.ask("telegram", "later", "Eve") is None


async def test_an_approved_sender_may_write(store: Store, clock: FakeClock) -> None:
    request = await ask(store)
    clock.now += 7

    person = await store.pairing.approve(f" {request.code.lower()}")

    assert person == PairedSender("telegram", "1", "Ada", clock.now, request.code)
    assert await store.pairing.is_approved("telegram", "1", "Ada")
    assert not await store.pairing.is_approved("discord", "1", "Ada")
    assert not await store.pairing.is_approved("telegram", "2", "Ada")
    assert await store.pairing.approved() == (person,)
    assert await store.pairing.pending() == ()


async def test_a_code_can_be_approved_once(store: Store) -> None:
    request = await ask(store)
    await store.pairing.approve(request.code)

    with pytest.raises(NotFound, match="unknown or has expired"):
        await store.pairing.approve(request.code)


async def test_an_expired_code_is_unknown(store: Store, clock: FakeClock) -> None:
    request = await ask(store)
    clock.now = request.expires_at

    assert await store.pairing.pending() == ()
    with pytest.raises(NotFound):
        await store.pairing.approve(request.code)
    with pytest.raises(NotFound):
        await store.pairing.reject(request.code)
    assert not await store.pairing.is_approved("telegram", "1", "Ada")


async def test_a_rejected_code_is_unknown(store: Store) -> None:
    request = await ask(store)

    await store.pairing.reject(request.code.lower())

    assert await store.pairing.pending() == ()
    with pytest.raises(NotFound, match=request.code):
        await store.pairing.approve(request.code)
    with pytest.raises(NotFound):
        await store.pairing.reject(request.code)


async def test_an_unpaired_sender_is_no_longer_approved(store: Store) -> None:
    await store.pairing.approve((await ask(store)).code)
    other = await store.pairing.approve((await ask(store, "2", sender="Grace")).code)

    await store.pairing.unpair("telegram", "1")

    assert await store.pairing.approved() == (other,)
    assert not await store.pairing.is_approved("telegram", "1", "Ada")
    with pytest.raises(NotFound, match="not paired"):
        await store.pairing.unpair("telegram", "1")


async def test_a_second_approval_updates_only_the_name(store: Store, clock: FakeClock) -> None:
    first = await store.pairing.approve((await ask(store)).code)
    clock.now += 5

    again = await store.pairing.approve((await ask(store, sender="Ada L.")).code)

    assert again == PairedSender("telegram", "1", "Ada L.", first.approved_at, first.approved_code)
    assert await store.pairing.approved() == (again,)


async def test_imported_people_are_approved_and_existing_ones_stay(store: Store) -> None:
    here = await store.pairing.approve((await ask(store)).code)
    bob = PairedSender("discord", "9", "Bob", 5, "HGFEDCBA")
    cy = PairedSender("telegram", "2", "Cy", 6, None)

    new = await store.pairing.import_people([bob, cy, PairedSender("telegram", "1", "Ada elsewhere", 1, None), bob])

    assert new == 2
    assert await store.pairing.approved() == (bob, cy, here)
    assert await store.pairing.is_approved("discord", "9", "Ada")
    assert await store.pairing.import_people([bob, cy]) == 0


async def test_a_sender_id_with_a_control_character_gets_no_code(store: Store) -> None:
    with pytest.raises(InvalidInput, match="control character"):
        await ask(store, "1\n2")

    assert await store.pairing.pending() == ()
