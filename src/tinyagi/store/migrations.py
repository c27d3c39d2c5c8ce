"""Migrates a database file to this version: forward only, all or nothing, with a backup first. Imports databases of the
original program.
"""

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from importlib.resources import files
from pathlib import Path
from typing import Final

import apsw

from tinyagi.domain.errors import MigrationFailed, NewerDatabase, NotFound, OlderDatabase, StoreFailed
from tinyagi.domain.routing import DEFAULT_AGENT
from tinyagi.store.backup import copy_connected
from tinyagi.store.connection import check_integrity, open_read_only
from tinyagi.system.files import copy_files

_CREATE_LEDGER: Final = (
    "CREATE TABLE IF NOT EXISTS schema_migrations "
    "(number INTEGER PRIMARY KEY, name TEXT NOT NULL, hash TEXT NOT NULL, applied_at INTEGER NOT NULL)"
)
_READ_LEDGER: Final = "SELECT number, hash FROM schema_migrations ORDER BY number"
_WRITE_LEDGER: Final = "INSERT INTO schema_migrations (number, name, hash, applied_at) VALUES (?, ?, ?, ?)"

_LEGACY_TABLES: Final = ("messages", "responses", "chat_messages", "agent_messages")
# Columns that every version of the original has. They have no default.
_LEGACY_REQUIRED: Final = {
    "messages": ("id", "message_id", "channel", "sender", "message", "status", "created_at"),
    "responses": ("id", "message_id", "channel", "sender", "message", "status", "created_at"),
    "chat_messages": ("id", "team_id", "from_agent", "message", "created_at"),
    "agent_messages": ("id", "agent_id", "role", "channel", "sender", "message_id", "content", "created_at"),
}
# Columns that some versions of the original have and others lack.
_LEGACY_OPTIONAL: Final = {
    "messages": (
        "sender_id", "agent", "from_agent", "files", "conversation_id", "claimed_by", "retry_count", "last_error",
        "updated_at",
    ),
    "responses": ("sender_id", "original_message", "agent", "files", "metadata", "acked_at"),
}  # fmt: skip
# Tables of the original whose names this schema uses for other data.
_LEGACY_NAMESAKES: Final = ("events", "conversations")


def load_migrations() -> list[tuple[int, str, str]]:
    """Number, name and text of every migration, in order."""
    folder = files("tinyagi.store").joinpath("sql", "migrations")
    texts = [
        (entry.name, entry.read_text(encoding="utf-8")) for entry in folder.iterdir() if entry.name.endswith(".sql")
    ]
    return sorted((int(name[:4]), name.removesuffix(".sql"), text) for name, text in texts)


def migrate(
    connection: apsw.Connection,
    sql: Mapping[str, str],
    path: Path,
    backups: Path,
    now: int,
    default_agent: Callable[[], str] = lambda: DEFAULT_AGENT,
) -> None:
    """Apply the missing migrations after a backup; refuse a newer or altered database and leave it unchanged."""
    known = load_migrations()
    if not _missing(connection, known, path):
        return
    if _tables(connection):
        _back_up(connection, path, backups, now)
    apply_missing(connection, sql, path, now, default_agent)


def apply_missing(
    connection: apsw.Connection,
    sql: Mapping[str, str],
    path: Path,
    now: int,
    default_agent: Callable[[], str] = lambda: DEFAULT_AGENT,
) -> None:
    """Apply the missing migrations in one transaction, without a backup; errors name `path`."""
    known = load_migrations()
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Check again under the lock: another process may have migrated in the meantime.
        for number, name, text in _missing(connection, known, path):
            is_legacy = number == 1 and not _tables(connection).isdisjoint(_LEGACY_TABLES)
            if is_legacy:
                _rename_legacy_tables(connection, sql)
            for statement in split_statements(text):
                connection.execute(statement)
            if is_legacy:
                _import_legacy_rows(connection, sql, now, default_agent())
            connection.execute(_CREATE_LEDGER)
            connection.execute(_WRITE_LEDGER, (number, name, _hash(text), now))
        connection.execute("COMMIT")
    except Exception as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise MigrationFailed(
            f"{path} could not be migrated to this version ({error}). It is unchanged. To start with an "
            "empty queue, move it away."
        ) from error


def require_current(path: Path) -> None:
    """Raise NotFound, OlderDatabase or NewerDatabase unless the file has exactly this version; change nothing."""
    if not path.is_file():
        raise NotFound(f"There is no database at {path} yet. Start the daemon once: `tinyagi start`.")
    known = load_migrations()
    with closing(open_read_only(path)) as connection:
        missing = _missing(connection, known, path)
    if missing:
        raise OlderDatabase(
            f"{path} has an earlier version (it lacks {missing[0][1]}). The daemon migrates it: start it with "
            "`tinyagi start`; if an older daemon still runs, use `tinyagi restart`."
        )


def rehearse(path: Path, sql: Mapping[str, str], backups: Path, now: int) -> None:
    """Try the import of a database of the original on a copy, and raise its errors; skip new files and TinyAGI's own.

    A copy, because opening the file itself would make SQLite write to it or create files beside it.
    """
    if not path.is_file() or _has_ledger(path, sql):
        return
    with tempfile.TemporaryDirectory(prefix="tinyagi-takeover-") as folder:
        try:
            copy = copy_files(path, Path(folder))
        except OSError as error:
            raise StoreFailed(
                f"{path} belongs to another program, and a copy to test its import could not be made ({error}). It is "
                f"unchanged. Make it readable, or free space in {tempfile.gettempdir()}, and try again."
            ) from error
        if copy is None:
            # Another process is writing it; the migration itself will wait for that process.
            return
        with closing(apsw.Connection(str(copy), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            check_integrity(connection, path, backups)
            connection.pragma("journal_mode", "memory")
            connection.pragma("synchronous", "off")
            apply_missing(connection, sql, path, now)


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
                f"{path} was made with a different migration {name}. Restore a backup or reinstall TinyAGI."
            )
    return [migration for migration in known if migration[0] not in applied]


def _rename_legacy_tables(connection: apsw.Connection, sql: Mapping[str, str]) -> None:
    """Rename the original's tables and add the columns its version lacks, so that one import fits every version."""
    existing = _tables(connection)
    for table in _LEGACY_TABLES:
        if table not in existing:
            connection.execute(sql[f"create_{table}"])
            continue
        columns = {row[1] for row in connection.execute("SELECT * FROM pragma_table_info(?)", (table,))}
        missing = [column for column in _LEGACY_REQUIRED[table] if column not in columns]
        if missing:
            raise MigrationFailed(f"its table {table} has no column {', '.join(missing)}")
        connection.execute(sql[f"rename_{table}"])
        for column in _LEGACY_OPTIONAL.get(table, ()):
            if column not in columns:
                connection.execute(sql[f"add_{table}_{column}"])
    for table in _LEGACY_NAMESAKES:
        if table in existing:
            connection.execute(sql[f"rename_{table}"])


def _import_legacy_rows(connection: apsw.Connection, sql: Mapping[str, str], now: int, default_agent: str) -> None:
    connection.execute(sql["import_messages"], {"default_agent": default_agent})
    for name in ("conversations", "responses", "chat_messages", "agent_messages"):
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


def split_statements(text: str) -> Iterator[str]:
    """The statements of a script one by one, because `executescript` would commit the transaction."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if apsw.complete(statement):
            yield statement
            statement = ""
    if any(line.strip() and not line.strip().startswith("--") for line in statement.splitlines()):
        raise ValueError(f"A migration ends in the middle of a statement: {statement.strip()[:80]}")


def _tables(connection: apsw.Connection) -> set[str]:
    return {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


def _has_ledger(path: Path, sql: Mapping[str, str]) -> bool:
    """True for a file of TinyAGI. Reads only the main file, which has the ledger from the first checkpoint on."""
    with suppress(apsw.Error), closing(open_read_only(path, immutable=True)) as connection:
        return bool(connection.execute(sql["has_ledger"]).get)
    return False


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
