"""Databases of every version of the original: imported completely, or left byte for byte."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import chain, combinations
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import FakeClock
from tests.support.legacy import FULL, OPTIONAL, Rows, fill_old_queue
from tests.support.old_home import contents
from tinyagi.domain.erasure import Identity, Redaction, Scope, erasure_of
from tinyagi.domain.errors import OlderDatabase, StoreError
from tinyagi.domain.ids import AgentId
from tinyagi.domain.routing import DEFAULT_AGENT, Route
from tinyagi.store.connection import load_statements
from tinyagi.store.erase import Eraser
from tinyagi.store.health import read_health
from tinyagi.store.migrations import apply_missing, require_current
from tinyagi.store.store import Store, route_to_default

KEY = b"k" * 32
MISSING: dict[str, object] = {"retry_count": 0, "original_message": ""}
"""Values of columns that the old database lacks; all others are null."""


def subsets(names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    names = tuple(names)
    return chain.from_iterable(combinations(names, size) for size in range(len(names) + 1))


def expected(stored: Rows) -> Rows:
    """The rows as the new tables hold them."""
    rows: Rows = {}
    for table, full in FULL.items():
        rows[table] = []
        for old in stored.get(table, []):
            row = {name: old.get(name, MISSING.get(name)) for name in full[0]}
            if table == "messages":
                row["conversation_id"] = row["conversation_id"] or row["message_id"]
                row["updated_at"] = row["updated_at"] or row["created_at"]
                row["status"] = {"queued": "pending"}.get(str(row["status"]), row["status"])
                if row["status"] != "pending":
                    row["agent"] = row["agent"] or row["claimed_by"] or DEFAULT_AGENT
            if table == "responses" and row["status"] == "acked":
                row["acked_at"] = row["acked_at"] or row["created_at"]
            rows[table].append(row)
    return rows


def found(connection: apsw.Connection) -> Rows:
    rows: Rows = {}
    for table, full in FULL.items():
        names = tuple(full[0])
        answer = connection.execute(f"SELECT {', '.join(names)} FROM {table} ORDER BY id")  # noqa: S608
        rows[table] = [dict(zip(names, row, strict=True)) for row in answer]
    return rows


def make(path: Path, lacking: dict[str, tuple[str, ...]] | None = None, journal: str = "delete") -> Rows:
    with closing(apsw.Connection(str(path))) as connection:
        connection.pragma("journal_mode", journal)
        return fill_old_queue(connection, lacking)


@pytest.mark.parametrize("table", list(OPTIONAL))
def test_every_subset_of_the_optional_columns_is_imported(table: str) -> None:
    sql = load_statements()
    for lacking in subsets(OPTIONAL[table]):
        with closing(apsw.Connection(":memory:")) as connection:
            stored = fill_old_queue(connection, {table: lacking})

            apply_missing(connection, sql, Path("old.db"), 9)

            assert found(connection) == expected(stored), lacking
            imported = connection.execute("SELECT count(*) FROM events WHERE type = 'row_imported'").get
            assert imported == sum(map(len, stored.values()))


def some_of(names: Iterable[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.sets(st.sampled_from(sorted(names))).map(lambda chosen: tuple(sorted(chosen)))


@given(
    messages=some_of(OPTIONAL["messages"]),
    responses=some_of(OPTIONAL["responses"]),
    tables=some_of(FULL).filter(bool),
)
def test_subsets_of_columns_and_tables_are_imported(
    messages: tuple[str, ...], responses: tuple[str, ...], tables: tuple[str, ...]
) -> None:
    with closing(apsw.Connection(":memory:")) as connection:
        stored = fill_old_queue(connection, {"messages": messages, "responses": responses}, tables)

        apply_missing(connection, load_statements(), Path("old.db"), 9)

        assert found(connection) == expected(stored)


@pytest.mark.parametrize("tables", [some for some in subsets(FULL) if some], ids="+".join)
def test_missing_tables_are_created(tables: tuple[str, ...]) -> None:
    with closing(apsw.Connection(":memory:")) as connection:
        stored = fill_old_queue(connection, tables=tables)

        apply_missing(connection, load_statements(), Path("old.db"), 9)

        assert found(connection) == expected(stored)


@pytest.mark.parametrize(
    "lacking",
    [{table: (column,)} for table, columns in OPTIONAL.items() for column in columns]
    + [{}, dict(OPTIONAL), {"responses": ("sender_id", "metadata")}],
    ids=str,
)
async def test_a_database_without_optional_columns_is_opened_with_every_row(
    tmp_path: Path, lacking: dict[str, tuple[str, ...]]
) -> None:
    stored = make(tmp_path / "tinyagi.db", lacking)

    async with await Store.open(tmp_path / "tinyagi.db", clock=FakeClock(), route=route_to_default):
        pass

    with closing(apsw.Connection(str(tmp_path / "tinyagi.db"))) as connection:
        rows = found(connection)
    for row, before in zip(rows["messages"], expected(stored)["messages"], strict=True):
        if row["status"] == "pending":
            # Adoption has routed it.
            assert row["agent"] == before["agent"] or row["agent"] == "tinyagi"
            before |= {"agent": row["agent"], "updated_at": row["updated_at"]}
        assert row == before
    assert {table: rows[table] for table in ("responses", "chat_messages")} == {
        table: expected(stored)[table] for table in ("responses", "chat_messages")
    }
    assert rows["agent_messages"][:1] == stored["agent_messages"]


@pytest.mark.parametrize("journal", ["delete", "truncate", "persist", "wal"])
async def test_a_database_with_any_journal_mode_is_opened(tmp_path: Path, journal: str) -> None:
    make(tmp_path / "tinyagi.db", journal=journal)

    async with await Store.open(tmp_path / "tinyagi.db", clock=FakeClock()) as store:
        assert (await store.queue.depth()).pending == 1


async def test_old_conversation_tables_are_renamed(tmp_path: Path) -> None:
    path = tmp_path / "tinyagi.db"
    make(path)
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("CREATE TABLE conversations (id TEXT PRIMARY KEY, original_message TEXT NOT NULL)")
        connection.execute(
            "CREATE TABLE conversation_responses (id INTEGER PRIMARY KEY, conversation_id TEXT NOT NULL, "
            "response TEXT, FOREIGN KEY (conversation_id) REFERENCES conversations (id) ON DELETE CASCADE)"
        )
        connection.execute("INSERT INTO conversations VALUES ('c1', 'secret of Ada')")
        connection.execute("INSERT INTO conversation_responses VALUES (1, 'c1', 'secret of coder')")

    async with await Store.open(path, clock=FakeClock()):
        pass

    with closing(apsw.Connection(str(path))) as connection:
        assert connection.execute("SELECT id FROM legacy_conversations").fetchall() == [("c1",)]
        assert connection.execute("SELECT id FROM conversations ORDER BY id").fetchall() == [("api_2",), ("c1",)]

    # Forgetting a person drops them: they are never read and contain texts of people.
    identity = Identity("telegram", "42", frozenset({"Ada"}))
    with Eraser(path) as eraser:
        redaction = Redaction(KEY, erasure_of(KEY, identity, Scope(), through_id=eraser.head(), now=5))
        eraser.erase(redaction, identity, eraser.scope(identity, Scope()), who="owner")
        eraser.compact()
    assert b"secret of" not in path.read_bytes()


def leave_unfinished(path: Path, make_old: Callable[[apsw.Connection], object], journal: str) -> None:
    """The files as a killed writer leaves them: copied while a transaction is being written.

    With a rollback journal the transaction is not committed; with a write-ahead log it is.
    """
    work = path.with_name("work.db")
    with closing(apsw.Connection(str(work))) as connection:
        connection.pragma("journal_mode", journal)
        connection.pragma("cache_size", 1)
        connection.pragma("cache_spill", 1)
        make_old(connection)
        if journal != "wal":
            connection.execute("BEGIN")
            connection.execute("UPDATE messages SET sender = hex(randomblob(9000)), status = 'dead'")
            connection.execute("CREATE TABLE never (x); INSERT INTO never VALUES (hex(randomblob(200000)))")
        for file in path.parent.glob("work.db*"):
            if not file.name.endswith("-shm"):
                (path.parent / file.name.replace("work.db", path.name)).write_bytes(file.read_bytes())
    for file in path.parent.glob("work.db*"):
        file.unlink()
    beside = path.with_name(f"{path.name}-{'wal' if journal == 'wal' else 'journal'}")
    assert beside.stat().st_size > 0


@pytest.mark.parametrize("journal", ["wal", "delete"])
async def test_rows_in_an_unfinished_log_are_not_lost(tmp_path: Path, journal: str) -> None:
    path = tmp_path / "tinyagi.db"
    leave_unfinished(path, fill_old_queue, journal)

    async with await Store.open(path, clock=FakeClock()) as store:
        assert (await store.queue.depth()).pending == 1

    with closing(apsw.Connection(str(path))) as connection:
        rows = found(connection)
        assert rows["messages"][:2] == expected(FULL)["messages"][:2]
        assert rows["responses"] == expected(FULL)["responses"]
        assert not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'never'").fetchall()


def bad_columns(path: Path) -> None:
    make(path, {"messages": ("message",)})


def bad_values(path: Path) -> None:
    make(path)
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("UPDATE agent_messages SET role = 'system'")


def unfinished_wal(path: Path) -> None:
    leave_unfinished(path, lambda connection: fill_old_queue(connection, {"messages": ("status",)}), "wal")


def unfinished_journal(path: Path) -> None:
    leave_unfinished(path, lambda connection: fill_old_queue(connection, {"responses": ("channel",)}), "delete")


def no_database(path: Path) -> None:
    path.write_bytes(b"These are the minutes of a meeting. " * 300)


def cut_short(path: Path) -> None:
    make(path)
    os.truncate(path, path.stat().st_size - 4096)


def cut_in_the_header(path: Path) -> None:
    make(path)
    os.truncate(path, 50)


@pytest.mark.parametrize(
    "break_database",
    [bad_columns, bad_values, unfinished_wal, unfinished_journal, no_database, cut_short, cut_in_the_header],
)
async def test_a_refused_file_is_unchanged_and_no_file_is_added(
    tmp_path: Path, break_database: Callable[[Path], None]
) -> None:
    path = tmp_path / "tinyagi.db"
    break_database(path)
    path.chmod(0o640)
    before = contents(tmp_path)

    with pytest.raises(StoreError, match=r"tinyagi\.db"):
        await Store.open(path, clock=FakeClock())

    assert contents(tmp_path) == before


def test_checking_an_old_database_changes_no_file(tmp_path: Path) -> None:
    make(tmp_path / "tinyagi.db", journal="wal")
    before = contents(tmp_path)

    assert read_health(tmp_path / "tinyagi.db").version == 0
    with pytest.raises(OlderDatabase):
        require_current(tmp_path / "tinyagi.db")

    assert contents(tmp_path) == before


async def test_a_missing_column_is_named(tmp_path: Path) -> None:
    make(tmp_path / "tinyagi.db", {"messages": ("message", "status")})

    with pytest.raises(StoreError, match=r"messages.*has no column message, status.*unchanged"):
        await Store.open(tmp_path / "tinyagi.db", clock=FakeClock())


async def test_a_dead_message_without_an_agent_goes_to_the_default_agent(tmp_path: Path) -> None:
    make(tmp_path / "tinyagi.db")

    def to_boss(text: str) -> Route:
        return Route(AgentId("boss"), None, text)

    async with await Store.open(tmp_path / "tinyagi.db", clock=FakeClock(), route=to_boss) as store:
        (dead,) = await store.queue.dead()
        await store.queue.retry_dead(dead.id)
        claim = await store.queue.claim(AgentId("boss"))

    assert dead.agent == "boss"
    assert claim is not None
    assert claim.primary.id == dead.id
