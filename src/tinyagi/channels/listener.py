"""A small HTTP listener for platforms that call us: a few routes, limits, and nothing of a web framework.

TLS is not its business: a reverse proxy or a tunnel with a certificate passes requests on to it.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final
from urllib.parse import parse_qsl

from uvicorn import Config
from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from tinyagi.channels.port import ChannelError, NotSetUp

log = logging.getLogger(__name__)

BODY_LIMIT: Final = 1_048_576
BUFFER_LIMIT: Final = 67_108_864
"""Bytes of all bodies that are in memory at one time."""
CONNECTION_LIMIT: Final = 256
REQUEST_TIME: Final = timedelta(seconds=20)
"""From the opening of the connection to the head, and again from the head to the answer."""
STOP_GRACE: Final = timedelta(seconds=1)
DISCARD_TIME: Final = timedelta(seconds=2)
"""How long a refused caller may keep sending: closing the socket earlier would destroy the unread answer."""


@dataclass(frozen=True, slots=True)
class Request:
    headers: Mapping[str, str]
    """Names in lower case; of a repeated header the last."""
    query: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    text: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = "text/plain; charset=utf-8"


Handler = Callable[[Request], Awaitable[Answer]]
Routes = Mapping[tuple[str, str], Handler]
"""Handlers by method and path."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """The address on which a listener waits."""

    host: str
    port: int

    @classmethod
    def of(cls, settings: Mapping[str, str], default_port: int) -> "ListenAddress":
        """Read `listen_host` and `listen_port`; raise NotSetUp for a port that is not a number."""
        port = settings.get("listen_port") or str(default_port)
        if not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
            raise NotSetUp(f"{port!r} is not a port. Set listen_port to a number between 1 and 65535.")
        return cls(settings.get("listen_host") or "127.0.0.1", int(port))


@contextlib.asynccontextmanager
async def listener(
    place: ListenAddress, routes: Routes, *, body_limit: int = BODY_LIMIT, request_time: timedelta = REQUEST_TIME
) -> AsyncIterator[None]:
    """Serve the routes inside the block; raise ChannelError with the remedy when the address cannot be used."""
    bound = _bind(place)
    app = _App(routes, body_limit, request_time)
    config = Config(
        app,
        http=_Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTION_LIMIT,
    )
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: _Connection(config=config, server_state=state, app_state={}), sock=bound
    )
    try:
        yield
    finally:
        server.close()
        await app.stop()
        await _finish(state)


def _bind(place: ListenAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # The port of a killed process is free at once.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((place.host, place.port))
        bound.listen()
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        reason = error.strerror or str(error)
        raise ChannelError(
            f"The channel cannot listen on {place.host}:{place.port}: {reason}. "
            "Stop the program that uses the port, or choose another with listen_host and listen_port."
        ) from error
    return bound


async def _finish(state: ServerState) -> None:
    for connection in list(state.connections):
        connection.shutdown()
    if state.tasks:
        await asyncio.wait(state.tasks, timeout=STOP_GRACE.total_seconds())
    for connection in list(state.connections):
        if isinstance(connection, _Connection):
            connection.transport.abort()


class _Connection(HttpToolsProtocol):
    """A connection for one request. uvicorn sets no limit to the time in which a head arrives."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(REQUEST_TIME.total_seconds(), self._close_unasked)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)

    def _close_unasked(self) -> None:
        if self.cycle is None:
            self.transport.abort()


class _TooLarge(Exception):
    pass


class _Busy(Exception):
    pass


class _App:
    """The ASGI application: finds the route, reads the body within the limits, and always answers."""

    def __init__(self, routes: Routes, body_limit: int, request_time: timedelta) -> None:
        self._routes = routes
        self._body_limit = body_limit
        self._request_time = request_time.total_seconds()
        self._running: set[asyncio.Task[Answer]] = set()
        self._buffered = 0

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "http":
            return
        method, path = scope["method"], scope["path"]
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        allowed = [known for known, at in self._routes if at == path]
        if method in allowed:
            answer = await self._in_time(self._handle(self._routes[method, path], headers, query, receive))
        elif allowed:
            answer = Answer(405, f"This address takes {' and '.join(allowed)}.", {"allow": ", ".join(allowed)})
        else:
            answer = Answer(404, "There is nothing at this address.")
        if answer.status >= 400:
            log.info("%s %.60r is answered with %d: %s", method, path, answer.status, answer.text)
        await _send(answer, send)

    async def stop(self) -> None:
        """End the running handlers; their callers get a 503 and try again."""
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=STOP_GRACE.total_seconds())

    async def _in_time(self, work: Awaitable[Answer]) -> Answer:
        """Run it as a task of its own, because uvicorn logs a cancelled request as a crash."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        try:
            await asyncio.wait({task}, timeout=self._request_time)
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        finally:
            self._running.discard(task)
        if task.cancelled():
            return Answer(503, "This took too long. Try again.", {"retry-after": "5"})
        return task.result()

    async def _handle(
        self, handler: Handler, headers: Mapping[str, str], query: Mapping[str, str], receive: ASGIReceiveCallable
    ) -> Answer:
        held = bytearray()
        try:
            await self._read(held, int(headers.get("content-length", "0")), receive)
            return await handler(Request(headers, query, bytes(held)))
        except _TooLarge:
            await _discard(receive)
            return Answer(413, f"A body may have {self._body_limit} bytes.")
        except _Busy:
            return Answer(503, "Too much is being received at once. Try again.", {"retry-after": "5"})
        except Exception:
            log.exception("A request failed")
            return Answer(500, "This failed here. Try again.")
        finally:
            self._buffered -= len(held)

    async def _read(self, held: bytearray, announced: int, receive: ASGIReceiveCallable) -> None:
        if announced > self._body_limit:
            raise _TooLarge
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise _Busy
            piece = message["body"]
            held += piece
            self._buffered += len(piece)
            if len(held) > self._body_limit:
                raise _TooLarge
            if self._buffered > BUFFER_LIMIT:
                raise _Busy
            if not message["more_body"]:
                return


async def _discard(receive: ASGIReceiveCallable) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_TIME.total_seconds()):
            while True:
                message = await receive()
                if message["type"] != "http.request" or not message["more_body"]:
                    return


async def _send(answer: Answer, send: ASGISendCallable) -> None:
    body = answer.text.encode()
    headers = {
        "content-type": answer.media_type,
        "content-length": str(len(body)),
        "x-content-type-options": "nosniff",
        "connection": "close",
        **answer.headers,
    }
    await send(
        {
            "type": "http.response.start",
            "status": answer.status,
            "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()],
            "trailers": False,
        }
    )
    await send({"type": "http.response.body", "body": body, "more_body": False})
