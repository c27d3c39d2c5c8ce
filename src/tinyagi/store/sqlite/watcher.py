"""Notices what other processes write: a thread that asks SQLite every few milliseconds whether the file has changed."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

import apsw

POLL: Final = timedelta(milliseconds=25)


class Watcher:
    """Calls `changed` from its thread after every commit of another connection, with what `probe` answers."""

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
        # The first look counts as a change: rows may have been waiting since before we came.
        seen = -1
        while not self._closed:
            try:
                version = self._connection.execute("PRAGMA data_version").get
                if version != seen:
                    seen = version
                    self._changed(bool(self._connection.execute(self._probe).get))
            except apsw.Error:
                # Locked or out of reach for a moment: the next look tells. The writer reports what lasts.
                seen = -1
            # Waiting on an event would cost half as much again, forty times a second, for as long as the store is open.
            time.sleep(POLL.total_seconds())
        self._connection.close()
