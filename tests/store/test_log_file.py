"""The log as other programs read it: during and after writes, and without blocking the writer."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.contract.conftest import CODER, WRITER
from tests.support.clock import FakeClock
from tinyagi.domain.errors import NewerDatabase, NotFound, StoreCorrupt, StoreError
from tinyagi.domain.messages import NewMessage
from tinyagi.store import event_reader
from tinyagi.store.connection import load_statements
from tinyagi.store.event_reader import EventLogReader, LogRow, RangeCount
from tinyagi.store.store import Store

ALL_ROWS = (
    "SELECT id, type, version, message_id, conversation_id, conversation_started_at, agent, payload, created_at "
    "FROM events ORDER BY id"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tinyagi.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[Store]:
    async with await Store.open(path, clock=FakeClock()) as opened:
        yield opened


async def write(store: Store, texts: Iterable[str]) -> None:
    await store.queue.enqueue_many([NewMessage(text, CODER) for text in texts])


def run(path: Path, statement: str) -> list[Any]:
    with closing(apsw.Connection(str(path))) as connection:
        return connection.execute(statement).fetchall()


def rows_of(log: EventLogReader, after: int = 0, through: int = 2**62, types: set[str] | None = None) -> list[LogRow]:
    return [row for page in log.pages(after, min(through, log.head()), types) for row in page]


async def test_rows_match_the_table_while_the_store_is_open(store: Store, path: Path) -> None:
    await write(store, ["one", "two 🚀 \u2028 'quoted' \\ \x00", "three"])
    await store.lanes.pause(WRITER)

    with EventLogReader(path) as log:
        assert rows_of(log) == run(path, ALL_ROWS)
        assert log.head() == 4

        await write(store, ["four"])
        assert log.head() == 5
        assert [row[0] for row in rows_of(log, after=4)] == [5]


async def test_rows_can_be_read_after_the_store_was_closed(path: Path) -> None:
    async with await Store.open(path) as store:
        await write(store, ["one", "two"])
    assert not path.with_name("tinyagi.db-shm").exists()
    before = hashlib.sha256(path.read_bytes()).digest()

    with EventLogReader(path) as log:
        assert [row[0] for row in rows_of(log)] == [1, 2]

    assert hashlib.sha256(path.read_bytes()).digest() == before


async def test_rows_in_the_write_ahead_log_of_a_killed_daemon_are_read(
    store: Store, path: Path, tmp_path: Path
) -> None:
    await write(store, ["one", "two"])
    left = tmp_path / "left"
    left.mkdir()
    for name in ("tinyagi.db", "tinyagi.db-wal"):
        shutil.copy(path.with_name(name), left)
    before = (left / "tinyagi.db-wal").read_bytes()
    assert before

    with EventLogReader(left / "tinyagi.db") as log:
        assert [row[0] for row in rows_of(log)] == [1, 2]

    assert (left / "tinyagi.db-wal").read_bytes() == before


async def test_an_empty_log_has_no_pages(store: Store, path: Path) -> None:
    with EventLogReader(path) as log:
        assert (log.head(), log.first_after(0), log.tally(0, 100)) == (0, None, RangeCount(0, 0))
        assert list(log.pages(0, 100)) == []


async def test_pages_skip_deleted_ids(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await write(store, map(str, range(100)))
    run(path, "DELETE FROM events WHERE id <= 30 OR id BETWEEN 41 AND 80 OR id % 7 = 0 OR id = 100")
    monkeypatch.setattr(event_reader, "PAGE_IDS", 10)

    with EventLogReader(path) as log:
        wanted = [row[0] for row in run(path, "SELECT id FROM events ORDER BY id")]
        assert [row[0] for row in rows_of(log)] == wanted
        assert [row[0] for row in rows_of(log, after=33, through=85)] == [n for n in wanted if 33 < n <= 85]
        assert (log.first_after(0), log.first_after(40), log.first_after(99)) == (31, 81, None)
        assert log.head() == 100


async def test_a_page_of_large_texts_ends_early_without_gaps(store: Store, path: Path) -> None:
    megabyte = 1024 * 1024
    for number in range(20):
        await write(store, [chr(ord("a") + number) * megabyte])

    with EventLogReader(path) as log:
        pages = list(log.pages(0, log.head()))

    assert [row[0] for page in pages for row in page] == list(range(1, 21))
    assert len(pages) > 1
    assert all(sum(len(row[7]) for row in page) < event_reader.PAGE_CHARACTERS + 2 * megabyte for page in pages)


async def test_events_can_be_filtered_by_type(store: Store, path: Path) -> None:
    await write(store, ["one"])
    await store.lanes.pause(CODER)
    await store.lanes.resume(CODER)
    await write(store, ["two"])

    with EventLogReader(path) as log:
        assert [row[0] for row in rows_of(log, types={"lane_paused", "lane_resumed", "never_heard_of"})] == [2, 3]
        assert [row[0] for row in rows_of(log, types={"message_received"})] == [1, 4]
        assert rows_of(log, types=set()) == []
        assert rows_of(log, types={"' OR 1=1 --"}) == []


async def test_end_of_returns_the_id_of_the_last_row(store: Store, path: Path) -> None:
    await write(store, map(str, range(100)))
    run(path, "DELETE FROM events WHERE id <= 40 OR id % 2 = 0")

    with EventLogReader(path) as log:
        assert log.end_of(0, 10, 100) == 59
        assert len(rows_of(log, 0, 59)) == 10
        assert log.end_of(59, 10, 100) == 79
        assert log.end_of(59, 10, 65) == 65
        assert log.end_of(90, 50, 100) == 100
        assert log.end_of(0, 60, 100) == 100


async def test_a_tally_counts_and_sums_the_ids(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await write(store, map(str, range(50)))
    run(path, "DELETE FROM events WHERE id IN (1, 17, 18, 44)")
    monkeypatch.setattr(event_reader, "TALLY_IDS", 7)

    with EventLogReader(path) as log:
        ids = [row[0] for row in rows_of(log, 10, 45)]
        assert log.tally(10, 45) == RangeCount(len(ids), sum(ids))
        assert log.tally(10, 45) != log.tally(10, 44)
        assert log.tally(45, 45) == RangeCount(0, 0)


async def test_a_reader_between_pages_does_not_block_a_checkpoint(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(store, ["x" * 1000 for _ in range(100)])
    monkeypatch.setattr(event_reader, "PAGE_CHARACTERS", 5000)

    with EventLogReader(path) as log, closing(apsw.Connection(str(path))) as other:
        pages = log.pages(0, 100)
        first = next(pages)
        other.set_busy_timeout(0)
        # A truncating checkpoint fails as busy during a read.
        assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall() == [(0, 0, 0)]
        assert len(first) + sum(map(len, pages)) == 100


async def test_reading_uses_the_primary_key(store: Store, path: Path) -> None:
    sql = load_statements()
    values: dict[str, int | None] = {"after": 1, "through": 2, "types": None, "rows": 1}
    for name in ("events_between", "first_event_after", "nth_event_after", "tally_events"):
        plan = run_plan(path, sql[name], values)
        assert "SEARCH events USING INTEGER PRIMARY KEY" in plan, plan


def run_plan(path: Path, statement: str, values: dict[str, int | None]) -> str:
    with closing(apsw.Connection(str(path))) as connection:
        return "\n".join(str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values))


@pytest.mark.parametrize("name", ["none.db", ""])
def test_a_missing_file_is_reported_and_not_created(tmp_path: Path, name: str) -> None:
    path = tmp_path / name

    with pytest.raises(NotFound, match=f"There is no database at {path}"):
        EventLogReader(path)

    assert list(tmp_path.iterdir()) == []


async def test_a_newer_database_is_refused(path: Path) -> None:
    async with await Store.open(path):
        pass
    run(path, "INSERT INTO schema_migrations VALUES (9999, 'x', 'y', 1)")

    with pytest.raises(NewerDatabase, match=r"newer TinyAGI \(its schema is 9999"):
        EventLogReader(path)


def test_a_database_of_another_program_is_refused(path: Path) -> None:
    run(path, "CREATE TABLE events (id INTEGER PRIMARY KEY)")

    with pytest.raises(StoreError, match="is not a database of this TinyAGI"):
        EventLogReader(path)


def test_a_file_that_is_not_a_database_is_refused(path: Path) -> None:
    path.write_bytes(b"something else " * 1000)

    with pytest.raises(StoreCorrupt, match="is damaged"):
        EventLogReader(path)


def test_importing_the_reader_loads_no_heavy_module() -> None:
    """Every new Spark worker imports it."""
    heavy = ("asyncio", "pydantic", "httpx", "msgspec", "tinyagi.store.base", "tinyagi.domain.events")
    code = f"import sys, tinyagi.store.event_reader; print([name for name in {heavy} if name in sys.modules])"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert loaded.stdout.strip() == "[]"
