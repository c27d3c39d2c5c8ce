"""Reads the event log from other processes: synchronous, read only, without blocking the daemon.

Spark workers import this module for every task, so keep its imports light.
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import apsw

from tinyagi.domain.errors import NewerDatabase, NotFound, StoreError
from tinyagi.store.connection import load_statements, store_error
from tinyagi.store.migrations import load_migrations

BUSY_TIMEOUT_MS: Final = 5_000
PAGE_IDS: Final = 16_384
PAGE_CHARACTERS: Final = 16 * 1024 * 1024
"""A page ends with the row that reaches this size."""
TALLY_IDS: Final = 131_072

LogRow = tuple[int, str, int, str | None, str | None, int | None, str | None, str, int]
"""An event as stored: id, type, version, message id, conversation id, conversation started at, agent, payload (still
text), created at. A plain tuple: building a named one costs more than reading the row."""


@dataclass(frozen=True, slots=True)
class RangeCount:
    """Count and sum of the ids in a range: equal for two logs with the same events, even when ids are missing."""

    count: int
    id_sum: int


class EventLogReader:
    """One read-only connection. It holds no read transaction between calls or pages, so that a slow reader never delays
    the daemon's checkpoints."""

    def __init__(self, path: Path) -> None:
        """Raise NotFound, NewerDatabase or StoreError when the log cannot be read."""
        if not path.is_file():
            raise NotFound(f"There is no database at {path}. Name the file of a home that TinyAGI has run in.")
        self._path = path
        self._sql = load_statements()
        try:
            # Without SQLite's mutex: the connection is used by one thread.
            flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOMUTEX
            self._connection = apsw.Connection(str(path), flags=flags)
        except apsw.Error as error:
            raise _unreadable(error, path) from error
        try:
            self._connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            self._check_version()
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def head(self) -> int:
        """The newest id ever assigned; 0 without any."""
        head: int = self._one("event_bounds")[1]
        return head

    def position(self, consumer: str) -> int | None:
        """The last event that a durable reader has acknowledged."""
        row = self._connection.execute(self._sql["cursor"], (consumer,)).fetchone()
        return None if row is None else int(row[0])

    def first_after(self, after: int) -> int | None:
        """The oldest stored id beyond this one, or None."""
        first: int | None = self._one("first_event_after", after=after)[0]
        return first

    def end_of(self, after: int, rows: int, through: int) -> int:
        """The id of the `rows`-th event beyond `after`, or `through` when there are fewer."""
        if through - after <= rows:
            return through
        row = self._one("nth_event_after", after=after, through=through, rows=rows)
        return through if row is None else int(row[0])

    def tally(self, after: int, through: int) -> RangeCount:
        """Count and sum the ids beyond `after` up to `through`."""
        count = id_sum = 0
        for start in range(after, through, TALLY_IDS):
            part = self._one("tally_events", after=start, through=min(start + TALLY_IDS, through))
            count, id_sum = count + part[0], id_sum + part[1]
        return RangeCount(count, id_sum)

    def pages(self, after: int, through: int, types: Collection[str] | None = None) -> Iterator[list[LogRow]]:
        """The events beyond `after` up to `through` in order, optionally of these types only."""
        wanted = None if types is None else json.dumps(sorted(types))
        while after < through:
            end = min(after + PAGE_IDS, through)
            rows, is_cut = self._page(after, end, wanted)
            if rows:
                yield rows
                after = rows[-1][0] if is_cut else end
            else:
                first = self.first_after(end)
                after = through if first is None else first - 1

    def _page(self, after: int, through: int, types: str | None) -> tuple[list[LogRow], bool]:
        """The rows, and whether the page ended early because of its size."""
        rows: list[LogRow] = []
        room = PAGE_CHARACTERS
        cursor = self._connection.cursor()
        try:
            cursor.execute(self._sql["events_between"], {"after": after, "through": through, "types": types})
            for row in cursor:
                rows.append(row)
                room -= len(row[7])
                if room <= 0:
                    return rows, True
        except apsw.Error as error:
            raise _unreadable(error, self._path) from error
        finally:
            # An unfinished statement would keep its read transaction open.
            cursor.close(force=True)
        return rows, False

    def _one(self, name: str, **parameters: int) -> Any:
        try:
            return self._connection.execute(self._sql[name], parameters).fetchone()
        except apsw.Error as error:
            raise _unreadable(error, self._path) from error

    def _check_version(self) -> None:
        version = self._one("newest_migration")[0] if self._one("has_ledger")[0] else None
        if version is None:
            raise StoreError(f"{self._path} is not a database of this TinyAGI. Start TinyAGI once on this home.")
        known = load_migrations()[-1][0]
        if version > known:
            raise NewerDatabase(
                f"{self._path} was written by a newer TinyAGI (its schema is {version}, this version knows {known}). "
                "Install that version."
            )


def _unreadable(error: apsw.Error, path: Path) -> StoreError:
    if isinstance(error, apsw.CantOpenError | apsw.PermissionsError | apsw.ReadOnlyError):
        return StoreError(f"{path} cannot be read ({error}). Check that the file and its folder belong to you.")
    return store_error(error, path, path.parent / "backups")
