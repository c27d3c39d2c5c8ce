"""The one writer: a thread that writes everything that is waiting in one durable transaction (group commit)."""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import apsw

from tinyagi.domain.errors import InvalidInput, OutcomeUnknown, StoreClosed
from tinyagi.store.sqlite.connection import FATAL, commit_failed, translate
from tinyagi.store.sqlite.transaction import Context, Transaction

R_contra = TypeVar("R_contra", contravariant=True)
T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")
T = TypeVar("T")

MAX_GROUP: Final = 1024
CACHE_KIB: Final = 64 * 1024
ID_TRIES: Final = 3


class Operation(Protocol[R_contra, T_co]):
    """Writes requests of one kind together and returns one result each; raises to refuse, and then nothing stays."""

    def __call__(self, tx: Transaction, requests: Sequence[R_contra], /) -> Sequence[T_co]: ...


class _Submission(NamedTuple):
    operation: Operation[Any, Any]
    request: Any
    future: asyncio.Future[Any] | None
    undo: Operation[Any, Any] | None
    """Given the result, takes it back when the caller has gone."""


_Results = list[tuple[_Submission, Any]]


class Writer:
    """Owns the write connection. All methods but the thread's own are called from the store's event loop."""

    def __init__(
        self,
        connection: apsw.Connection,
        context: Context,
        clock: Callable[[], int],
        path: Path,
        backups: Path,
        committed: Callable[[], None],
        between_groups: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._context = context
        self._clock = clock
        self._path = path
        self._backups = backups
        self._committed = committed
        self._between_groups = between_groups
        self._loop = asyncio.get_running_loop()
        self._inbox: queue.SimpleQueue[list[_Submission] | None] = queue.SimpleQueue()
        self._outbox: list[_Submission] = []
        self._closed = False
        # Every group touches the ends of several indexes; the other connections make do with less.
        connection.pragma("cache_size", -CACHE_KIB)
        self._thread = threading.Thread(target=self._run, name="tinyagi-writer", daemon=True)
        self._thread.start()

    async def write(self, operation: Operation[R, T], request: R, *, undo: Operation[T, object] | None = None) -> T:
        """Return the operation's result once it is durable. A cancelled caller does not cancel the write."""
        future: asyncio.Future[T] = self._loop.create_future()
        submission = _Submission(operation, request, future, undo)
        self._submit(submission)
        try:
            return await future
        except asyncio.CancelledError:
            # The write goes on without its caller. If the result was there already, nobody will ever see it.
            if not future.cancelled() and future.exception() is None:
                self._take_back([(submission, future.result())])
            raise

    def _submit(self, submission: _Submission) -> None:
        if self._closed:
            raise StoreClosed(f"The store {self._path} is closed.")
        # Everything submitted in one turn of the event loop travels together: one wake-up, one group.
        if not self._outbox:
            self._loop.call_soon(self._send)
        self._outbox.append(submission)

    async def close(self) -> None:
        """Write what is waiting, then end the thread and let go of the connection."""
        if not self._closed:
            self._closed = True
            self._send()
            self._inbox.put(None)
        await asyncio.to_thread(self._thread.join)
        # Results were handed over meanwhile; what nobody was there to take is taken back now.
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
        """Write the group and hand over what became of it; whatever happens, every caller gets an answer."""
        changes = self._connection.total_changes()
        try:
            results = self._write_together(group)
        except (OutcomeUnknown, *FATAL) as error:
            results = self._fail_all(group, error)
        except Exception:
            # Nothing is swallowed: whoever caused it meets it again in the replay, alone.
            results = self._replay(group)
        self._deliver(results, self._connection.total_changes() != changes)
        self._between_groups()

    def _replay(self, group: list[_Submission]) -> _Results:
        """Something in the group was refused: write it again so that only the bad operation fails."""
        self._rollback()
        try:
            return self._write_one_by_one(group)
        except (OutcomeUnknown, apsw.Error) as error:
            return self._fail_all(group, error)

    def _write_together(self, group: list[_Submission]) -> _Results:
        """One transaction, operations of one kind together; anything unexpected raises before the commit."""
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
                value = translate(error, self._path, self._backups)
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
                # An id that we made may exist already; the operation makes another one next time.
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
        reason = error if isinstance(error, OutcomeUnknown) else translate(error, self._path, self._backups)
        return [(submission, reason) for submission in group]

    def _rollback(self) -> None:
        # After FULL, IOERR and the like SQLite may have ended the transaction itself.
        if self._connection.in_transaction:
            with contextlib.suppress(apsw.Error):
                self._connection.execute("ROLLBACK")

    def _deliver(self, results: _Results, changed: bool) -> None:
        try:
            self._loop.call_soon_threadsafe(self._hand_over, results, changed)
        except RuntimeError:
            # The loop is closed: every caller has gone.
            self._take_back(results)

    def _hand_over(self, results: _Results, changed: bool) -> None:
        gone: _Results = []
        for submission, value in results:
            future = submission.future
            if future is None or future.cancelled():
                gone.append((submission, value))
            elif isinstance(value, Exception):
                future.set_exception(value)
            else:
                future.set_result(value)
        self._take_back(gone)
        # A claim that found nothing changes nothing: whoever waits for work must not be woken by their own question.
        if changed:
            self._committed()

    def _take_back(self, results: _Results) -> None:
        gone = [
            _Submission(submission.undo, value, None, None)
            for submission, value in results
            if submission.undo and value is not None and not isinstance(value, Exception)
        ]
        if gone:
            self._inbox.put(gone)


def _unstorable(error: UnicodeEncodeError) -> InvalidInput:
    """The one place that refuses a lone surrogate which no check has met: texts are not searched on their way in."""
    refusal = InvalidInput(
        "A text holds half of a character (a lone surrogate), which no database can store. Clean it."
    )
    refusal.__cause__ = error
    return refusal
