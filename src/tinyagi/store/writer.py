"""The only writer: a thread that commits all waiting operations in one durable transaction (group commit); and the
thread that checkpoints the write-ahead log.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, Protocol, TypeVar

import apsw

from tinyagi.domain.errors import InvalidInput, OutcomeUnknown, StoreClosed
from tinyagi.store.connection import FATAL, commit_failed, store_error
from tinyagi.store.transaction import Context, Transaction

R_contra = TypeVar("R_contra", contravariant=True)
T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")
T = TypeVar("T")
P = ParamSpec("P")

MAX_GROUP: Final = 1024
CACHE_KIB: Final = 64 * 1024
ID_TRIES: Final = 3
MAX_PAGES: Final = 2000
"""Pages in the write-ahead log that start a checkpoint."""


class Operation(Protocol[R_contra, T_co]):
    """Writes requests of one kind and returns one result each. When it raises, nothing of it is stored."""

    def __call__(self, tx: Transaction, requests: Sequence[R_contra], /) -> Sequence[T_co]: ...


class _Submission(NamedTuple):
    operation: Operation[Any, Any]
    request: Any
    future: asyncio.Future[Any] | None
    undo: Operation[Any, Any] | None
    """Gets the result and reverts it when the caller is gone."""


_Results = list[tuple[_Submission, Any]]


class Writer:
    """Owns the write connection. Call its public methods from the store's event loop."""

    def __init__(
        self,
        connection: apsw.Connection,
        context: Context,
        clock: Callable[[], int],
        path: Path,
        backups: Path,
        committed: Callable[[], None],
        checkpoint: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._context = context
        self._clock = clock
        self._path = path
        self._backups = backups
        self._committed = committed
        self._checkpoint = checkpoint
        self._loop = asyncio.get_running_loop()
        self._inbox: queue.SimpleQueue[list[_Submission] | None] = queue.SimpleQueue()
        self._outbox: list[_Submission] = []
        self._closed = False
        # Every group touches the ends of several indexes; other connections need a smaller cache.
        connection.pragma("cache_size", -CACHE_KIB)
        self._thread = threading.Thread(target=self._run, name="tinyagi-writer", daemon=True)
        self._thread.start()

    async def write(self, operation: Operation[R, T], request: R, *, undo: Operation[T, object] | None = None) -> T:
        """Return the operation's result once it is durable. Cancelling the caller does not cancel the write."""
        future: asyncio.Future[T] = self._loop.create_future()
        submission = _Submission(operation, request, future, undo)
        self._submit(submission)
        try:
            return await future
        except asyncio.CancelledError:
            # The write goes on without its caller. If the result has already arrived, it has to be undone here.
            if not future.cancelled() and future.exception() is None:
                self._undo([(submission, future.result())])
            raise

    async def run(self, operation: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Like `write`, for an operation that gains nothing from a batch: it is called once per submission."""
        return await self.write(_each, lambda tx: operation(tx, *args, **kwargs))

    def _submit(self, submission: _Submission) -> None:
        if self._closed:
            raise StoreClosed(f"The store {self._path} is closed.")
        # Submissions of one turn of the event loop go together: one wake-up, one group.
        if not self._outbox:
            self._loop.call_soon(self._send)
        self._outbox.append(submission)

    async def close(self) -> None:
        """Write the waiting submissions, end the thread and close the connection."""
        if not self._closed:
            self._closed = True
            self._send()
            self._inbox.put(None)
        await asyncio.to_thread(self._thread.join)
        # Results resolved in the meantime may have queued undos for callers that are gone.
        await asyncio.to_thread(self._finish)

    def _send(self) -> None:
        if self._outbox:
            self._inbox.put(self._outbox)
            self._outbox = []

    def _run(self) -> None:
        while (group := self._inbox.get()) is not None:
            while len(group) < MAX_GROUP and not self._inbox.empty():
                more = self._inbox.get_nowait()
                if more is None:
                    self._inbox.put(None)
                    break
                group += more
            self._write_group(group)

    def _finish(self) -> None:
        while not self._inbox.empty():
            self._write_group(self._inbox.get_nowait() or [])
        self._connection.close()

    def _write_group(self, group: list[_Submission]) -> None:
        """Write the group and deliver the results; every caller gets a result or an error."""
        changes = self._connection.total_changes()
        try:
            results = self._write_together(group)
        except (OutcomeUnknown, *FATAL) as error:
            results = self._fail_all(group, error)
        except Exception:
            # Not swallowed: the replay raises it again for the operation that caused it.
            results = self._replay(group)
        self._deliver(results, self._connection.total_changes() != changes)
        self._checkpoint()

    def _replay(self, group: list[_Submission]) -> _Results:
        """Write a refused group again, so that only the bad operation fails."""
        self._rollback()
        try:
            return self._write_one_by_one(group)
        except (OutcomeUnknown, apsw.Error) as error:
            return self._fail_all(group, error)

    def _write_together(self, group: list[_Submission]) -> _Results:
        """One transaction, operations of one kind together; any error raises before the commit."""
        kinds: dict[Operation[Any, Any], list[_Submission]] = {}
        for submission in group:
            kinds.setdefault(submission.operation, []).append(submission)
        results: _Results = []
        self._connection.execute("BEGIN IMMEDIATE")
        tx = Transaction(self._connection, self._context, self._clock())
        for operation, submissions in kinds.items():
            values = operation(tx, [submission.request for submission in submissions])
            results.extend(zip(submissions, values, strict=True))
        tx.flush()
        self._commit()
        return results

    def _write_one_by_one(self, group: list[_Submission]) -> _Results:
        """One transaction, a savepoint per operation: one bad operation fails alone."""
        results: _Results = []
        self._connection.execute("BEGIN IMMEDIATE")
        for submission in group:
            self._connection.execute("SAVEPOINT one")
            try:
                value = self._write_alone(submission)
            except FATAL:
                raise
            except UnicodeEncodeError as error:
                value = _unstorable(error)
                self._connection.execute("ROLLBACK TO one")
            except apsw.Error as error:
                value = store_error(error, self._path, self._backups)
                self._connection.execute("ROLLBACK TO one")
            except Exception as error:
                value = error
                self._connection.execute("ROLLBACK TO one")
            self._connection.execute("RELEASE one")
            results.append((submission, value))
        self._commit()
        return results

    def _write_alone(self, submission: _Submission) -> Any:
        for attempt in range(1, ID_TRIES + 1):
            tx = Transaction(self._connection, self._context, self._clock())
            try:
                (value,) = submission.operation(tx, [submission.request])
                tx.flush()
            except apsw.ConstraintError:
                # A generated id may already exist; the next attempt generates another one.
                if attempt == ID_TRIES:
                    raise
                self._connection.execute("ROLLBACK TO one")
                self._context.ids.jump(self._context.dice.randrange(2**32))
            else:
                return value
        raise AssertionError("unreachable")

    def _commit(self) -> None:
        try:
            self._connection.execute("COMMIT")
        except apsw.Error as error:
            raise commit_failed(error, self._path) from error

    def _fail_all(self, group: list[_Submission], error: OutcomeUnknown | apsw.Error) -> _Results:
        self._rollback()
        reason = error if isinstance(error, OutcomeUnknown) else store_error(error, self._path, self._backups)
        return [(submission, reason) for submission in group]

    def _rollback(self) -> None:
        # After FULL, IOERR and similar errors SQLite may have already rolled back.
        if self._connection.in_transaction:
            with contextlib.suppress(apsw.Error):
                self._connection.execute("ROLLBACK")

    def _deliver(self, results: _Results, changed: bool) -> None:
        try:
            self._loop.call_soon_threadsafe(self._resolve_futures, results, changed)
        except RuntimeError:
            # The loop is closed: all callers are gone.
            self._undo(results)

    def _resolve_futures(self, results: _Results, changed: bool) -> None:
        gone: _Results = []
        for submission, value in results:
            future = submission.future
            if future is None or future.cancelled():
                gone.append((submission, value))
            elif isinstance(value, Exception):
                future.set_exception(value)
            else:
                future.set_result(value)
        self._undo(gone)
        # A claim that finds nothing changes nothing, and must not wake the worker that asked.
        if changed:
            self._committed()

    def _undo(self, results: _Results) -> None:
        undos = [
            _Submission(submission.undo, value, None, None)
            for submission, value in results
            if submission.undo and value is not None and not isinstance(value, Exception)
        ]
        if undos:
            self._inbox.put(undos)


def _each(tx: Transaction, calls: Sequence[Callable[[Transaction], T]]) -> list[T]:
    return [call(tx) for call in calls]


def _unstorable(error: UnicodeEncodeError) -> InvalidInput:
    """Refuses lone surrogates that no earlier check caught: checks do not scan every text."""
    refusal = InvalidInput(
        "A text holds half of a character (a lone surrogate), which no database can store. Remove it."
    )
    refusal.__cause__ = error
    return refusal


class Checkpointer:
    """Checkpoints in two steps: its thread copies the log while the writer goes on; then the writer copies the few
    pages added since. Only the second step empties the log, so that SQLite writes its file from the start again, which
    is faster than letting it grow.
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

    def finish(self) -> None:
        """The second step, which the writer calls between two groups."""
        if self._copied.is_set():
            self._copied.clear()
            with contextlib.suppress(apsw.Error):
                self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def close(self) -> None:
        """End the thread. The last connection to close, of this or another process, empties the log."""
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
