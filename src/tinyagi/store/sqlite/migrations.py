"""Brings a database file to this version: forward only, all or nothing, with a backup first."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

import apsw

from tinyagi.domain.errors import MigrationFailed, NewerDatabase, NotFound, OlderDatabase
from tinyagi.store.sqlite.backup import copy_connected
from tinyagi.store.statements import load_migrations

_CREATE_LEDGER: Final = (
    "CREATE TABLE IF NOT EXISTS schema_migrations "
    "(number INTEGER PRIMARY KEY, name TEXT NOT NULL, hash TEXT NOT NULL, applied_at INTEGER NOT NULL)"
)
_READ_LEDGER: Final = "SELECT number, hash FROM schema_migrations ORDER BY number"
_WRITE_LEDGER: Final = "INSERT INTO schema_migrations (number, name, hash, applied_at) VALUES (?, ?, ?, ?)"

_LEGACY_TABLES: Final = ("messages", "responses", "chat_messages", "agent_messages")
# Columns that some versions of the original have and others lack.
_LEGACY_COLUMNS: Final = {
    "messages": ("from_agent", "files", "conversation_id", "claimed_by"),
    "responses": ("agent", "files", "metadata"),
}


def migrate(connection: apsw.Connection, sql: Mapping[str, str], path: Path, backups: Path, now: int) -> None:
    """Apply what is missing; a newer or altered database is refused and left as it is."""
    known = load_migrations("sqlite")
    if not _missing(connection, known, path):
        return
    if _tables(connection):
        _back_up(connection, path, backups, now)
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have been faster while we waited for the lock.
        for number, name, text in _missing(connection, known, path):
            takes_over = number == 1 and "messages" in _tables(connection)
            if takes_over:
                _set_aside(connection, sql)
            for statement in split_statements(text):
                connection.execute(statement)
            if takes_over:
                _import(connection, sql, now)
            connection.execute(_CREATE_LEDGER)
            connection.execute(_WRITE_LEDGER, (number, name, _hash(text), now))
        connection.execute("COMMIT")
    except Exception as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise MigrationFailed(f"{path} could not be brought to this version ({error}). It is unchanged.") from error


def require_current(path: Path) -> None:
    """Raise NotFound, OlderDatabase or NewerDatabase unless the file is of exactly this version; changes nothing."""
    if not path.is_file():
        raise NotFound(f"There is no database at {path} yet. Start the daemon once: `tinyagi start`.")
    known = load_migrations("sqlite")
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        missing = _missing(connection, known, path)
    if missing:
        raise OlderDatabase(
            f"{path} is of an earlier version (it lacks {missing[0][1]}). The daemon brings it to this one: start it "
            "with `tinyagi start`; if an older daemon still runs, `tinyagi restart`."
        )


def split_statements(text: str) -> Iterator[str]:
    """The statements of a script one by one: `executescript` would commit behind our back."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if apsw.complete(statement):
            yield statement
            statement = ""
    if any(line.strip() and not line.strip().startswith("--") for line in statement.splitlines()):
        raise ValueError(f"A migration ends in the middle of a statement: {statement.strip()[:80]}")


def _missing(connection: apsw.Connection, known: list[tuple[int, str, str]], path: Path) -> list[tuple[int, str, str]]:
    applied: dict[int, str] = {}
    if "schema_migrations" in _tables(connection):
        applied = dict(connection.execute(_READ_LEDGER))
    newest = max(applied, default=0)
    if newest > known[-1][0]:
        raise NewerDatabase(
            f"{path} was written by a newer TinyAGI (its schema is {newest}, this version knows {known[-1][0]}). "
            "Install that version or use another home; the file is untouched."
        )
    for number, name, text in known:
        if number in applied and applied[number] != _hash(text):
            raise MigrationFailed(
                f"{path} was made with another text of migration {name}; restore a backup or reinstall."
            )
    return [migration for migration in known if migration[0] not in applied]


def _set_aside(connection: apsw.Connection, sql: Mapping[str, str]) -> None:
    """Rename the original's tables and fill in what its version lacks, so that one import fits them all."""
    existing = _tables(connection)
    for table in _LEGACY_TABLES:
        if table not in existing:
            connection.execute(sql[f"create_{table}"])
            continue
        columns = {row[1] for row in connection.execute("SELECT * FROM pragma_table_info(?)", (table,))}
        connection.execute(sql[f"rename_{table}"])
        for column in _LEGACY_COLUMNS.get(table, ()):
            if column not in columns:
                connection.execute(sql[f"add_{table}_{column}"])
    if "events" in existing:
        connection.execute(sql["rename_events"])


def _import(connection: apsw.Connection, sql: Mapping[str, str], now: int) -> None:
    for name in ("messages", "conversations", "responses", "chat_messages", "agent_messages"):
        connection.execute(sql[f"import_{name}"])
    for table in _LEGACY_TABLES:
        connection.execute(sql[f"record_{table}"], {"now": now})
    connection.execute(sql["index_imported_history"])
    connection.execute(sql["mark_history_indexed"])
    connection.execute(sql["keep_sequences"])
    for table in _LEGACY_TABLES:
        connection.execute(sql[f"drop_{table}"])


def _back_up(connection: apsw.Connection, path: Path, backups: Path, now: int) -> None:
    backups.mkdir(parents=True, exist_ok=True, mode=0o700)
    copy_connected(connection, backups / f"{path.stem}-{now}.db")


def _tables(connection: apsw.Connection) -> set[str]:
    return {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
