"""A second store next to the daemon: opened cheaply, only on a database of this version, without migrating."""

import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from tests.contract.conftest import CODER
from tests.support.legacy import make_v0_0_20
from tinyagi.domain.errors import NewerDatabase, NotFound, OlderDatabase
from tinyagi.domain.messages import NewMessage
from tinyagi.store.store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tinyagi.db"


async def create(path: Path) -> None:
    await (await Store.open(path)).close()


async def test_a_second_store_reads_and_writes_next_to_the_daemons(path: Path) -> None:
    async with await Store.open(path) as daemon, await Store.open_current(path) as beside:
        await beside.queue.enqueue(NewMessage("hello", CODER))
        assert (await daemon.queue.depth()).pending == 1
        assert (await beside.events.bounds()).oldest == 1


async def test_a_second_store_starts_one_writer_and_one_reader(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await create(path)
    asked: list[str] = []
    monkeypatch.setattr("tinyagi.store.store.check_integrity", lambda *_: asked.append("check"))
    before = set(threading.enumerate())

    async with await Store.open_current(path) as store:
        for _ in range(3):
            await store.queue.enqueue(NewMessage("hello", CODER))
            await store.events.bounds()
        started = {thread.name.partition("_")[0] for thread in set(threading.enumerate()) - before}

    assert {name for name in started if name.startswith("tinyagi")} == {"tinyagi-writer", "tinyagi-reader"}
    assert asked == []


async def test_the_write_ahead_log_stays_short_without_a_daemon(path: Path) -> None:
    await create(path)
    async with await Store.open_current(path) as store:
        for _ in range(12):
            await store.queue.enqueue(NewMessage("x" * 1_000_000, CODER))
        assert path.with_name("tinyagi.db-wal").stat().st_size < 12_000_000


async def test_an_older_database_is_refused_with_the_remedy(path: Path) -> None:
    await create(path)
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM schema_migrations WHERE number = (SELECT max(number) FROM schema_migrations)")
    connection.close()
    before = path.read_bytes()

    with pytest.raises(OlderDatabase, match=r"`tinyagi start`.*`tinyagi restart`"):
        await Store.open_current(path)

    assert path.read_bytes() == before
    assert not (path.parent / "backups").exists()


async def test_a_newer_database_is_refused(path: Path) -> None:
    await create(path)
    connection = apsw.Connection(str(path))
    connection.execute("INSERT INTO schema_migrations VALUES (9999, 'later', '', 0)")
    connection.close()

    with pytest.raises(NewerDatabase, match="9999"):
        await Store.open_current(path)


@pytest.mark.parametrize("make", [make_v0_0_20, lambda path: path.touch()])
async def test_another_database_is_refused(path: Path, make: Callable[[Path], object]) -> None:
    make(path)
    before = path.read_bytes()
    with pytest.raises(OlderDatabase):
        await Store.open_current(path)
    assert path.read_bytes() == before


async def test_a_missing_database_is_not_created(path: Path) -> None:
    with pytest.raises(NotFound, match="tinyagi start"):
        await Store.open_current(path)
    assert not path.exists()
