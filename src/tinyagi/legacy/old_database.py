"""Reads and copies databases of the old home. Writes nothing beside them, not even the files of a SQLite reader."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tinyagi.domain.errors import StoreFailed
from tinyagi.legacy.old_records import OldRow
from tinyagi.store.backup import copy_connected
from tinyagi.store.connection import Connection, SQLiteError, open_existing, open_read_only
from tinyagi.system.files import copy_files, is_unfinished

QUEUE_TABLES: Final = ("messages", "responses", "chat_messages", "agent_messages")
_COUNTS: Final = {
    "messages": "SELECT count(*) FROM messages",
    "responses": "SELECT count(*) FROM responses",
    "chat_messages": "SELECT count(*) FROM chat_messages",
    "agent_messages": "SELECT count(*) FROM agent_messages",
}
_ROWS: Final = {
    "projects": "SELECT * FROM projects ORDER BY rowid",
    "tasks": "SELECT * FROM tasks ORDER BY rowid",
    "comments": "SELECT * FROM comments ORDER BY rowid",
}
_LEDGER: Final = "schema_migrations"
"""A table that only this program's databases have."""


class OldDatabase:
    """One open database, for reading only."""

    def __init__(self, connection: Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._tables = {row["name"] for row in self._select("SELECT name FROM sqlite_schema WHERE type = 'table'")}

    @property
    def is_original(self) -> bool:
        """True for a queue of the original that the store has not migrated yet."""
        return not self._tables.isdisjoint(QUEUE_TABLES) and _LEDGER not in self._tables

    def counts(self) -> dict[str, int]:
        """The number of rows in each table of the queue."""
        with self._failures():
            return {
                table: self._connection.execute(_COUNTS[table]).get if table in self._tables else 0
                for table in QUEUE_TABLES
            }

    def rows(self, table: str) -> list[OldRow]:
        """The rows of a board table; empty when the table does not exist."""
        return self._select(_ROWS[table]) if table in self._tables else []

    def copy_to(self, target: Path) -> None:
        """Copy with SQLite's backup interface; only the owner can read the copy."""
        target.unlink(missing_ok=True)
        with self._failures():
            copy_connected(self._connection, target)

    def _select(self, statement: str) -> list[OldRow]:
        with self._failures():
            cursor = self._connection.execute(statement)
            return [
                {column: value for (column, _), value in zip(cursor.get_description(), row, strict=True)}
                for row in cursor
            ]

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except (SQLiteError, UnicodeDecodeError) as error:
            raise _unreadable(self._path, error) from error


@contextlib.contextmanager
def open_old(path: Path) -> Iterator[OldDatabase]:
    """The database as its last user left it; raise StoreFailed when it is damaged or still being written."""
    file = path.resolve()
    with contextlib.ExitStack() as stack:
        try:
            if is_unfinished(file):
                # Opened in place, SQLite would recover or checkpoint it, or leave an index file beside it.
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tinyagi-takeover-"))
                copy = copy_files(file, Path(folder))
                if copy is None:
                    raise StoreFailed(f"{path} is being written. Stop the program that uses it, then try again.")
                connection = open_existing(copy)
            else:
                # Without a log beside it the database has no user. `immutable` keeps SQLite from creating such files.
                connection = open_read_only(file, immutable=True)
        except (SQLiteError, OSError) as error:
            raise _unreadable(path, error) from error
        stack.enter_context(contextlib.closing(connection))
        yield OldDatabase(connection, path)


def _unreadable(path: Path, error: Exception) -> StoreFailed:
    return StoreFailed(f"{path} cannot be read ({error}). Repair it with `sqlite3 … .recover` or move it away.")
