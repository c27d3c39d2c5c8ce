"""Read connections in threads (no read transaction outlives an await), pages of bounded size, and the watcher that
notices commits of other connections.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw

from tinyagi.domain.errors import StoreBusy, StoreClosed
from tinyagi.store.connection import store_error

Row = TypeVar("Row", bound=tuple[object, ...])
T = TypeVar("T")
Parameters = tuple[object, ...] | Mapping[str, object]

PAGE_CHARACTERS: Final = 4 * 1024 * 1024
CACHE_KIB: Final = 8 * 1024
STEPS_BETWEEN_CHECKS: Final = 100_000
"""Steps of SQLite's virtual machine, a few milliseconds of work, between two checks of the time limit."""
BEYOND_ALL_IDS: Final = 2**63 - 1
"""The upper bound of a page without one."""
POLL: Final = timedelta(milliseconds=25)


class Readers:
    """A few threads with a read-only connection each. A read beyond the time limit raises StoreBusy."""

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        sql: Mapping[str, str],
        path: Path,
        backups: Path,
        *,
        threads: int,
        time_limit: timedelta | None = None,
    ) -> None:
        self._connect = connect
        self._sql = sql
        self._path = path
        self._backups = backups
        self._time_limit = time_limit
        self._local = threading.local()
        self._connections: list[apsw.Connection] = []
        self._closed = False
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="tinyagi-reader")

    async def rows(self, name: str, parameters: Parameters = ()) -> list[Any]:
        """All rows of a named statement."""
        return await self.run(lambda connection: connection.execute(self._sql[name], parameters).fetchall())

    async def page(self, name: str, parameters: Parameters = ()) -> list[Any]:
        """The first rows of a named statement, up to one page of text."""
        return await self.run(lambda connection: fill_page(connection.execute(self._sql[name], parameters)))

    async def each(self, name: str, parameters: Parameters, make: Callable[[tuple[Any, ...]], T]) -> list[T]:
        """The result of `make` for each row. It runs before the next row is read, so that it can cut long texts."""
        return await self.run(lambda connection: [make(row) for row in connection.execute(self._sql[name], parameters)])

    async def row(self, name: str, parameters: Parameters = ()) -> Any:
        """The first row of a named statement, or None."""
        return await self.run(lambda connection: connection.execute(self._sql[name], parameters).fetchone())

    async def run(self, read: Callable[[apsw.Connection], T]) -> T:
        if self._closed:
            raise StoreClosed(f"The store {self._path} is closed.")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read, read)

    async def close(self) -> None:
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown)
        for connection in self._connections:
            connection.close()

    def _read(self, read: Callable[[apsw.Connection], T]) -> T:
        if self._time_limit is not None:
            self._local.ends_at = time.monotonic() + self._time_limit.total_seconds()
        try:
            return read(self._connection())
        except apsw.InterruptError as error:
            raise StoreBusy(
                f"A read of {self._path} took longer than {self._time_limit} and was stopped. Ask for less: a smaller "
                "page, or a narrower range."
            ) from error
        except apsw.Error as error:
            raise store_error(error, self._path, self._backups) from error

    def _connection(self) -> apsw.Connection:
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._connect()
            connection.pragma("query_only", True)
            connection.pragma("cache_size", -CACHE_KIB)
            if self._time_limit is not None:
                connection.set_progress_handler(self._is_over_time, STEPS_BETWEEN_CHECKS)
            self._local.connection = connection
            self._connections.append(connection)
        return connection

    def _is_over_time(self) -> bool:
        is_over: bool = time.monotonic() > self._local.ends_at
        return is_over


class Watcher:
    """Calls `changed` from its thread after every commit of another connection, with the result of `probe`."""

    def __init__(self, connection: apsw.Connection, probe: str, changed: Callable[[bool], None]) -> None:
        self._connection = connection
        self._probe = probe
        self._changed = changed
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="tinyagi-watcher", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed = True
        self._thread.join()

    def _run(self) -> None:
        # The first poll counts as a change: rows may have been waiting since before the start.
        seen = -1
        while not self._closed:
            try:
                version = self._connection.execute("PRAGMA data_version").get
                if version != seen:
                    seen = version
                    self._changed(bool(self._connection.execute(self._probe).get))
            except apsw.Error:
                # Perhaps locked for a moment: poll again. The writer reports a lasting fault.
                seen = -1
            # `sleep`, not an event with a timeout: that costs half as much again, 40 times a second.
            time.sleep(POLL.total_seconds())
        self._connection.close()


def fill_page(rows: Iterable[Row]) -> list[Row]:
    """Rows up to the one that fills the page, at least one; later rows are not read."""
    page, left = [], PAGE_CHARACTERS
    for row in rows:
        page.append(row)
        left -= _characters(row)
        if left <= 0:
            break
    return page


def is_full(page: Iterable[tuple[object, ...]]) -> bool:
    """True when `fill_page` may have left out rows."""
    return sum(map(_characters, page)) >= PAGE_CHARACTERS


def _characters(row: tuple[object, ...]) -> int:
    return sum(len(value) for value in row if isinstance(value, str))
