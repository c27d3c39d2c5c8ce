"""A copy of a database in use: complete, consistent, and with recoverable claims."""

import random
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from tests.contract.conftest import CODER
from tests.store.test_migrations import rows
from tinyagi.domain.errors import StoreCorrupt, StoreError
from tinyagi.domain.messages import NewMessage
from tinyagi.store.backup import PAGES, copy_connected, copy_database
from tinyagi.store.store import Store


async def test_a_claim_is_recovered_in_the_copy_at_once(tmp_path: Path) -> None:
    async with await Store.open(tmp_path / "tinyagi.db") as store:
        await store.queue.enqueue(NewMessage("one", CODER))
        claim = await store.queue.claim(CODER, lease=timedelta(hours=1))
        assert claim is not None
        copy_database(tmp_path / "tinyagi.db", tmp_path / "copy.db")

        async with await Store.open(tmp_path / "copy.db") as copied:
            assert await copied.queue.recover() == 1
            again = await copied.queue.claim(CODER)
            assert again is not None
            assert again.primary.message == "one"
        assert await store.queue.recover() == 0, "the claim of the original is kept"


async def test_the_copy_is_one_private_file(tmp_path: Path) -> None:
    async with await Store.open(tmp_path / "home" / "tinyagi.db") as store:
        await store.queue.enqueue(NewMessage("one", CODER))
        copy = tmp_path / "copy" / "copy.db"
        copy.parent.mkdir()

        copy_database(tmp_path / "home" / "tinyagi.db", copy)

    assert rows(copy, "SELECT message FROM messages") == [("one",)]
    assert list(copy.parent.iterdir()) == [copy]
    assert copy.stat().st_mode & 0o777 == 0o600


def test_the_copy_is_consistent_during_writes(tmp_path: Path) -> None:
    path, dice = tmp_path / "tinyagi.db", random.Random(1)
    writer = apsw.Connection(str(path))
    writer.pragma("journal_mode", "wal")
    writer.execute("CREATE TABLE pages (content BLOB)")
    with writer:
        writer.executemany("INSERT INTO pages VALUES (?)", ((dice.randbytes(4_000),) for _ in range(3 * PAGES)))
    seen: list[tuple[int, int]] = []

    def meanwhile(done: int, total: int) -> None:
        seen.append((done, total))
        writer.execute("INSERT INTO pages VALUES ('later')")

    reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    copy_connected(reader, tmp_path / "copy.db", meanwhile)

    assert rows(tmp_path / "copy.db", "SELECT count(*) FROM pages") == [(3 * PAGES,)]
    assert rows(tmp_path / "copy.db", "PRAGMA integrity_check") == [("ok",)]
    assert [done for done, _ in seen] == sorted({done for done, _ in seen}), "it never restarted"
    assert len(seen) > 3
    reader.close()
    writer.close()


@pytest.mark.parametrize(("content", "error"), [(b"garbage" * 500, StoreCorrupt), (None, StoreError)])
def test_an_unreadable_database_is_reported(tmp_path: Path, content: bytes | None, error: type[Exception]) -> None:
    path = tmp_path / "tinyagi.db"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(error, match=str(path)):
        copy_database(path, tmp_path / "copy.db")
