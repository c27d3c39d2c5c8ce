"""Opens the database and assembles the store: `open` for the daemon, which also checks and migrates the file, and
`open_current` for other processes.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final, Self

import apsw

from tinyagi.domain.errors import StoreError
from tinyagi.domain.ids import IdSource
from tinyagi.domain.retry import RetryPolicy
from tinyagi.domain.routing import DEFAULT_AGENT, Route
from tinyagi.store.audit import AuditLog
from tinyagi.store.board import BoardStore
from tinyagi.store.connection import Connect, check_integrity, connect, create_private, load_statements, store_error
from tinyagi.store.event_log import EventLog
from tinyagi.store.history import HotHistory, HotTraces
from tinyagi.store.lanes import Lanes
from tinyagi.store.maintenance import RouteText
from tinyagi.store.migrations import migrate, rehearse, require_current
from tinyagi.store.pairing import PairingStore
from tinyagi.store.queue import MessageQueue
from tinyagi.store.readers import Readers, Watcher
from tinyagi.store.responses import ResponseStore
from tinyagi.store.schedules import ScheduleStore
from tinyagi.store.sessions import SessionStore, SpendStore
from tinyagi.store.transaction import Context
from tinyagi.store.writer import MAX_PAGES, Checkpointer, Writer
from tinyagi.system.changes import Changes
from tinyagi.system.clock import SteadyClock
from tinyagi.system.processes import ProcessIdentity, this_process

log = logging.getLogger(__name__)

BUSY_TIMEOUT: Final = timedelta(seconds=5)
ADOPT_AGAIN: Final = timedelta(seconds=1)
API_READERS: Final = 3
READ_LIMIT: Final = timedelta(seconds=10)
"""Limit for a client's read, so that a few large reads cannot block all others."""


def route_to_default(text: str) -> Route:
    """The default route of rows that other tools insert."""
    return Route(agent=DEFAULT_AGENT, team=None, text=text)


class Store:
    """One open database file. Lives in the event loop it was opened in."""

    def __init__(
        self,
        queue: MessageQueue,
        lanes: Lanes,
        responses: ResponseStore,
        history: HotHistory,
        sessions: SessionStore,
        spending: SpendStore,
        events: EventLog,
        board: BoardStore,
        schedules: ScheduleStore,
        pairing: PairingStore,
        audit: AuditLog,
        traces: HotTraces,
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
        """For the daemon: open or create the database, and migrate it to this version.

        Raise StoreCorrupt, NewerDatabase or StoreReadOnly for a file that cannot be used.
        """
        backups = path.parent / "backups"
        sql = load_statements()
        clock = clock or SteadyClock()

        def open_one() -> apsw.Connection:
            return connect(path, busy_timeout)

        def prepare() -> apsw.Connection:
            try:
                rehearse(path, sql, backups, clock())
                create_private(path)
                first = open_one()
                check_integrity(first, path, backups)
                migrate(first, sql, path, backups, clock(), lambda: route("").agent)
            except apsw.Error as error:
                raise store_error(error, path, backups) from error
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
        store._watch(open_one(), sql["any_unadopted"])  # noqa: SLF001 - this class
        return store

    @classmethod
    async def open_current(cls, path: Path, *, policy: RetryPolicy | None = None) -> Self:
        """For a short task beside the daemon, which is the one that checks, migrates and watches the file.

        Raise OlderDatabase or NewerDatabase, and change nothing, unless the file has exactly this version.
        """

        def open_one() -> apsw.Connection:
            return connect(path, BUSY_TIMEOUT)

        def prepare() -> apsw.Connection:
            try:
                require_current(path)
                connection = open_one()
            except apsw.Error as error:
                raise store_error(error, path, path.parent / "backups") from error
            # Without a daemon that writes, nothing else would checkpoint the log.
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
        sql, backups = load_statements(), path.parent / "backups"
        changes = Changes()
        dice = dice or random.Random()
        context = Context(sql, IdSource(dice.randrange(2**32)), dice, owner or this_process())
        checkpoint = checkpointer.finish if checkpointer else lambda: None
        writer = Writer(connection, context, clock, path, backups, changes.notify, checkpoint)
        readers = Readers(open_one, sql, path, backups, threads=API_READERS, time_limit=READ_LIMIT)
        # The engine has its own reader, so that it never waits behind a client's read.
        engine_reader = Readers(open_one, sql, path, backups, threads=1)
        policy = policy or RetryPolicy()
        return cls(
            queue=MessageQueue(writer, readers, engine_reader, policy, route, clock, alive),
            lanes=Lanes(writer, engine_reader),
            responses=ResponseStore(writer, readers, policy, clock),
            history=HotHistory(readers),
            sessions=SessionStore(writer, engine_reader),
            spending=SpendStore(engine_reader),
            events=EventLog(writer, readers),
            board=BoardStore(writer, readers),
            schedules=ScheduleStore(writer, engine_reader),
            pairing=PairingStore(writer, readers, clock),
            audit=AuditLog(writer, readers),
            traces=HotTraces(readers),
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
        """Write the waiting submissions, end the threads and close the file."""
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
        """Another connection committed: adopt its foreign rows, and wake everything that waits for changes."""
        if foreign and not self._closed and (self._adoption is None or self._adoption.done()):
            self._adoption = asyncio.create_task(self._adopt())
        self.changes.notify()

    async def _adopt(self) -> None:
        try:
            await self.queue.adopt()
            self._adoption_error = None
        except Exception as error:
            # Retry on a timer: the next foreign commit may be hours away.
            pause = ADOPT_AGAIN.total_seconds()
            asyncio.get_running_loop().call_later(pause, self._notice, True)
            if str(error) != self._adoption_error:
                self._adoption_error = str(error)
                unexpected = None if isinstance(error, StoreError) else error
                log.warning(
                    "rows of other programs could not be adopted, next try in %g s: %s",
                    pause,
                    error,
                    exc_info=unexpected,
                )


def _call(loop: asyncio.AbstractEventLoop, function: Callable[[bool], None], argument: bool) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(function, argument)
