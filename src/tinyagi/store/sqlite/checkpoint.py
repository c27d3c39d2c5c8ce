"""Keeps the write-ahead log small without stopping the writer: most of a checkpoint runs in a thread of its own."""

import contextlib
import threading
from typing import Final

import apsw

MAX_PAGES: Final = 2000


class Checkpointer:
    """Two steps: the thread copies what is in the log while the writer goes on; then the writer copies the little that
    came meanwhile. Only after the second step is the log empty, and its file is written from the start again, which is
    faster than letting it grow.
    """

    def __init__(self, connection: apsw.Connection, writer: apsw.Connection) -> None:
        self._connection = connection
        self._writer = writer
        self._wanted = threading.Event()
        self._copied = threading.Event()
        self._closed = False
        writer.set_wal_hook(self._after_commit)
        self._thread = threading.Thread(target=self._run, name="tinyagi-checkpoint", daemon=True)
        self._thread.start()

    def between_groups(self) -> None:
        """The writer's part."""
        if self._copied.is_set():
            self._copied.clear()
            with contextlib.suppress(apsw.Error):
                self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def close(self) -> None:
        """End the thread. Whoever closes the file last, here or in another process, empties the log."""
        self._closed = True
        self._wanted.set()
        self._thread.join()
        self._connection.close()

    def _after_commit(self, _: apsw.Connection, _database: str, pages: int) -> int:
        if pages > MAX_PAGES and not self._copied.is_set():
            self._wanted.set()
        return apsw.SQLITE_OK

    def _run(self) -> None:
        while self._wanted.wait() and not self._closed:
            self._wanted.clear()
            with contextlib.suppress(apsw.Error):
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            self._copied.set()
