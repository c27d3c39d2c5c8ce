from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from tests.contract.conftest import CODER, WRITER
from tests.contract.test_claim import say, take
from tests.support.clock import FakeClock
from tests.support.log import read_all
from tinyagi.domain.errors import DuplicateMessage
from tinyagi.domain.events import LaneResumed, ProcessorStart
from tinyagi.domain.ids import MessageId
from tinyagi.domain.limits import Retention
from tinyagi.domain.messages import NewMessage
from tinyagi.domain.runs import Handoff, Outcome
from tinyagi.store.event_log import LogBounds
from tinyagi.store.maintenance import PruneReport
from tinyagi.store.store import Store

DAY = timedelta(days=1)
NOTHING = PruneReport(0, 0, 0, 0)


async def finish_one(store: Store, text: str = "x") -> None:
    await say(store, text)
    await store.queue.complete(await take(store), Outcome("done"))
    for response in await store.responses.pending("api"):
        await store.responses.ack(response.id)


async def test_readers_page_through_the_log_by_cursor(store: Store) -> None:
    for number in range(5):
        await say(store, str(number))

    first = await store.events.read_after(0, limit=2)
    rest = await store.events.read_after(first[-1].id)

    assert [event.payload["message"]["message"] for event in (*first, *rest)] == ["0", "1", "2", "3", "4"]
    assert await store.events.read_after(rest[-1].id) == ()
    assert await store.events.bounds() == LogBounds(1, 5)


async def test_events_can_be_read_by_type(store: Store) -> None:
    await finish_one(store)

    (done,) = await store.events.read_after(0, event_type="chain_step_done")

    assert done.payload["content"] == "done"


async def test_events_of_the_engine_go_into_the_same_log(store: Store) -> None:
    await store.events.append(ProcessorStart("me"))
    await store.events.append(LaneResumed(), agent=CODER)

    start, resumed = await read_all(store.events)

    assert (start.type, start.payload) == ("processor_start", {"owner": "me"})
    assert (resumed.agent, resumed.payload) == (CODER, {})


async def test_a_cursor_never_moves_back(store: Store) -> None:
    assert await store.events.cursor("lake") is None
    await store.events.acknowledge("lake", 7)
    await store.events.acknowledge("lake", 3)

    assert await store.events.cursor("lake") == 7
    await store.events.detach("lake")
    assert await store.events.cursor("lake") is None


async def test_completed_messages_and_acked_responses_are_pruned_after_a_day(store: Store, clock: FakeClock) -> None:
    await finish_one(store)
    clock.advance(DAY)
    assert await store.queue.prune(Retention()) == NOTHING
    clock.advance(timedelta(seconds=1))

    assert await store.queue.prune(Retention()) == PruneReport(messages=1, responses=1, events=0, unfetched=0)

    assert (await store.queue.depth()).completed == 0
    assert len(await store.history.of_agent(CODER)) == 2


async def test_pending_and_dead_messages_are_kept(store: Store, clock: FakeClock) -> None:
    await say(store, "dead")
    await store.queue.stop(await take(store), by="Ada")
    await say(store, "pending", WRITER)
    clock.advance(timedelta(days=6))

    await store.queue.prune(Retention())

    depth = await store.queue.depth()
    assert (depth.pending, depth.dead) == (1, 1)


async def test_events_are_pruned_after_a_week_and_ids_are_not_reused(store: Store, clock: FakeClock) -> None:
    await finish_one(store)
    head = (await store.events.bounds()).head
    clock.advance(timedelta(days=7, seconds=1))

    report = await store.queue.prune(Retention())

    assert report.events == head
    assert await store.events.bounds() == LogBounds(0, head)
    await say(store, "next")
    assert [event.id for event in await read_all(store.events)] == [head + 1]


async def test_rows_are_kept_until_every_reader_has_them(store: Store, clock: FakeClock) -> None:
    await finish_one(store, "first")
    seen = (await store.events.bounds()).head
    await finish_one(store, "second")
    await store.events.acknowledge("lake", seen)
    await store.events.acknowledge("mirror", 10_000)
    clock.advance(timedelta(days=30))

    assert await store.queue.prune(Retention()) == PruneReport(messages=1, responses=1, events=seen, unfetched=0)
    assert await store.queue.prune(Retention()) == NOTHING

    await store.events.detach("lake")
    assert (await store.queue.prune(Retention())).messages == 1


async def test_pruning_continues_beyond_one_slice(store: Store, clock: FakeClock) -> None:
    claims = []
    for number in range(30):
        await say(store, str(number))
    while claim := await store.queue.claim(CODER):
        claims.append(claim)
        await store.queue.complete(claim, Outcome("done"))
    clock.advance(timedelta(days=8))

    report = await store.queue.prune(Retention())

    assert (report.messages, report.unfetched) == (30, 30)


async def test_an_id_stays_taken_while_its_conversation_is_open(store: Store, clock: FakeClock) -> None:
    await say(store, "root", message_id=MessageId("m1"))
    await store.queue.complete(await take(store), Outcome("ok", handoffs=(Handoff(WRITER, "go on"),)))
    clock.advance(timedelta(days=2))
    assert (await store.queue.prune(Retention())).messages == 1

    with pytest.raises(DuplicateMessage):
        await say(store, "again", message_id=MessageId("m1"))

    await store.queue.complete(await take(store, WRITER), Outcome("done"))
    for response in await store.responses.pending("api"):
        await store.responses.ack(response.id)
    clock.advance(timedelta(days=2))
    await store.queue.prune(Retention())
    assert await say(store, "again", message_id=MessageId("m1")) > 2


async def test_an_id_stays_taken_until_its_answer_is_pruned(store: Store, clock: FakeClock) -> None:
    await say(store, "first", message_id=MessageId("m1"))
    await store.queue.complete(await take(store), Outcome("done"))
    clock.advance(timedelta(days=2))
    assert (await store.queue.prune(Retention())).messages == 1
    with pytest.raises(DuplicateMessage):
        await say(store, "again", message_id=MessageId("m1"))

    (answer,) = await store.responses.pending("api")
    await store.responses.ack(answer.id)
    clock.advance(timedelta(days=2))
    assert (await store.queue.prune(Retention())).responses == 1

    await say(store, "again", message_id=MessageId("m1"))
    await store.queue.complete(await take(store), Outcome("done again"))
    assert [response.message for response in await store.responses.pending("api")] == ["done again"]


async def test_an_id_stays_taken_until_a_foreign_answer_is_pruned(
    store: Store, database: Path, clock: FakeClock
) -> None:
    await say(store, "first", message_id=MessageId("m1"))
    connection = apsw.Connection(str(database))
    connection.execute(
        "INSERT INTO responses (message_id, channel, sender, message, original_message, created_at) "
        "VALUES ('m1', 'telegram', 'Ada', 'seen', '', ?)",
        (clock.now,),
    )
    connection.close()
    await store.queue.adopt()
    await store.queue.complete(await take(store), Outcome("done"))
    for response in await store.responses.pending("api"):
        await store.responses.ack(response.id)
    clock.advance(timedelta(days=2))
    await store.queue.prune(Retention())
    with pytest.raises(DuplicateMessage):
        await say(store, "again", message_id=MessageId("m1"))

    (foreign,) = await store.responses.pending("telegram")
    await store.responses.ack(foreign.id)
    clock.advance(timedelta(days=2))
    assert (await store.queue.prune(Retention())).responses == 1

    await say(store, "again", message_id=MessageId("m1"))


async def test_history_is_paged_newest_first_between_two_ids(store: Store) -> None:
    for number in range(5):
        await say(store, str(number), CODER)
        await say(store, f"w{number}", WRITER)

    page = await store.history.of_agent(CODER, limit=2)
    older = await store.history.of_agent(CODER, before=page[-1].id, limit=2)
    newer = await store.history.of_agent(CODER, since=page[-1].id)
    everything = await store.history.of_agent(limit=3)

    assert [entry.content for entry in page] == ["4", "3"]
    assert [entry.content for entry in older] == ["2", "1"]
    assert [entry.content for entry in newer] == ["4"]
    assert [entry.content for entry in everything] == ["w4", "4", "w3"]


async def test_history_pages_cover_indexed_and_unindexed_rows(store: Store) -> None:
    await store.queue.enqueue_many([NewMessage(str(n), (CODER, WRITER)[n % 2]) for n in range(4500)])
    await store.queue.enqueue_many([NewMessage(f"young {n}", (CODER, WRITER)[n % 2]) for n in range(6)])

    found: list[str] = []
    before: int | None = None
    while page := await store.history.of_agent(CODER, before=before, limit=700):
        found += [entry.content for entry in page]
        before = page[-1].id

    assert found[:4] == ["young 4", "young 2", "young 0", "4498"]
    assert len(found) == 2250 + 3
    assert [int(content) for content in found[3:]] == list(range(4498, -1, -2))


async def test_depth_counts_per_status_and_per_lane(store: Store) -> None:
    await finish_one(store)
    await say(store, "pending")
    await say(store, "running", WRITER)
    await take(store, WRITER)

    depth = await store.queue.depth()

    assert (depth.pending, depth.processing, depth.completed, depth.dead) == (1, 1, 1, 0)
    assert [(lane.agent, lane.pending, lane.processing) for lane in depth.lanes] == [("coder", 1, 0), ("writer", 0, 1)]
    assert depth.open_conversations == 2


async def test_pages_without_internal_lines_are_full(store: Store) -> None:
    written = [
        NewMessage(str(n), CODER, from_agent=None if n % 3 else WRITER, channel="chatroom" if n % 3 == 1 else "api")
        for n in range(4500)
    ]
    await store.queue.enqueue_many(written)
    await store.queue.enqueue_many([NewMessage(f"young {n}", CODER, from_agent=WRITER) for n in range(9)])

    page = await store.history.of_agent(CODER, limit=700, internal=False)
    of_all = await store.history.of_agent(limit=700, internal=False)
    (newest, *_) = await store.history.of_agent(CODER, limit=1)

    assert [int(entry.content) for entry in page] == list(range(4499, 4499 - 3 * 700, -3))
    assert of_all == page
    assert (newest.content, newest.from_agent) == ("young 8", WRITER)
