"""The socket side: uvicorn with limits it does not have, started and stopped by us instead of by signals."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any, Final, cast

from starlette.types import ASGIApp
from uvicorn import Config, Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tinyagi.domain.errors import InvalidInput

MAX_HEAD_BYTES: Final = 64 * 1024
REQUEST_TIME: Final = timedelta(seconds=60)
"""Within which a request has to arrive whole: whoever sends a byte a minute holds no connection."""
ABORT: Final = "tinyagi.abort"
BACKLOG: Final = 2048
STOP_GRACE: Final = timedelta(seconds=3)


class JoinedWrites:
    """A transport that sends the head of an answer together with the first piece of its body.

    uvicorn writes them one after the other; two small sends cost a system call more and wake the client twice.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""
        # Asked with every answer; everything else is rare enough for `__getattr__`.
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
            self._transport.write(data)
        elif data.startswith(b"HTTP/1."):
            self._head = data
            # An answer without a body, or one whose body comes later.
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)


class BoundedProtocol(HttpToolsProtocol):
    """Refuses a head without end, tells since when a request is coming, and lets the application cut a connection."""

    since: float | None = None
    """When the request began that is not complete yet."""
    _head = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        joined = JoinedWrites(cast("asyncio.Transport", transport), self.loop)
        super().connection_made(cast("asyncio.Transport", joined))

    def data_received(self, data: bytes) -> None:
        self._head += len(data)
        super().data_received(data)
        # Counted over whole reads, so that a header costs nothing; what a last read completes is let through.
        if self._head > MAX_HEAD_BYTES and self.since is not None and "path" not in self.scope:
            self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = 0
        self.since = self.loop.time()
        self.scope["extensions"] = {ABORT: {"abort": self.transport.abort}}

    def on_message_complete(self) -> None:
        self.since = None
        super().on_message_complete()


class _Server(Server):
    """Waits for events instead of looking ten times a second whether something has happened."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.leave = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to whoever runs the process."""
        yield

    async def main_loop(self) -> None:
        await self.leave.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take nothing more, let what is under way finish for a moment, then cut what is left."""
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()
        connections, tasks = self.server_state.connections, self.server_state.tasks
        for connection in tuple(connections):
            connection.shutdown()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=STOP_GRACE.total_seconds())
            for task in late:
                task.cancel()
        for connection in tuple(cast("set[BoundedProtocol]", connections)):
            connection.transport.abort()
        # What was closed or cut tells its protocol in the next turn.
        await asyncio.sleep(0)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, before anything else is started; raise InvalidInput with the remedy."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small pieces at once only on sockets that say that they are TCP: without, an answer takes 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise InvalidInput(
            f"The API cannot listen on {host}:{port}: {error.strerror}. "
            "Stop what uses the port, or choose another with TINYAGI_API_PORT or server.port."
        ) from error
    return listener


async def _hurry(connections: set[BoundedProtocol]) -> None:
    """Cut connections whose request takes too long to arrive. One look at all is cheaper than a timer for each."""
    longest = REQUEST_TIME.total_seconds()
    while True:
        await asyncio.sleep(longest / 4)
        now = asyncio.get_running_loop().time()
        for connection in tuple(connections):
            if connection.since is not None and now - connection.since > longest:
                connection.transport.abort()


@contextlib.asynccontextmanager
async def serving(app: ASGIApp, listener: socket.socket) -> AsyncIterator[None]:
    """Answer requests for as long as the block lasts, then let those under way finish for a moment."""
    config = Config(
        app,
        loop="asyncio",
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        # Anybody can claim to come from elsewhere; who calls is who holds the socket.
        proxy_headers=False,
    )
    server = _Server(config)
    connections = cast("set[BoundedProtocol]", server.server_state.connections)
    task = asyncio.create_task(server.serve(sockets=[listener]), name="http")
    hurry = asyncio.create_task(_hurry(connections), name="http-hurry")
    try:
        yield
    finally:
        hurry.cancel()
        server.leave.set()
        await asyncio.wait([task, hurry])
        task.result()
