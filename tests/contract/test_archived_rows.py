"""Pruning rows that the lake has, and recording rows again whose events were pruned."""

from datetime import timedelta

from tests.contract.conftest import CODER
from tests.contract.test_claim import say, take
from tests.contract.test_log_and_prune import finish_one
from tests.support.clock import FakeClock
from tests.support.log import Tables, read_all
from tinyagi.domain.ids import TeamId
from tinyagi.domain.limits import Retention
from tinyagi.domain.retry import Failure, FailureKind, RetryPolicy
from tinyagi.domain.runs import RoomPost
from tinyagi.store.store import Store

DEV = TeamId("dev")
LINE = RoomPost(DEV, "lunch?", (), "lunch?")
LONG = timedelta(days=365)
AT_ONCE = Retention(timedelta(0), timedelta(0), timedelta(0), LONG, timedelta(0), timedelta(0))


async def fill(store: Store) -> None:
    """An answered message, a dead one, a failed response, a line in a room."""
    await finish_one(store, "hello")
    await store.queue.post(LINE, sender="Ada")
    await say(store, "doomed")
    await store.queue.fail(await take(store), Failure(FailureKind.MESSAGE, "no"), policy=RetryPolicy(attempts=1))
    for response in await store.responses.pending("api"):
        await store.responses.fail(response.id, "gone", policy=RetryPolicy(delivery_attempts=1))


async def counts(store: Store) -> tuple[int, int, int, int, int]:
    return (
        len(await store.history.of_agent(CODER)),
        len(await store.history.of_room(DEV)),
        len(await store.queue.dead()),
        len(await store.responses.recent()),
        (await store.queue.depth()).completed,
    )


async def test_history_and_failed_rows_are_kept_without_a_lake(store: Store, clock: FakeClock) -> None:
    await fill(store)
    clock.advance(LONG)

    await store.queue.prune(AT_ONCE)

    assert await counts(store) == (3, 1, 1, 1, 0)


async def test_rows_the_lake_has_not_read_are_kept(store: Store, clock: FakeClock) -> None:
    await store.events.acknowledge("lake", 0)
    await fill(store)
    before = await counts(store)
    clock.advance(timedelta(days=2))

    report = await store.queue.prune(AT_ONCE)

    assert report.largest == 0
    assert await counts(store) == before


async def test_old_rows_the_lake_has_are_pruned(store: Store, clock: FakeClock) -> None:
    await fill(store)
    await store.events.acknowledge("lake", (await store.events.bounds()).head)
    clock.advance(timedelta(days=31))
    await say(store, "new")

    month = await store.queue.prune(Retention())
    assert (month.history, month.rooms) == (3, 1)
    assert await counts(store) == (1, 0, 1, 1, 0)

    clock.advance(timedelta(days=60))
    quarter = await store.queue.prune(Retention())
    assert (quarter.messages, quarter.responses) == (1, 1)
    assert (await store.queue.depth()).dead == 0


async def test_an_agents_history_is_found_after_older_lines_are_pruned(store: Store, clock: FakeClock) -> None:
    await finish_one(store, "old")
    await store.events.acknowledge("lake", (await store.events.bounds()).head)
    clock.advance(timedelta(days=31))
    await finish_one(store, "young")

    await store.queue.prune(Retention())

    assert [line.content for line in await store.history.of_agent(CODER)] == ["done", "young"]


async def test_rows_whose_events_are_pruned_are_recorded_again_once(store: Store, clock: FakeClock) -> None:
    await fill(store)
    seen = (await store.events.bounds()).head
    clock.advance(timedelta(days=8))
    await finish_one(store, "later")
    known = await store.history.of_agent(CODER)
    responses, dead = await store.responses.recent(), await store.queue.dead()
    await store.queue.prune(Retention(LONG, LONG, timedelta(days=7), LONG))
    oldest = (await store.events.bounds()).oldest
    assert oldest == seen + 1

    recorded = await store.queue.rerecord(after=0, before=oldest)

    assert recorded == await store.queue.rerecord(after=0, before=oldest) + 8
    tables = Tables()
    for event in await read_all(store.events):
        tables.apply(event)
    assert {line.id for line in known} == set(tables.agent_messages)
    assert [tables.responses[one.id]["message"] for one in responses] == [one.message for one in responses]
    assert [tables.messages[one.id]["status"] for one in dead] == ["dead"]
    assert len(tables.chat_messages) == 1


async def test_rows_the_reader_has_seen_are_not_recorded_again(store: Store, clock: FakeClock) -> None:
    await fill(store)
    head = (await store.events.bounds()).head

    assert await store.queue.rerecord(after=head, before=head + 1) == 0
