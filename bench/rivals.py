"""The other embedded queues on SQLite, each through its public API and with the durability it has by default."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol, cast

from huey import SqliteHuey
from litequeue import LiteQueue
from persistqueue import Empty, SQLiteAckQueue

from samples import ANSWER, TEXT, WARM_UP, Operation, Sample, in_threads

LOCK_TIMEOUT_SECONDS: Final = 60
SYNCHRONOUS: Final = ("OFF", "NORMAL", "FULL", "EXTRA")


def describe_durability(journal: object, synchronous: object) -> str:
    return f"{str(journal).upper()} + {SYNCHRONOUS[int(str(synchronous))]}"


@contextmanager
def _not_waiting_for_the_disk(connection: sqlite3.Connection) -> Iterator[None]:
    """For unmeasured writes; at the end of the block they are on disk, and the level is restored."""
    (level,) = connection.execute("PRAGMA synchronous").fetchone()
    connection.execute("PRAGMA synchronous = OFF")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA synchronous = {level}")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


class Rival(Protocol):
    """One library; its methods are called from many threads."""

    name: str
    keeps: str
    connection: sqlite3.Connection
    """The writing connection, or the first caller's."""

    def enqueue(self, caller: int) -> bool:
        """Store one message; always True."""

    def take(self, caller: int) -> bool:
        """Take one message and finish it; False when none is left."""

    def close(self) -> None:
        """Let go of the files."""


class Huey:
    name = "huey"
    keeps = "nothing: a task is deleted when it is dequeued"

    def __init__(self, folder: Path) -> None:
        self._huey = SqliteHuey(filename=str(folder / "huey.db"))
        self._task = self._huey.task()(_answer)
        self.connection: sqlite3.Connection = self._huey.storage.conn

    def enqueue(self, caller: int) -> bool:
        self._task(TEXT)
        return True

    def take(self, caller: int) -> bool:
        return self._huey.dequeue() is not None

    def close(self) -> None:
        self._huey.storage.close()


class Lite:
    """A connection per caller, as its documentation asks for; the timeout is long enough to wait for 255 others."""

    name = "litequeue"
    keeps = "its row, marked as done"

    def __init__(self, folder: Path, callers: int) -> None:
        path = folder / "litequeue.db"
        self._queues = [LiteQueue(path, timeout=LOCK_TIMEOUT_SECONDS) for _ in range(callers)]
        self.connection: sqlite3.Connection = self._queues[0].conn

    def enqueue(self, caller: int) -> bool:
        self._queues[caller].put(TEXT)
        return True

    def take(self, caller: int) -> bool:
        queue = self._queues[caller]
        message = queue.pop()
        if message is None:
            return False
        queue.done(message.message_id)
        return True

    def close(self) -> None:
        for queue in self._queues:
            queue.close()


class Persist:
    name = "persist-queue"
    keeps = "its row, marked as acked"

    def __init__(self, folder: Path) -> None:
        self._queue = SQLiteAckQueue(str(folder), multithreading=True)
        # The only access to its connection.
        self.connection = cast("sqlite3.Connection", self._queue._putter)  # noqa: SLF001

    def enqueue(self, caller: int) -> bool:
        self._queue.put(TEXT)
        return True

    def take(self, caller: int) -> bool:
        try:
            item = self._queue.get(block=False)
        except Empty:
            return False
        self._queue.ack(item)
        return True

    def close(self) -> None:
        self._queue.close()


class Dbos:
    """The durable-workflow peer: its client enqueues a workflow by name, without the threads that would run it.

    An enqueue stores a row of workflow_status and its arguments in a row of workflow_input, in one transaction.
    """

    name = "dbos"
    keeps = "its status, input and output rows"

    def __init__(self, folder: Path) -> None:
        # Imported here: the bench runs without this package, and importing it takes a second.
        from dbos import DBOSClient, EnqueueOptions, run_dbos_database_migrations  # noqa: PLC0415

        url = f"sqlite:///{folder / 'dbos.sqlite'}"
        run_dbos_database_migrations(url)
        self._client = DBOSClient(system_database_url=url)
        self._client.register_queue("answers")
        self._options = EnqueueOptions(workflow_name="answer", queue_name="answers")
        # The only access to a connection; this one goes back to the pool and stays open there.
        pooled = self._client._sys_db.engine.raw_connection()  # noqa: SLF001
        self.connection = cast("sqlite3.Connection", pooled.dbapi_connection)
        pooled.close()

    def enqueue(self, caller: int) -> bool:
        self._client.enqueue(self._options, TEXT)
        return True

    def take(self, caller: int) -> bool:
        """Nothing: DBOS runs its workflows itself, and callers cannot take one."""
        return False

    def close(self) -> None:
        self._client.destroy()


class InThreads:
    """A rival with a thread per caller."""

    def __init__(self, rival: Rival, callers: int) -> None:
        self.name = rival.name
        self.keeps = rival.keeps
        self._rival = rival
        self._callers = callers

    @property
    def durability(self) -> str:
        (journal,) = self._rival.connection.execute("PRAGMA journal_mode").fetchone()
        (synchronous,) = self._rival.connection.execute("PRAGMA synchronous").fetchone()
        return describe_durability(journal, synchronous)

    def warm_up(self) -> None:
        for number in range(WARM_UP):
            self._rival.enqueue(number % self._callers)
            self._rival.take(number % self._callers)

    def fill(self, messages: int) -> None:
        with _not_waiting_for_the_disk(self._rival.connection):
            for _ in range(messages):
                self._rival.enqueue(0)

    def run(self, operation: Operation, seconds: float) -> Sample:
        step = self._rival.enqueue if operation == "enqueue" else self._rival.take
        return in_threads(step, self._callers, seconds)

    def close(self) -> None:
        self._rival.close()


def _answer(text: str) -> str:
    return ANSWER
