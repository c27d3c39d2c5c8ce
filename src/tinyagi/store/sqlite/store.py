"""Opens a SQLite store: for the daemon, which checks and migrates the file, or beside it. Hands out the ports."""

import asyncio
import logging
import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final, Self

import apsw

from tinyagi.domain.errors import StoreError
from tinyagi.domain.ids import AgentId, IdSource
from tinyagi.domain.retry import RetryPolicy
from tinyagi.domain.routing import Route
from tinyagi.store.changes import Changes
from tinyagi.store.clock import SteadyClock
from tinyagi.store.sqlite.audit import SqliteAuditLog
from tinyagi.store.sqlite.board import SqliteBoard
from tinyagi.store.sqlite.checkpoint import MAX_PAGES, Checkpointer
from tinyagi.store.sqlite.connection import Connect, check, connect, create_private, translate
from tinyagi.store.sqlite.migrations import migrate, require_current
from tinyagi.store.sqlite.operations.adopt import RouteText
from tinyagi.store.sqlite.pairing import SqlitePairing
from tinyagi.store.sqlite.ports import (
    SqliteEventLog,
    SqliteHistory,
    SqliteLanes,
    SqliteResponses,
    SqliteSessions,
    SqliteSpending,
)
from tinyagi.store.sqlite.queue import SqliteQueue
from tinyagi.store.sqlite.readers import Readers
from tinyagi.store.sqlite.schedules import SqliteSchedules
from tinyagi.store.sqlite.traces import SqliteTraces
from tinyagi.store.sqlite.transaction import Context
from tinyagi.store.sqlite.watcher import Watcher
from tinyagi.store.sqlite.writer import Writer
from tinyagi.store.statements import load_statements
from tinyagi.system.processes import ProcessIdentity, this_process

log = logging.getLogger(__name__)

DEFAULT_AGENT: Final = AgentId("tinyagi")
BUSY_TIMEOUT: Final = timedelta(seconds=5)
ADOPT_AGAIN: Final = timedelta(seconds=1)
API_READERS: Final = 3
READ_LIMIT: Final = timedelta(seconds=10)
"""After this time a read for a client is ended, so that a few large ones cannot stop all others."""


def route_to_default(text: str) -> Route:
    """Where foreign rows go when nobody says better."""
    return Route(agent=DEFAULT_AGENT, team=None, text=text)


class SqliteStore:
    """One open database file. Lives in the event loop it was opened in."""

    def __init__(
        self,
        queue: SqliteQueue,
        lanes: SqliteLanes,
        responses: SqliteResponses,
        history: SqliteHistory,
        sessions: SqliteSessions,
        spending: SqliteSpending,
        events: SqliteEventLog,
        board: SqliteBoard,
        schedules: SqliteSchedules,
        pairing: SqlitePairing,
        audit: SqliteAuditLog,
        traces: SqliteTraces,
        changes: Changes,
        clock: Callable[[], int],
        writer: Writer,
        readers: tuple[Readers, ...],
        checkpointer: Checkpointer | None,
    ) -> None:
        self.queue = queue
        self.lanes = lanes
        self.responses = responses
        self.history = history
        self.sessions = sessions
        self.spending = spending
        self.events = events
        self.board = board
        self.schedules = schedules
        self.pairing = pairing
        self.audit = audit
        self.traces = traces
        self.changes = changes
        self.clock = clock
        self._writer = writer
        self._readers = readers
        self._checkpointer = checkpointer
        self._watcher: Watcher | None = None
        self._adoption: asyncio.Task[None] | None = None
        self._adoption_error: str | None = None
        self._closed = False

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        policy: RetryPolicy | None = None,
        route: RouteText = route_to_default,
        clock: Callable[[], int] | None = None,
        dice: random.Random | None = None,
        owner: ProcessIdentity | None = None,
        alive: Callable[[ProcessIdentity], bool | None] = ProcessIdentity.is_alive,
        busy_timeout: timedelta = BUSY_TIMEOUT,
        connect: Connect = connect,
    ) -> Self:
        """For the daemon: open or create the database, and bring it to this version.

        A damaged, newer or read-only one is refused with a clear error.
        """
        backups = path.parent / "backups"
        sql = load_statements("sqlite")
        clock = clock or SteadyClock()

        def open_one() -> apsw.Connection:
            return connect(path, busy_timeout)

        def prepare() -> apsw.Connection:
            try:
                create_private(path)
                first = open_one()
                check(first, path, backups)
                migrate(first, sql, path, backups, clock())
            except apsw.Error as error:
                raise translate(error, path, backups) from error
            return first

        connection = await asyncio.to_thread(prepare)
        store = cls._assemble(
            connection,
            open_one,
            path,
            clock=clock,
            policy=policy,
            route=route,
            dice=dice,
            owner=owner,
            alive=alive,
            checkpointer=Checkpointer(open_one(), connection),
        )
        await store.queue.adopt()
        store._watch(open_one(), sql["any_unadopted"])  # noqa: SLF001 - of this class
        return store

    @classmethod
    async def open_current(cls, path: Path, *, policy: RetryPolicy | None = None) -> Self:
        """For a short piece of work beside the daemon, which checks, migrates and watches the file.

        Raise OlderDatabase or NewerDatabase unless it is of exactly this version; nothing is changed then.
        """

        def open_one() -> apsw.Connection:
            return connect(path, BUSY_TIMEOUT)

        def prepare() -> apsw.Connection:
            try:
                require_current(path)
                connection = open_one()
            except apsw.Error as error:
                raise translate(error, path, path.parent / "backups") from error
            # The daemon may not run, or not write.
            connection.wal_autocheckpoint(MAX_PAGES)
            return connection

        connection = await asyncio.to_thread(prepare)
        return cls._assemble(connection, open_one, path, clock=SteadyClock(), policy=policy)

    @classmethod
    def _assemble(
        cls,
        connection: apsw.Connection,
        open_one: Callable[[], apsw.Connection],
        path: Path,
        *,
        clock: Callable[[], int],
        policy: RetryPolicy | None = None,
        route: RouteText = route_to_default,
        dice: random.Random | None = None,
        owner: ProcessIdentity | None = None,
        alive: Callable[[ProcessIdentity], bool | None] = ProcessIdentity.is_alive,
        checkpointer: Checkpointer | None = None,
    ) -> Self:
        sql, backups = load_statements("sqlite"), path.parent / "backups"
        changes = Changes()
        dice = dice or random.Random()
        context = Context(sql, IdSource(dice.randrange(2**32)), dice, owner or this_process())
        between_groups = checkpointer.between_groups if checkpointer else lambda: None
        writer = Writer(connection, context, clock, path, backups, changes.notify, between_groups)
        readers = Readers(open_one, sql, path, backups, threads=API_READERS, time_limit=READ_LIMIT)
        # What the engine has to know to go on never waits behind what a client asks for.
        engine_reader = Readers(open_one, sql, path, backups, threads=1)
        policy = policy or RetryPolicy()
        return cls(
            queue=SqliteQueue(writer, readers, engine_reader, policy, route, clock, alive),
            lanes=SqliteLanes(writer, engine_reader),
            responses=SqliteResponses(writer, readers, policy, clock),
            history=SqliteHistory(readers),
            sessions=SqliteSessions(writer, engine_reader),
            spending=SqliteSpending(engine_reader),
            events=SqliteEventLog(writer, readers),
            board=SqliteBoard(writer, readers),
            schedules=SqliteSchedules(writer, engine_reader),
            pairing=SqlitePairing(writer, readers, clock),
            audit=SqliteAuditLog(writer, readers),
            traces=SqliteTraces(readers),
            changes=changes,
            clock=clock,
            writer=writer,
            readers=(readers, engine_reader),
            checkpointer=checkpointer,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Write what is waiting, end the threads and let go of the file."""
        self._closed = True
        if self._watcher is not None:
            await asyncio.to_thread(self._watcher.close)
        if self._adoption is not None:
            await asyncio.wait([self._adoption])
        await self._writer.close()
        for readers in self._readers:
            await readers.close()
        if self._checkpointer is not None:
            await asyncio.to_thread(self._checkpointer.close)

    def _watch(self, connection: apsw.Connection, probe: str) -> None:
        loop = asyncio.get_running_loop()
        self._watcher = Watcher(connection, probe, lambda foreign: _call(loop, self._notice, foreign))

    def _notice(self, foreign: bool) -> None:
        """Somebody committed; rows that nobody has adopted yet are taken in before others look at them."""
        if foreign and not self._closed and (self._adoption is None or self._adoption.done()):
            self._adoption = asyncio.create_task(self._adopt())
        self.changes.notify()

    async def _adopt(self) -> None:
        try:
            await self.queue.adopt()
            self._adoption_error = None
        except Exception as error:
            # The next notice comes with the next foreign commit, which may be hours away: try again without one.
            pause = ADOPT_AGAIN.total_seconds()
            asyncio.get_running_loop().call_later(pause, self._notice, True)
            if str(error) != self._adoption_error:
                self._adoption_error = str(error)
                unforeseen = None if isinstance(error, StoreError) else error
                log.warning(
                    "rows of other programs could not be taken in, next try in %g s: %s",
                    pause,
                    error,
                    exc_info=unforeseen,
                )


def _call(loop: asyncio.AbstractEventLoop, function: Callable[[bool], None], argument: bool) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(function, argument)
