"""Reads databases of the old home and copies them. Nothing is written beside them, not even what a reader leaves."""

import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tinyagi.domain.errors import StoreFailed
from tinyagi.system import files
from tinyagi.takeover.rows import Row

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
"""Only databases of this program have it."""
_UNFINISHED: Final = ("-wal", "-journal")
"""Files that hold a part of the database when its last user did not close it."""
_PATIENCE: Final = 5


class Database:
    """One open database, for reading only."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._tables = {row[0] for row in self._ask("SELECT name FROM sqlite_schema WHERE type = 'table'")}

    @property
    def is_original(self) -> bool:
        """True for a queue of the original, which the store has not brought to this version yet."""
        return "messages" in self._tables and _LEDGER not in self._tables

    def counts(self) -> dict[str, int]:
        """The number of rows in each table of the queue."""
        return {table: self._ask(_COUNTS[table])[0][0] if table in self._tables else 0 for table in QUEUE_TABLES}

    def rows(self, table: str) -> list[Row]:
        """The rows of a table of the board; none when there is no such table."""
        return [dict(row) for row in self._ask(_ROWS[table])] if table in self._tables else []

    def copy_to(self, target: Path) -> None:
        """Through SQLite's backup interface; the copy is readable for its owner only."""
        target.unlink(missing_ok=True)
        target.touch(mode=0o600)
        with self._failures(), contextlib.closing(sqlite3.connect(target)) as copy:
            self._connection.backup(copy)

    def _ask(self, statement: str) -> list[sqlite3.Row]:
        with self._failures():
            return self._connection.execute(statement).fetchall()

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _unreadable(self._path, error) from error


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Database]:
    """The database as its last user left it; raise StoreFailed when it is damaged or still being written."""
    file = path.resolve()
    with contextlib.ExitStack() as stack:
        try:
            if any(_size(_beside(file, ending)) for ending in _UNFINISHED):
                # To read it where it is would let SQLite finish what its last user began, or leave an index beside it.
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tinyagi-takeover-"))
                address = _still_picture(file, Path(folder)).as_uri()
            else:
                # Whoever uses a database keeps such a file beside it; `immutable` makes none.
                address = f"{file.as_uri()}?mode=ro&immutable=1"
            connection = stack.enter_context(contextlib.closing(sqlite3.connect(address, uri=True)))
        except (sqlite3.Error, OSError) as error:
            raise _unreadable(path, error) from error
        connection.row_factory = sqlite3.Row
        yield Database(connection, path)


def put_in_place(aside: Path, path: Path) -> None:
    """Let a copy take the place of a database that nobody uses: what belongs to the old one goes with it."""
    if path.exists():
        try:
            with contextlib.closing(sqlite3.connect(path)) as connection:
                # A write-ahead log that is left behind would be read into the new file.
                connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error as error:
            raise _unreadable(path, error) from error
    files.put_in_place(aside, path)


def _still_picture(path: Path, folder: Path) -> Path:
    """A copy of the files, all from one moment."""
    names = [path, *(_beside(path, ending) for ending in _UNFINISHED)]
    for _ in range(_PATIENCE):
        before = [_stamp(name) for name in names]
        for name in names:
            if name.exists():
                shutil.copyfile(name, folder / name.name)
        if before == [_stamp(name) for name in names]:
            return folder / path.name
    raise StoreFailed(f"{path} is being written. Stop the program that uses it, then try again.")


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _unreadable(path: Path, error: Exception) -> StoreFailed:
    return StoreFailed(f"{path} cannot be read ({error}). Mend it with `sqlite3 … .recover` or move it away.")
