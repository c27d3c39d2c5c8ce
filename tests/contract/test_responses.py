from datetime import timedelta

import pytest

from tests.contract.conftest import CODER
from tests.contract.test_claim import say, take
from tests.support.clock import FakeClock
from tests.support.log import read_all
from tinyagi.domain.errors import NotFound
from tinyagi.domain.limits import Retention
from tinyagi.domain.messages import NewMessage
from tinyagi.domain.responses import NewResponse, ResponseStatus
from tinyagi.domain.runs import Outcome
from tinyagi.store.store import Store


async def send_response(store: Store, text: str, person: str = "Ada", channel: str = "telegram") -> int:
    return (await store.responses.send(NewResponse(channel, person, text, sender_id=person))).id


async def waiting(store: Store, channel: str = "telegram") -> list[str]:
    return [response.message for response in await store.responses.pending(channel)]


async def test_responses_wait_for_their_channel_oldest_first(store: Store) -> None:
    await send_response(store, "one")
    await send_response(store, "other", channel="discord")
    await send_response(store, "two")

    assert await waiting(store) == ["one", "two"]
    assert [response.message for response in await store.responses.recent(limit=2)] == ["two", "other"]
    assert (await store.queue.depth()).outgoing == 3


async def test_a_proactive_response_gets_an_id(store: Store) -> None:
    response = await store.responses.send(NewResponse("telegram", "Ada", "hello", agent=CODER, files=("a.md",)))

    assert response.message_id.startswith("proactive_")
    assert (response.files, response.agent, response.conversation_id) == ('["a.md"]', CODER, None)


async def test_an_acknowledged_response_is_done(store: Store) -> None:
    number = await send_response(store, "one")

    await store.responses.ack(number)
    await store.responses.ack(number)

    assert await waiting(store) == []
    assert [event.type for event in await read_all(store.events)] == ["response_ready", "response_acked"]
    with pytest.raises(NotFound):
        await store.responses.ack(999)


async def test_a_failing_response_backs_off_and_holds_back_only_its_chat(store: Store, clock: FakeClock) -> None:
    first = await send_response(store, "one", "Ada")
    await send_response(store, "two", "Ada")
    await send_response(store, "three", "Grace")

    assert await store.responses.fail(first, "503")

    assert await waiting(store) == ["three"]
    clock.advance(timedelta(seconds=3))
    assert await waiting(store) == ["one", "three"]
    await store.responses.ack(first)
    assert await waiting(store) == ["two", "three"]


async def test_a_response_that_comes_during_a_back_off_does_not_overtake_earlier_ones(
    store: Store, clock: FakeClock
) -> None:
    first = await send_response(store, "one", "Ada")
    await send_response(store, "two", "Ada")
    await store.responses.fail(first, "503")
    assert await waiting(store) == []
    await send_response(store, "three", "Ada")
    await send_response(store, "to another", "Grace")
    clock.advance(timedelta(seconds=3))

    assert await waiting(store) == ["one", "to another"]
    await store.responses.ack(first)
    assert await waiting(store) == ["two", "three", "to another"]


async def test_later_responses_are_delivered_after_a_response_fails_for_good(store: Store, clock: FakeClock) -> None:
    first = await send_response(store, "one", "Ada")
    for number in range(150):
        await send_response(store, f"later {number}", "Ada")
    while await store.responses.fail(first, "gone"):
        assert await waiting(store) == []
        clock.advance(timedelta(hours=1))

    delivered = []
    while page := await store.responses.pending("telegram", limit=40):
        for response in page:
            delivered.append(response.message)
            await store.responses.ack(response.id)

    assert delivered == [f"later {number}" for number in range(150)]


async def test_people_without_an_id_are_distinguished_by_name(store: Store) -> None:
    for person in ("Ada", "Grace"):
        await store.responses.send(NewResponse("telegram", person, f"to {person}"))
    (first, _) = await store.responses.pending("telegram")

    await store.responses.fail(first.id, "503")

    assert await waiting(store) == ["to Grace"]


async def test_a_response_fails_for_good_after_ten_tries(store: Store, clock: FakeClock) -> None:
    number = await send_response(store, "one")
    tries = 0
    while await store.responses.fail(number, "gone"):
        tries += 1
        clock.advance(timedelta(hours=1))

    assert tries == 9
    (response,) = await store.responses.recent()
    assert (response.status, response.attempts, response.last_error) == (ResponseStatus.FAILED, 10, "gone")
    with pytest.raises(NotFound):
        await store.responses.ack(number)


async def test_an_unfetched_response_fails_after_a_week_and_stays_visible(store: Store, clock: FakeClock) -> None:
    await say(store, "x")
    await store.queue.complete(await take(store), Outcome("answer"))
    clock.advance(timedelta(days=7, seconds=1))
    await send_response(store, "young")

    report = await store.queue.prune(Retention())

    assert report.unfetched == 1
    old = next(response for response in await store.responses.recent() if response.message == "answer")
    assert (old.status, old.last_error) == (ResponseStatus.FAILED, "no client fetched it")
    assert await waiting(store) == ["young"]


@pytest.mark.parametrize("channel", ["heartbeat", "schedule", "board"])
async def test_a_response_to_a_channel_without_clients_is_acked_at_once(
    store: Store, clock: FakeClock, channel: str
) -> None:
    await store.queue.enqueue(NewMessage("anything new?", CODER, channel=channel))
    claim = await store.queue.claim(CODER)
    assert claim is not None
    await store.queue.complete(claim, Outcome("no"))

    (response,) = await store.responses.recent()
    assert (response.status, response.acked_at) == (ResponseStatus.ACKED, clock())
    assert await store.responses.pending(channel) == ()
    assert (await store.queue.depth()).outgoing == 0
    clock.advance(timedelta(hours=25))
    assert (await store.queue.prune(Retention())).responses == 1
