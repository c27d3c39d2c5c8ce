"""The HTTP server: binds the port, accepts connections up to a limit, runs uvicorn's protocol, drains at the end."""

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Final

from starlette.types import ASGIApp
from uvicorn import Config
from uvicorn.server import ServerState

from tinyagi.domain.errors import InvalidInput
from tinyagi.server.http_protocol import PEER_USER, BoundedProtocol, Connections, answer_bytes
from tinyagi.system.peer_user import PeerUsers
from tinyagi.system.processes import file_limit

log = logging.getLogger(__name__)

REQUEST_TIME: Final = timedelta(seconds=60)
"""A request must arrive whole within this time, counted from the opening of the connection or the last answer."""
WRITE_TIME: Final = timedelta(seconds=60)
"""A client must read some of its answer within this time."""
BACKLOG: Final = 2048
ACCEPTS_AT_ONCE: Final = 32
"""Connections accepted in a row before requests get their turn."""
ACCEPT_PAUSE: Final = timedelta(milliseconds=200)
"""Pause after a failed accept."""
SECONDS_BETWEEN_WARNINGS: Final = 60.0
STOP_GRACE: Final = timedelta(seconds=3)
OTHER_CONNECTIONS: Final = 5_000
"""Connections allowed beside the readers of live events."""
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_FULL: Final = answer_bytes(
    b"503 Service Unavailable",
    "The daemon has too many connections open. Close some; `ulimit -n` and server.max_streams set the limit.",
)


def connection_limit(max_streams: int) -> int:
    """Return the maximum of open connections: half of the process's files stay free for agents and the store."""
    files, wanted = file_limit(), max_streams + OTHER_CONNECTIONS
    return wanted if files is None else min(wanted, files // 2)


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket; raise InvalidInput with the remedy. Call it before anything else starts."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets with an explicit IPPROTO_TCP; without it an answer takes 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise InvalidInput(
            f"The API cannot listen on {host}:{port}: {error.strerror}. "
            "Stop the program that uses the port, or choose another with TINYAGI_API_PORT or server.port."
        ) from error
    listener.setblocking(False)
    return listener


@contextlib.asynccontextmanager
async def http_server(
    app: ASGIApp, listener: socket.socket, *, max_streams: int = 1_000, peers: PeerUsers | None = None
) -> AsyncIterator[None]:
    """Serve requests inside the block; on exit, let current requests finish for a moment."""
    config = Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        # Any client can forge these headers; the caller is the peer of the socket.
        proxy_headers=False,
    )
    config.load()
    state, opened = ServerState(), Connections(asyncio.get_running_loop().time)
    acceptor = Acceptor(
        listener, lambda: BoundedProtocol(config, state, opened), opened, connection_limit(max_streams), peers
    )
    acceptor.start()
    closing = asyncio.create_task(_close_late(opened), name="http-late")
    try:
        yield
    finally:
        acceptor.stop()
        closing.cancel()
        await _finish(state)
        await asyncio.wait([closing])


class Acceptor:
    """Accepts connections. asyncio's own accept loop has no limit and logs a traceback for every failure."""

    def __init__(
        self,
        listener: socket.socket,
        make: Callable[[], BoundedProtocol],
        opened: Connections,
        limit: int,
        peers: PeerUsers | None,
    ) -> None:
        self._listener = listener
        self._make = make
        self._opened = opened
        self._limit = limit
        self._peers = peers
        self._loop = asyncio.get_running_loop()
        self._starting: set[asyncio.Task[None]] = set()
        self._last_warning = -SECONDS_BETWEEN_WARNINGS
        self._is_stopped = False

    def start(self) -> None:
        if not self._is_stopped:
            self._loop.add_reader(self._listener.fileno(), self._accept)

    def stop(self) -> None:
        self._is_stopped = True
        self._loop.remove_reader(self._listener.fileno())
        self._listener.close()

    def _accept(self) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            self._open(accepted)

    def _open(self, accepted: socket.socket) -> None:
        if self._opened.count >= self._limit and not self._opened.close_oldest():
            self._warn("%d connections are open and all in use; new ones get 503", self._opened.count)
            with accepted, contextlib.suppress(OSError):
                accepted.send(_FULL)
            return
        protocol = self._make()
        if self._peers is not None:
            # Now, because the user of a closed connection cannot be found later.
            protocol.extensions[PEER_USER] = self._peers.uid_of(accepted)
        # Count it now: `connection_made` is called after further connections are accepted.
        self._opened.add(protocol)
        task = self._loop.create_task(self._start(accepted, protocol))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _start(self, accepted: socket.socket, protocol: BoundedProtocol) -> None:
        accepted.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, accepted)
        except OSError as error:
            self._opened.remove(protocol)
            accepted.close()
            self._warn("a connection closed before it was set up: %s", error)

    def _pause(self, error: OSError) -> None:
        """Stop accepting for a moment, so that connections can end: the socket would report the same error at once."""
        if error.errno in _EXHAUSTED:
            self._opened.close_oldest()
        self._warn(
            "cannot accept a connection: %s. %d are open; raise the limit of open files with `ulimit -n`",
            error.strerror,
            self._opened.count,
        )
        self._loop.remove_reader(self._listener.fileno())
        self._loop.call_later(ACCEPT_PAUSE.total_seconds(), self.start)

    def _warn(self, text: str, *values: object) -> None:
        now = self._loop.time()
        if now - self._last_warning >= SECONDS_BETWEEN_WARNINGS:
            self._last_warning = now
            log.warning(text, *values)


async def _close_late(opened: Connections) -> None:
    """Close late connections. One periodic check is cheaper than a timer for each."""
    request_seconds, write_seconds = REQUEST_TIME.total_seconds(), WRITE_TIME.total_seconds()
    while True:
        await asyncio.sleep(request_seconds / 4)
        opened.close_late(request_seconds, write_seconds)


async def _finish(state: ServerState) -> None:
    """Give current requests STOP_GRACE to finish, then abort the rest."""
    for connection in tuple(state.connections):
        connection.shutdown()
    if state.tasks:
        _, late = await asyncio.wait(state.tasks, timeout=STOP_GRACE.total_seconds())
        for task in late:
            task.cancel()
    for connection in tuple(state.connections):
        connection.transport.abort()
    # Protocols get `connection_lost` in the next turn of the loop.
    await asyncio.sleep(0)
