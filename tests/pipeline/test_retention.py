"""The store's tables stay bounded while everything can still be read, with a real store and lake."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.support import MONDAY, run
from tests.support.clock import FakeClock
from tinyagi.api.conversations import trace_of
from tinyagi.domain.ids import AgentId, ConversationId
from tinyagi.domain.limits import Retention
from tinyagi.domain.messages import NewMessage
from tinyagi.domain.responses import HistoryEntry
from tinyagi.domain.runs import Outcome
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.serve.archive import LakeArchive
from tinyagi.store.history import ReadThroughHistory, ReadThroughTraces
from tinyagi.store.store import Store

pytestmark = pytest.mark.timeout(600)

CODER: Final = AgentId("coder")
DAYS: Final = 45
A_DAY: Final = 4
"""Messages a day; each leaves two lines of history."""


@pytest.fixture
def clock() -> FakeClock:
    clock = FakeClock()
    clock.now = MONDAY - DAYS * 86_400_000
    return clock


@pytest.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Store]:
    opened = await Store.open(tmp_path / "tinyagi.db", clock=clock)
    yield opened
    await opened.close()


async def live(store: Store, clock: FakeClock, days: int) -> list[str]:
    """Some days of an agent that answers everything; returns the conversation ids."""
    names: list[str] = []
    for _ in range(days):
        for _ in range(A_DAY):
            stored = await store.queue.enqueue(NewMessage(f"question at {clock()}", CODER, sender="Ada"))
            names.append(stored.message_id)
            claim = await store.queue.claim(CODER)
            assert claim is not None
            clock.advance(timedelta(seconds=20))
            await store.queue.complete(claim, Outcome(f"answer at {clock()}"))
            for response in await store.responses.pending("api"):
                await store.responses.ack(response.id)
        clock.advance(timedelta(days=1) - A_DAY * timedelta(seconds=20))
    return names


async def all_lines(history: ReadThroughHistory) -> list[HistoryEntry]:
    """All lines, page by page, as API clients read them."""
    lines: list[HistoryEntry] = []
    while page := await history.of_agent(CODER, before=lines[-1].id if lines else None, limit=50):
        lines += page
    return lines


async def test_the_store_stays_bounded_and_all_history_can_be_read(
    spark: SparkSession, store: Store, clock: FakeClock, tmp_path: Path
) -> None:
    names = await live(store, clock, DAYS)
    archive = LakeArchive(tmp_path / "lake")
    history, traces = ReadThroughHistory(store.history, archive), ReadThroughTraces(store.traces, archive)
    lines = await all_lines(history)
    expected = trace_of(await traces.conversation(ConversationId(names[0])))
    assert len(lines) == 2 * A_DAY * DAYS

    lake = Lake(tmp_path / "lake")
    run(spark, lake, tmp_path / "tinyagi.db")
    manifest = lake.manifest()
    assert manifest is not None
    await store.events.acknowledge("lake", manifest.through_id)
    report = await store.queue.prune(Retention())

    # A day of messages and responses, a week of events, a month of history.
    assert (await store.queue.depth()).completed <= A_DAY
    assert len(await store.history.of_agent(CODER, limit=1000)) <= 2 * A_DAY * 30
    assert (await store.events.bounds()).oldest > manifest.through_id * 3 // 4
    assert report.history == 2 * A_DAY * (DAYS - 30)
    assert await all_lines(history) == lines
    assert trace_of(await traces.conversation(ConversationId(names[0]))) == expected
    assert [one.id for one in await traces.recent(limit=500)] == names[::-1]


async def test_rows_that_are_not_archived_are_not_pruned(
    spark: SparkSession, store: Store, clock: FakeClock, tmp_path: Path
) -> None:
    await live(store, clock, 1)
    lake = Lake(tmp_path / "lake")
    run(spark, lake, tmp_path / "tinyagi.db")
    manifest = lake.manifest()
    assert manifest is not None
    await store.events.acknowledge("lake", manifest.through_id)
    await live(store, clock, 40)
    head = (await store.events.bounds()).head
    clock.advance(timedelta(days=2))

    await store.queue.prune(Retention())

    assert (await store.queue.depth()).completed == 40 * A_DAY
    assert (await store.events.bounds()).oldest == manifest.through_id + 1
    assert (await store.events.bounds()).head == head
    assert len(await store.history.of_agent(CODER, limit=1000)) == 2 * A_DAY * 40
