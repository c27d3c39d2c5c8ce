"""Migrations of empty, older and original databases; newer databases are refused."""

import hashlib
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.contract.conftest import CODER, ROSTER, TESTER
from tests.contract.test_claim import run_all
from tests.support.clock import FakeClock
from tests.support.legacy import make_tinyclaw, make_v0_0_20
from tests.support.log import Tables, read_all
from tinyagi.domain.board import NewTask
from tinyagi.domain.errors import MigrationFailed, NewerDatabase
from tinyagi.domain.ids import ConversationId, MessageId
from tinyagi.domain.limits import Charge, Spent
from tinyagi.domain.messages import Message, NewMessage
from tinyagi.domain.responses import Response
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.routing import prompt_from_teammate, route
from tinyagi.domain.runs import Handoff, Outcome, Session
from tinyagi.store.connection import connect, load_statements
from tinyagi.store.migrations import load_migrations, migrate
from tinyagi.store.store import Store

ORDER = ("first", "second")
OLD_VERSIONS = pytest.mark.parametrize("make", [make_v0_0_20, make_tinyclaw])


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Store]:
    async with await Store.open(
        path, clock=FakeClock(), dice=random.Random(1), route=lambda text: route(text, ROSTER)
    ) as store:
        yield store


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def rows(path: Path, query: str) -> list[Any]:
    connection = apsw.Connection(str(path))
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def make_old(path: Path, version: int) -> apsw.Connection:
    """An empty database with the first migrations only."""
    connection = connect(path, timedelta(seconds=1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tinyagi.store.migrations.load_migrations", lambda: load_migrations()[:version])
        migrate(connection, load_statements(), path, path.parent / "backups", 1)
    return connection


async def write_old(path: Path, version: int, fill: Callable[[Store], Coroutine[Any, Any, object]]) -> None:
    """A database of an earlier schema, with the rows that `fill` writes in the current schema."""
    today = path.with_name("today.db")
    async with opened(today) as store:
        await fill(store)
    connection = make_old(path, version)
    connection.execute("ATTACH ? AS today", (str(today),))
    with connection:
        for table in ("conversations", "messages", "lanes", "responses", "agent_messages", "events"):
            columns = ", ".join(
                name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
            )
            connection.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM today.{table}")  # noqa: S608
    connection.close()


async def test_a_new_database_is_private_and_fully_migrated(tmp_path: Path) -> None:
    path = tmp_path / "home" / "tinyagi.db"

    async with opened(path) as store:
        assert (await store.queue.depth()).pending == 0

    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert not (path.parent / "backups").exists()
    assert rows(path, "SELECT number, name FROM schema_migrations") == [
        (1, "0001_queue"),
        (2, "0002_sessions_and_spend"),
        (3, "0003_board"),
        (4, "0004_schedules"),
        (5, "0005_pairing_and_audit"),
        (6, "0006_runs_by_conversation"),
        (7, "0007_failed_by_age"),
        (8, "0008_ready_set"),
        (9, "0009_task_dispatches"),
        (10, "0010_history_from_agent"),
        (11, "0011_session_state"),
        (12, "0012_hold_cause"),
        (13, "0013_schedule_sender_id"),
    ]


async def test_lines_of_an_older_history_get_their_sending_agent(tmp_path: Path) -> None:
    async def fill(store: Store) -> None:
        await store.queue.enqueue(NewMessage("build it", CODER, message_id=MessageId("m1")))
        claim = await store.queue.claim(CODER)
        assert claim is not None
        handoff = Handoff(TESTER, prompt_from_teammate(CODER, "test [this]: now"))
        await store.queue.complete(claim, Outcome("done", handoffs=(handoff,)))
        await store.queue.enqueue(NewMessage("[Message from teammate @x]:\nhi", CODER))

    path = tmp_path / "tinyagi.db"
    await write_old(path, 8, fill)
    connection = apsw.Connection(str(path))
    assert "from_agent" not in {row[1] for row in connection.execute("PRAGMA table_info(agent_messages)")}
    connection.close()

    async with opened(path) as store:
        lines = await store.history.of_agent()

    assert [(line.role, line.from_agent) for line in lines] == [
        ("user", None),
        ("user", CODER),
        ("assistant", None),
        ("user", None),
    ]


async def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tinyagi.db"
    async with opened(path):
        pass
    before = rows(path, "SELECT sql FROM sqlite_schema ORDER BY name")

    async with opened(path):
        pass

    assert rows(path, "SELECT sql FROM sqlite_schema ORDER BY name") == before
    assert not (tmp_path / "backups").exists()


@OLD_VERSIONS
async def test_every_row_of_an_old_database_is_kept(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "tinyagi.db"
    make(path)

    async with opened(path):
        messages = rows(path, "SELECT id, message_id, status, retry_count FROM messages ORDER BY id")
        responses = rows(path, "SELECT id, message_id, message, status, seq FROM responses ORDER BY id")

    assert messages == [
        (1, "m1", "completed", 0),
        (2, "m2", "completed", 0),
        (3, "m3", "dead", 5),
        (4, "m4", "pending", 0),
        (5, "m5", "pending", 1),
    ]
    assert responses == [
        (1, "m1", "a", "acked", 0),
        (2, "m1", "a", "acked", 1),
        (3, "m2", "b", "pending", 0),
    ]


@OLD_VERSIONS
async def test_pending_rows_of_an_old_database_are_routed_and_run(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "tinyagi.db"
    make(path)

    async with opened(path) as store:
        assert await run_all(store, CODER) == [["@coder four"], ["five"]]
        depth = await store.queue.depth()

    assert (depth.completed, depth.dead, depth.pending, depth.open_conversations) == (4, 1, 0, 0)


@OLD_VERSIONS
async def test_an_answered_message_of_an_old_database_is_not_run_again(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "old.db"
    make(path)
    connection = apsw.Connection(str(path))
    connection.execute(
        "INSERT INTO responses (message_id, channel, sender, message, original_message, agent, created_at) "
        "VALUES ('m5', 'telegram', 'Ada', 'the answer', 'five', 'coder', 2600)"
    )
    connection.close()

    async with opened(path) as store:
        assert await run_all(store, CODER) == [["@coder four"]]
        assert (await store.queue.depth()).completed == 4
        assert "the answer" in [response.message for response in await store.responses.recent()]
        tables = Tables()
        for event in await read_all(store.events):
            tables.apply(event)

    (answered,) = [row for row in tables.messages.values() if row["message_id"] == "m5"]
    assert (answered["status"], answered["answered_by"]) == ("completed", "m5")


@OLD_VERSIONS
async def test_every_old_row_can_be_rebuilt_from_its_event(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "tinyagi.db"
    make(path)
    tables = Tables()

    async with opened(path) as store:
        for event in await read_all(store.events):
            tables.apply(event)

    stored = [dict(zip(Message._fields, row, strict=True)) for row in rows(path, "SELECT * FROM message_rows")]
    assert {row["id"]: row for row in stored} == tables.messages
    stored = [dict(zip(Response._fields, row, strict=True)) for row in rows(path, "SELECT * FROM response_rows")]
    assert {row["id"]: row for row in stored} == tables.responses
    assert rows(path, "SELECT count(*) FROM agent_messages") == [(len(tables.agent_messages),)]
    assert rows(path, "SELECT count(*) FROM chat_messages") == [(len(tables.chat_messages),)]


@OLD_VERSIONS
async def test_the_old_database_is_backed_up_first(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "tinyagi.db"
    make(path)

    async with opened(path):
        pass

    (backup,) = (tmp_path / "backups").iterdir()
    assert rows(backup, "SELECT count(*) FROM messages") == [(5,)]
    assert rows(backup, "SELECT name FROM sqlite_schema WHERE name = 'lanes'") == []
    assert backup.stat().st_mode & 0o777 == 0o600


def test_a_landed_migration_is_never_edited() -> None:
    landed = {
        1: "76ec3b71d6f7231696dbde10501ed9fdb8346e4e2c678c3838008bf9c7d5c97b",
        2: "498a678b417c5e96d6a618b39daad9782f6fa2269239f83eecedef9e54f4f24e",
    }

    for number, _, text in load_migrations():
        assert landed.get(number, hash_of(text)) == hash_of(text)


async def test_a_database_of_the_first_schema_is_backed_up_and_migrated(tmp_path: Path) -> None:
    path = tmp_path / "tinyagi.db"
    await write_old(path, 1, lambda store: store.queue.enqueue_many([NewMessage(text, CODER) for text in ORDER]))
    assert rows(path, "SELECT max(number) FROM schema_migrations") == [(1,)]
    assert not (tmp_path / "backups").exists()

    async with opened(path) as store:
        claim = await store.queue.claim(CODER)
        assert claim is not None
        outcome = Outcome("done", session=Session("", "anthropic", "s1"), charge=Charge("2026-01-01", ("*",), 5, 0.5))
        await store.queue.complete(claim, outcome)
        assert await store.sessions.find(CODER, "", "anthropic") == "s1"
        assert await store.spending.of_day("2026-01-01") == {"*": Spent(5, 0.5)}
        assert await run_all(store) == [["second"]]

    (backup,) = (tmp_path / "backups").iterdir()
    assert rows(backup, "SELECT max(number) FROM schema_migrations") == [(1,)]
    assert rows(backup, "SELECT message FROM messages ORDER BY id") == [("first",), ("second",)]


async def test_a_database_of_the_second_schema_gets_a_board_and_traces(
    tmp_path: Path,
) -> None:
    path = tmp_path / "tinyagi.db"

    async def fill(store: Store) -> None:
        await store.queue.enqueue(NewMessage("first", CODER))
        await run_all(store)

    await write_old(path, 2, fill)

    async with opened(path) as store:
        (summary,) = await store.traces.recent()
        (traced,) = await store.traces.conversation(ConversationId(summary.id))
        assert (traced.answer, len(traced.attempts)) == ("done", 1)
        task = await store.board.add_task(NewTask("x"))
        assert await store.board.tasks() == (task,)

    (backup,) = (tmp_path / "backups").iterdir()
    assert rows(backup, "SELECT max(number) FROM schema_migrations") == [(2,)]


async def test_waiting_messages_of_an_earlier_schema_keep_their_order(tmp_path: Path) -> None:
    """A delayed message, and a thread in back-off with a message behind it."""
    path, clock = tmp_path / "tinyagi.db", FakeClock()

    async def fill(store: Store) -> None:
        await store.queue.enqueue(NewMessage("stuck", CODER, sender="ada"))
        await store.queue.enqueue(NewMessage("behind", CODER, sender="ada"))
        await store.queue.enqueue(NewMessage("later", CODER, sender="grace", available_at=clock.now + 1000))
        claim = await store.queue.claim(CODER)
        assert claim is not None
        await store.queue.fail(claim, Failure(FailureKind.MESSAGE, "stumbled"))

    await write_old(path, 7, fill)

    async with await Store.open(path, clock=clock) as store:
        assert (await store.queue.depth()).open_conversations == 3
        assert await run_all(store) == []
        clock.now += 1000
        assert await run_all(store) == [["later"]]
        clock.now += 10_000
        assert await run_all(store) == [["stuck"], ["behind"]]
        assert (await store.queue.depth()).open_conversations == 0


@pytest.mark.parametrize("version", range(1, len(load_migrations())))
async def test_the_upgraded_schema_equals_that_of_a_new_database(tmp_path: Path, version: int) -> None:
    schema = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
    make_old(tmp_path / "upgraded.db", version).close()
    for name in ("upgraded.db", "new.db"):
        async with opened(tmp_path / name):
            pass

    assert rows(tmp_path / "upgraded.db", schema) == rows(tmp_path / "new.db", schema)


async def test_the_id_of_a_deleted_old_row_is_not_reused(tmp_path: Path) -> None:
    path = tmp_path / "tinyagi.db"
    make_v0_0_20(path)

    async with opened(path):
        assert rows(path, "SELECT seq FROM sqlite_sequence WHERE name = 'messages'") == [(6,)]


async def test_a_conversation_of_an_old_database_stays_together(tmp_path: Path) -> None:
    path = tmp_path / "tinyagi.db"
    make_tinyclaw(path)

    async with opened(path):
        pass

    assert rows(path, "SELECT total, open FROM conversations WHERE id = 'c1'") == [(2, 0)]
    assert rows(path, "SELECT data FROM legacy_events") == [("old",)]


async def test_a_newer_database_is_refused_and_left_untouched(tmp_path: Path) -> None:
    path = tmp_path / "tinyagi.db"
    async with opened(path):
        pass
    connection = apsw.Connection(str(path))
    connection.execute("INSERT INTO schema_migrations VALUES (9999, '9999_future', 'x', 1)")
    connection.close()
    before = path.read_bytes()

    with pytest.raises(NewerDatabase, match="schema is 9999"):
        await Store.open(path)

    assert path.read_bytes() == before


async def test_a_database_with_another_migration_hash_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tinyagi.db"
    async with opened(path):
        pass
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE schema_migrations SET hash = 'tampered'")
    connection.close()

    with pytest.raises(MigrationFailed, match="0001_queue"):
        await Store.open(path)


async def test_a_failed_migration_leaves_the_old_database_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tinyagi.db"
    make_v0_0_20(path)
    before = rows(path, "SELECT sql FROM sqlite_schema ORDER BY name")
    clash = "\nCREATE TABLE messages (id);\n"
    broken = [(number, name, text + clash) for number, name, text in load_migrations()]
    monkeypatch.setattr("tinyagi.store.migrations.load_migrations", lambda: broken)

    with pytest.raises(MigrationFailed, match="already exists"):
        await Store.open(path)

    assert rows(path, "SELECT sql FROM sqlite_schema ORDER BY name") == before
    assert rows(path, "SELECT count(*) FROM messages") == [(5,)]


async def test_holds_of_an_earlier_version_get_their_cause(tmp_path: Path) -> None:
    path = tmp_path / "tinyagi.db"
    connection = make_old(path, 11)
    held = [("a", 9, "the daily budget of @a"), ("b", 9, "needs a fix: no key"), ("c", 9, "429"), ("d", 0, None)]
    with connection:
        connection.executemany("INSERT INTO lanes (agent, hold_until, hold_reason) VALUES (?, ?, ?)", held)
    connection.close()

    async with opened(path):
        pass

    causes = dict(rows(path, "SELECT agent, hold_cause FROM lanes"))
    assert causes == {"a": "budget", "b": "fix", "c": "provider", "d": None}
