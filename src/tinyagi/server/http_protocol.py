"""One connection: uvicorn's HTTP protocol with limits for heads, trailers and requests that are refused half-way."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, NoReturn, Protocol, cast

import msgspec
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

MAX_HEAD_BYTES: Final = 64 * 1024
ABORT: Final = "tinyagi.abort"
PEER_USER: Final = "tinyagi.peer_user"
"""There when the peer's user is checked: the user's number, or None when it is not known."""
MAX_PIPELINED: Final = 64
"""Requests of one connection that may wait for an answer: uvicorn keeps all of them in memory."""
DISCARD_TIME: Final = timedelta(seconds=2)
"""How long a refused client may go on sending: a socket closed earlier destroys the answer before it is read."""


class RequestTransport:
    """A transport that sends the head of an answer with the first piece of its body, and closes without losing it.

    uvicorn writes head and body one after the other; two small sends cost a system call more and wake the client twice.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.is_receiving = False
        """A request has begun to arrive and is not complete."""
        self._transport = transport
        self._loop = loop
        self._head = b""
        self._is_closing = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._is_closing or self._transport.is_closing()

    def write(self, data: bytes) -> None:
        if self._is_closing:
            return
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
        """Close now, or a little later when the client has not finished its request."""
        if self._is_closing:
            return
        self._flush()
        self._is_closing = True
        if self.is_receiving:
            self._transport.write_eof()
            self._transport.resume_reading()
            self._loop.call_later(DISCARD_TIME.total_seconds(), self._transport.abort)
        else:
            self._transport.close()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)


class Connection(Protocol):
    transport: asyncio.Transport


class Connections:
    """Both tables are in the order of time; a connection that is being answered is in neither."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._all: set[Connection] = set()
        self._without_request: dict[Connection, float] = {}
        """Since when no complete request has arrived."""
        self._unread: dict[Connection, tuple[float, int]] = {}
        """Since when the client has read nothing, and how many bytes wait for it."""

    @property
    def count(self) -> int:
        return len(self._all)

    def add(self, connection: Connection) -> None:
        self._all.add(connection)

    def wait_for_request(self, connection: Connection) -> None:
        # An answer may end after its connection.
        if connection in self._all:
            self._without_request.pop(connection, None)
            self._without_request[connection] = self._time()

    def answer_request(self, connection: Connection) -> None:
        self._without_request.pop(connection, None)

    def wait_for_reader(self, connection: Connection) -> None:
        self._unread[connection] = (self._time(), connection.transport.get_write_buffer_size())

    def resume(self, connection: Connection) -> None:
        """The client has read its answer: the time for its next request begins now."""
        if self._unread.pop(connection, None) is not None and connection in self._without_request:
            self.wait_for_request(connection)

    def remove(self, connection: Connection) -> None:
        self._all.discard(connection)
        self._without_request.pop(connection, None)
        self._unread.pop(connection, None)

    def close_oldest(self) -> bool:
        """Close the connection that has been without a request for longest; False when all are in use."""
        for connection in self._without_request:
            if connection not in self._unread:
                # The table changes with the next request or connection, so it is left with the search.
                del self._without_request[connection]
                connection.transport.abort()
                return True
        return False

    def close_late(self, request_seconds: float, write_seconds: float) -> None:
        """Close connections that have sent no complete request or read nothing of their answer for so long."""
        now = self._time()
        for connection, since in tuple(self._without_request.items()):
            if now - since <= request_seconds:
                break
            if connection not in self._unread:
                connection.transport.abort()
        for connection, (since, size) in tuple(self._unread.items()):
            left = connection.transport.get_write_buffer_size()
            if left < size:
                self._unread[connection] = (now, left)
            elif now - since > write_seconds:
                connection.transport.abort()


class BoundedProtocol(HttpToolsProtocol):
    """Bounds what is read of a request that is not complete, and lets the application cut a connection."""

    def __init__(self, config: Config, state: ServerState, open_connections: Connections) -> None:
        super().__init__(config, state, {})
        self._open = open_connections
        self._unparsed = 0
        """Bytes read since the request began, its head was complete or a piece of its body arrived."""
        self._last_read = self._first_read = 0
        """Sizes of the read that is being parsed, and of the one in which the request began."""
        self._is_in_body = False
        self._refusal = ""
        """Why the parser was stopped."""
        self.extensions: dict[str, Any] = {}
        """Of every request of this connection, for the application."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = RequestTransport(cast("asyncio.Transport", transport), self.loop)
        super().connection_made(cast("asyncio.Transport", self._wire))
        self.extensions[ABORT] = {"abort": self.transport.abort}
        self._open.wait_for_request(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._wire.is_closing():
            return
        self._last_read = len(data)
        self._unparsed += self._last_read
        super().data_received(data)
        # The parser keeps a line until its end: a head or trailer without one is seen here only.
        if self._unparsed > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head or the trailers of the request are too large.")

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= MAX_PIPELINED:
            self._stop(f"{MAX_PIPELINED} requests of this connection wait. Read their answers before you send more.")
        super().on_message_begin()
        # How much of this read belongs to the request is not known; its complete head is measured exactly.
        self._unparsed, self._first_read = 0, self._last_read
        self._wire.is_receiving, self._is_in_body = True, False
        self._open.wait_for_request(self)
        self.scope["extensions"] = self.extensions

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_body:
            # A trailer would be added to the headers that are being checked.
            self._stop("Trailers are not accepted. Send all headers before the body.")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        # Measured only when that much was read: a usual head costs nothing.
        if self._first_read + self._unparsed > MAX_HEAD_BYTES:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > MAX_HEAD_BYTES:
                self._stop(f"The head of the request is larger than {MAX_HEAD_BYTES:,} bytes.")
        self._unparsed = 0
        self._is_in_body = True
        super().on_headers_complete()

    def _stop(self, refusal: str) -> NoReturn:
        """Stop the parser, whose error uvicorn answers with 400."""
        self._refusal = refusal
        raise ValueError(refusal)

    def on_body(self, body: bytes) -> None:
        self._unparsed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unparsed, self._first_read = 0, self._last_read
        self._wire.is_receiving = False
        self._open.answer_request(self)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        is_last = not self.pipeline
        super().on_response_complete()
        if self._wire.is_receiving and self.cycle.response_complete and self.cycle.more_body:
            # The answer is a refusal: the rest of the request is not worth reading.
            self.transport.close()
        if is_last:
            self._open.wait_for_request(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._open.wait_for_reader(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._open.resume(self)

    def send_400_response(self, msg: str) -> None:
        """Refuse a malformed request; cut the connection when an answer to an earlier one would be broken by it."""
        cycle: RequestResponseCycle | None = self.cycle
        if self.pipeline or (cycle and not cycle.response_complete and (cycle.response_started or not cycle.more_body)):
            self.transport.abort()
            return
        self.transport.write(answer_bytes(b"400 Bad Request", self._refusal or msg))
        self.transport.close()


def answer_bytes(status: bytes, sentence: str) -> bytes:
    """A whole answer that ends its connection, for refusals below the application."""
    body = msgspec.json.encode({"error": sentence})
    return (
        b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"
        % (status, len(body), body)
    )  # fmt: skip
