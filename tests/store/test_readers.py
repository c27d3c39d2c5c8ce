"""Reads for clients are bounded, and the engine never waits for them."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.contract.conftest import CODER
from tests.support.clock import FakeClock
from tinyagi.domain.errors import StoreBusy
from tinyagi.domain.events import SettingsRejected
from tinyagi.domain.messages import NewMessage
from tinyagi.domain.responses import NewResponse
from tinyagi.store import event_log
from tinyagi.store.connection import connect, load_statements
from tinyagi.store.readers import Readers
from tinyagi.store.store import API_READERS, Store

SQL = load_statements()
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


@asynccontextmanager
async def blocked(store: Store) -> AsyncIterator[None]:
    """Keep every reader thread for clients busy during the block."""
    entered, leave = threading.Semaphore(0), threading.Event()

    def wait(_: apsw.Connection) -> None:
        entered.release()
        leave.wait()

    readers = store.events._readers
    busy = [asyncio.create_task(readers.run(wait)) for _ in range(API_READERS)]
    try:
        for _ in busy:
            await asyncio.to_thread(entered.acquire)
        yield
    finally:
        leave.set()
        await asyncio.gather(*busy)


async def test_the_engine_claims_while_all_client_readers_are_busy(tmp_path: Path) -> None:
    async with await Store.open(tmp_path / "tinyagi.db") as store:
        await store.queue.enqueue(NewMessage("go", CODER))
        async with blocked(store):
            (lane,) = await store.queue.claimable_lanes()
            assert lane.agent == CODER
            assert await store.queue.next_due_at() is None
            assert await store.queue.lost_claims() == ()
            assert await store.lanes.all() == ()
            assert await store.spending.of_day("2026-01-01") == {}
            claim = await store.queue.claim(CODER)
            assert claim is not None
            assert await store.sessions.turns(CODER, claim.primary.thread) == ()
            assert await store.queue.newest_follower(claim) is None
            assert await store.schedules.next_due_at() is None


async def test_a_client_read_ends_at_its_time_limit(tmp_path: Path) -> None:
    path = tmp_path / "tinyagi.db"
    limit = timedelta(milliseconds=20)
    readers = Readers(lambda: connect(path, timedelta(seconds=1)), SQL, path, tmp_path, threads=1, time_limit=limit)

    with pytest.raises(StoreBusy, match="Ask for less"):
        await readers.run(lambda connection: connection.execute(ENDLESS).fetchall())

    assert await readers.run(lambda connection: connection.execute("SELECT 1").get) == 1
    await readers.close()


async def test_a_search_for_a_rare_event_reads_the_log_in_stretches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "STRETCH", 10)
    async with await Store.open(tmp_path / "tinyagi.db") as store:
        rare = [await store.events.append(SettingsRejected("a"))]
        for number in range(30):
            await store.queue.enqueue(NewMessage(f"text {number}", CODER))
        rare += [await store.events.append(SettingsRejected(text)) for text in "bcd"]
        pages: list[Any] = []
        original = store.events._readers.rows

        async def rows(name: str, parameters: Any = ()) -> list[Any]:
            pages.append((name, parameters))
            return await original(name, parameters)

        monkeypatch.setattr(store.events._readers, "rows", rows)

        found = await store.events.read_after(0, event_type="settings_rejected", limit=3)
        rest = await store.events.read_after(found[-1].id, event_type="settings_rejected", limit=3)

    assert [event.id for event in (*found, *rest)] == rare
    stretches = [page["through"] - page["after"] for name, page in pages if name == "events_after"]
    assert set(stretches) == {10}
    assert len(stretches) > 3


async def test_the_steps_of_polling_do_not_grow_with_held_back_responses(tmp_path: Path) -> None:
    steps = []
    for size in (100, 3000):
        clock, counted = FakeClock(), list[int]()

        def note(profile: dict[str, Any], into: list[int] = counted) -> None:
            into.append(profile["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

        def traced(
            file: Path, busy_timeout: timedelta, note: Callable[[dict[str, Any]], None] = note
        ) -> apsw.Connection:
            # Traced from the start: a reader opens its connection when it is first used.
            connection = connect(file, busy_timeout)
            connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
            return connection

        async with await Store.open(tmp_path / f"{size}.db", clock=clock, connect=traced) as store:
            sent = await asyncio.gather(
                *(store.responses.send(NewResponse("telegram", "Ada", f"text {n}", "1")) for n in range(size)),
                store.responses.send(NewResponse("telegram", "Grace", "free", "2")),
            )
            await store.responses.fail(sent[0].id, "503")
            assert [one.message for one in await store.responses.pending("telegram")] == ["free"]
            counted.clear()
            assert [one.message for one in await store.responses.pending("telegram")] == ["free"]
            steps.append(max(counted))

    assert steps[1] <= 1.2 * steps[0]
