"""Read connections: each read is one short function in a thread, so no transaction outlives an await."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw

from tinyagi.domain.errors import StoreClosed
from tinyagi.store.sqlite.connection import translate

T = TypeVar("T")

READERS: Final = 3
BEYOND_ALL_IDS: Final = 2**63 - 1
"""Where a page begins that has no upper bound."""

Parameters = tuple[object, ...] | Mapping[str, object]


class Readers:
    """A few threads with a read-only connection each."""

    def __init__(
        self, connect: Callable[[], apsw.Connection], sql: Mapping[str, str], path: Path, backups: Path
    ) -> None:
        self._connect = connect
        self._sql = sql
        self._path = path
        self._backups = backups
        self._local = threading.local()
        self._connections: list[apsw.Connection] = []
        self._closed = False
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="tinyagi-reader")

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
        try:
            return read(self._connection())
        except apsw.Error as error:
            raise translate(error, self._path, self._backups) from error

    def _connection(self) -> apsw.Connection:
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._connect()
            connection.pragma("query_only", True)
            self._local.connection = connection
            self._connections.append(connection)
        return connection
