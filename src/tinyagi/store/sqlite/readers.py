"""Read connections: each read is one short function in a thread, so no transaction outlives an await."""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw

from tinyagi.domain.errors import StoreBusy, StoreClosed
from tinyagi.store.sqlite.connection import translate

T = TypeVar("T")

CACHE_KIB: Final = 8 * 1024
STEPS_BETWEEN_CHECKS: Final = 100_000
"""Of SQLite's machine, some milliseconds of work: how often a read looks at the clock."""
BEYOND_ALL_IDS: Final = 2**63 - 1
"""Where a page begins that has no upper bound."""

Parameters = tuple[object, ...] | Mapping[str, object]


class Readers:
    """A few threads with a read-only connection each. With a time limit, a longer read is refused with StoreBusy."""

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
                f"A read of {self._path} was ended after {self._time_limit}. Ask for less: a smaller page, or a "
                "narrower range."
            ) from error
        except apsw.Error as error:
            raise translate(error, self._path, self._backups) from error

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
