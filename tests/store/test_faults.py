"""Faults of disk, locks, files and clocks, as real SQLite reports them."""

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from tests.contract.conftest import CODER
from tests.support.clock import FakeClock
from tests.support.legacy import make_v0_0_20
from tests.support.log import types_of
from tinyagi.domain.errors import (
    OutcomeUnknown,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
)
from tinyagi.domain.messages import NewMessage
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.routing import DEFAULT_AGENT, Route
from tinyagi.domain.runs import Outcome
from tinyagi.store.connection import connect
from tinyagi.store.store import Store
from tinyagi.system.clock import SteadyClock


class Disk:
    """Connects as the store does, and can limit and free the disk space."""

    def __init__(self) -> None:
        self.connections: list[apsw.Connection] = []

    def connect(self, path: Path, busy_timeout: timedelta) -> apsw.Connection:
        self.connections.append(connect(path, busy_timeout))
        return self.connections[-1]

    def limit(self, extra_pages: int) -> None:
        writer = self.connections[0]
        pages = writer.pragma("page_count")
        assert isinstance(pages, int)
        writer.pragma("max_page_count", pages + extra_pages)

    def free(self) -> None:
        self.connections[0].pragma("max_page_count", 2**30)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
async def store(tmp_path: Path, disk: Disk) -> AsyncIterator[Store]:
    async with await Store.open(tmp_path / "tinyagi.db", connect=disk.connect) as opened:
        yield opened


async def test_a_full_disk_fails_the_whole_group_and_writes_nothing(store: Store, disk: Disk) -> None:
    await store.queue.enqueue(NewMessage("before", CODER))
    disk.limit(extra_pages=8)

    results = await asyncio.gather(
        *(store.queue.enqueue(NewMessage("x" * 3000, CODER)) for _ in range(100)), return_exceptions=True
    )

    assert all(isinstance(result, StoreFull) for result in results)
    assert "Free some space" in str(results[0])
    assert (await store.queue.depth()).pending == 1
    assert await types_of(store.events) == ["message_received"]


async def test_the_store_works_again_when_the_disk_has_room(store: Store, disk: Disk) -> None:
    disk.limit(extra_pages=4)
    with pytest.raises(StoreFull):
        await store.queue.enqueue(NewMessage("x" * 100_000, CODER))

    disk.free()

    stored = await store.queue.enqueue(NewMessage("x" * 100_000, CODER))
    assert stored.id == 1
    assert stored.last_event_id == 1


async def test_a_full_disk_does_not_lose_a_claim(store: Store, disk: Disk) -> None:
    await store.queue.enqueue(NewMessage("x", CODER))
    claim = await store.queue.claim(CODER)
    assert claim is not None
    disk.limit(extra_pages=4)
    with pytest.raises(StoreFull):
        await store.queue.complete(claim, Outcome("y" * 200_000))
    assert await store.responses.pending("api") == ()

    disk.free()

    await store.queue.complete(claim, Outcome("y" * 200_000))
    assert len(await store.responses.pending("api")) == 1


async def test_a_failed_commit_is_reported_as_unknown_and_a_repeat_is_safe(store: Store, disk: Disk) -> None:
    writer = disk.connections[0]
    writer.set_commit_hook(lambda: True)

    with pytest.raises(OutcomeUnknown, match="same messageId"):
        await store.queue.enqueue(NewMessage("x", CODER))

    writer.set_commit_hook(None)
    await store.queue.enqueue(NewMessage("x", CODER))
    assert (await store.queue.depth()).pending == 1


async def test_a_lock_held_longer_than_the_timeout_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "tinyagi.db"
    async with await Store.open(path, busy_timeout=timedelta(milliseconds=50)) as store:
        other = apsw.Connection(str(path))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="locked"):
            await store.queue.enqueue(NewMessage("x", CODER))
        other.execute("ROLLBACK")
        other.close()

        await store.queue.enqueue(NewMessage("x", CODER))
        assert (await store.queue.depth()).pending == 1


async def test_a_short_lock_of_another_process_delays_the_write(tmp_path: Path) -> None:
    path = tmp_path / "tinyagi.db"
    async with await Store.open(path, busy_timeout=timedelta(seconds=30)) as store:
        other = apsw.Connection(str(path))
        other.execute("BEGIN IMMEDIATE")
        enqueuing = asyncio.create_task(store.queue.enqueue(NewMessage("x", CODER)))
        assert (await store.queue.depth()).pending == 0
        other.execute("COMMIT")
        other.close()

        assert (await enqueuing).id == 1


async def test_a_foreign_row_is_adopted_after_a_routing_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tinyagi.store.store.ADOPT_AGAIN", timedelta(milliseconds=10))
    path, tries = tmp_path / "tinyagi.db", 0

    def route(text: str) -> Route:
        nonlocal tries
        tries += 1
        # Each try of the store routes twice: once in the group, once alone.
        if tries <= 4:
            raise ZeroDivisionError("no route")
        return Route(CODER, None, text)

    async with await Store.open(path, route=route) as store:
        other = apsw.Connection(str(path))
        other.execute(
            "INSERT INTO messages (message_id, channel, sender, message, status, created_at, updated_at) "
            "VALUES ('x', 'telegram', 'Ada', 'hello', 'pending', 1, 1)"
        )
        other.close()
        async with asyncio.timeout(10):
            while not await types_of(store.events):
                await store.changes.beyond(store.changes.version)

    assert [record.getMessage() for record in caplog.records if record.exc_info] == [
        "rows of other programs could not be adopted, next try in 0.01 s: no route"
    ]


async def test_a_foreign_row_is_adopted_after_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "tinyagi.db"
    async with await Store.open(path, busy_timeout=timedelta(milliseconds=1)) as store:
        other = apsw.Connection(str(path))
        other.execute("BEGIN IMMEDIATE")
        other.execute(
            "INSERT INTO messages (message_id, channel, sender, message, created_at, updated_at) "
            "VALUES ('m', 'cron', 'x', 'hello', 1, 1)"
        )
        other.execute("COMMIT")
        other.execute("BEGIN IMMEDIATE")
        seen = store.changes.version
        await asyncio.wait_for(store.changes.beyond(seen), 60)
        other.execute("ROLLBACK")
        other.close()

        while not await types_of(store.events):
            await asyncio.wait_for(store.changes.beyond(store.changes.version), 60)
        assert await store.queue.claim(DEFAULT_AGENT) is not None


@pytest.mark.parametrize(("system", "value"), [("Darwin", 1), ("Linux", 0)])
def test_fullfsync_is_on_only_on_macos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, value: int
) -> None:
    monkeypatch.setattr("platform.system", lambda: system)
    connection = connect(tmp_path / "tinyagi.db", timedelta())

    assert (connection.pragma("fullfsync"), connection.pragma("checkpoint_fullfsync")) == (value, value)
    connection.close()


@pytest.mark.parametrize("damage", ["header", "middle"])
async def test_a_damaged_file_is_refused_with_the_name_of_the_backup(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "tinyagi.db"
    make_v0_0_20(path)
    async with await Store.open(path) as store:
        await store.queue.enqueue_many([NewMessage("x" * 500, CODER) for _ in range(500)])
    (backup,) = (tmp_path / "backups").iterdir()
    content = bytearray(path.read_bytes())
    start = 0 if damage == "header" else 4096 * 12
    content[start : start + 4096 * 6] = os.urandom(4096 * 6)
    path.write_bytes(content)

    with pytest.raises(StoreCorrupt) as refused:
        await Store.open(path)

    assert str(backup) in str(refused.value)
    assert path.read_bytes() == bytes(content)


async def test_the_error_for_a_damaged_file_names_the_restore_command(tmp_path: Path) -> None:
    path = tmp_path / "tinyagi.db"
    path.write_bytes(b"garbage" * 1_000)
    (tmp_path / "backups").mkdir()
    for name in ("tinyagi-20260101T000000Z.zip", "tinyagi-20261118T031500Z.zip", "tinyagi-1600000000000.db"):
        (tmp_path / "backups" / name).touch()

    with pytest.raises(StoreCorrupt, match=r"tinyagi backup restore tinyagi-20261118T031500Z\.zip"):
        await Store.open(path)


async def test_the_error_for_a_damaged_file_reports_a_missing_backup(tmp_path: Path) -> None:
    path = tmp_path / "tinyagi.db"
    path.write_bytes(b"this is no database, and it is long enough to be looked at" * 100)

    with pytest.raises(StoreCorrupt, match="There is no backup"):
        await Store.open(path)


async def test_an_unwritable_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreReadOnly, match="writable file system"):
        await Store.open(Path("/proc/tinyagi/tinyagi.db"))
    with pytest.raises(StoreReadOnly):
        await Store.open(tmp_path)


async def test_the_store_works_again_after_a_read_only_phase(store: Store, disk: Disk) -> None:
    disk.connections[0].pragma("query_only", True)
    with pytest.raises(StoreError, match=r"cannot be opened for writing|read"):
        await store.queue.enqueue(NewMessage("x", CODER))

    disk.connections[0].pragma("query_only", False)

    assert (await store.queue.enqueue(NewMessage("x", CODER))).id == 1


async def test_setting_the_clock_back_delays_no_message(tmp_path: Path) -> None:
    clock, passed = FakeClock(), FakeClock()
    steady = SteadyClock(wall=clock, monotonic=passed)
    async with await Store.open(tmp_path / "tinyagi.db", clock=steady) as store:
        await store.queue.enqueue(NewMessage("a", CODER, sender="a"))
        first = await store.queue.claim(CODER)
        assert first is not None
        await store.queue.fail(first, Failure(FailureKind.MESSAGE, "stumbled"))
        await store.queue.enqueue(NewMessage("b", CODER, sender="b"))
        clock.advance(-timedelta(hours=3))

        second = await store.queue.claim(CODER)
        assert second is not None
        assert second.primary.message == "b"
        await store.queue.complete(second, Outcome("done"))
        clock.advance(timedelta(seconds=3))
        passed.advance(timedelta(seconds=3))
        retried = await store.queue.claim(CODER)

        assert retried is not None
        assert (retried.primary.message, retried.attempt) == ("a", 2)
        events = await store.events.read_after(0)
        assert [event.created_at for event in events] == sorted(event.created_at for event in events)


async def test_messages_run_at_once_after_a_restart_with_the_clock_set_back(tmp_path: Path) -> None:
    clock = FakeClock()
    async with await Store.open(tmp_path / "tinyagi.db", clock=clock) as store:
        await store.queue.enqueue(NewMessage("x", CODER))
    clock.advance(-timedelta(days=2))

    async with await Store.open(tmp_path / "tinyagi.db", clock=clock) as store:
        claim = await store.queue.claim(CODER)
        assert claim is not None
        await store.queue.complete(claim, Outcome("done"))
        done = (await store.events.read_after(0))[-2]
        assert done.payload["duration_ms"] >= 0
