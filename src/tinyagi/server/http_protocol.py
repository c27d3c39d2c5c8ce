"""One connection: uvicorn's HTTP protocol with limits for heads, trailers and refused requests."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, NoReturn, cast

import msgspec
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

MAX_HEAD_BYTES: Final = 64 * 1024
ABORT: Final = "tinyagi.abort"
PEER_USER: Final = "tinyagi.peer_user"
"""The peer's user id, or None when it is unknown; absent when users are not checked."""
MAX_PIPELINED: Final = 64
"""Unanswered requests per connection, at most: uvicorn keeps all of them in memory."""
DISCARD_TIME: Final = timedelta(seconds=2)
"""How long a refused client may keep sending: closing the socket earlier would destroy the unread answer."""


class RequestTransport:
    """Sends the head of an answer together with the first part of its body, and closes without losing it.

    uvicorn writes head and body separately. Two small sends cost another system call and wake the client twice.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.is_receiving = False
        """A request has started to arrive and is not complete."""
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
            # For an answer whose body comes later, or that has none.
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


class Connections:
    """The open connections, and since when each of them has been idle or unread. Both tables are ordered by time."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._all: set[BoundedProtocol] = set()
        self._without_request: dict[BoundedProtocol, float] = {}
        """Since when no complete request has arrived; without connections whose request is being answered."""
        self._unread: dict[BoundedProtocol, tuple[float, int]] = {}
        """Since when the client has read nothing, and how many bytes are unsent."""

    @property
    def count(self) -> int:
        return len(self._all)

    def add(self, connection: "BoundedProtocol") -> None:
        self._all.add(connection)

    def wait_for_request(self, connection: "BoundedProtocol") -> None:
        # An answer may end after its connection.
        if connection in self._all:
            self._without_request.pop(connection, None)
            self._without_request[connection] = self._time()

    def answer_request(self, connection: "BoundedProtocol") -> None:
        self._without_request.pop(connection, None)

    def wait_for_reader(self, connection: "BoundedProtocol") -> None:
        self._unread[connection] = (self._time(), connection.transport.get_write_buffer_size())

    def resume(self, connection: "BoundedProtocol") -> None:
        """The client has read its answer: its time for the next request starts now."""
        if self._unread.pop(connection, None) is not None and connection in self._without_request:
            self.wait_for_request(connection)

    def remove(self, connection: "BoundedProtocol") -> None:
        self._all.discard(connection)
        self._without_request.pop(connection, None)
        self._unread.pop(connection, None)

    def close_oldest(self) -> bool:
        """Close the connection that has been idle longest; False when all are in use."""
        for connection in self._without_request:
            if connection not in self._unread:
                # Now: `connection_lost` comes later, and the next call must not find this connection again.
                del self._without_request[connection]
                connection.transport.abort()
                return True
        return False

    def close_late(self, request_seconds: float, write_seconds: float) -> None:
        """Close connections that sent no complete request, or read nothing of their answer, within these times."""
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
    """Limits how much is read of an incomplete request, and lets the application abort a connection."""

    def __init__(self, config: Config, state: ServerState, open_connections: Connections) -> None:
        super().__init__(config, state, {})
        self._open = open_connections
        self._unparsed = 0
        """Bytes read since the request started, its head ended or a part of its body arrived."""
        self._last_read = self._first_read = 0
        """Sizes of the current read, and of the read in which the request started."""
        self._is_in_body = False
        self._refusal = ""
        """Why the parser was stopped."""
        self.extensions: dict[str, Any] = {}
        """ASGI extensions of every request of this connection."""

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
        # The parser buffers a line until it ends, so only this check sees a head or trailer line without an end.
        if self._unparsed > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head or the trailers of the request are too large.")

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= MAX_PIPELINED:
            self._stop(
                f"This connection has {MAX_PIPELINED} unanswered requests. Read their answers before you send more."
            )
        super().on_message_begin()
        # This read may include the end of an earlier request, so `on_headers_complete` measures the head exactly.
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
        # Measured only when that much was read, so a usual head costs nothing.
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
            # The request was refused before it was complete: do not read the rest.
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
        """Refuse a malformed request; abort the connection when the refusal would break an earlier answer."""
        cycle: RequestResponseCycle | None = self.cycle
        if self.pipeline or (cycle and not cycle.response_complete and (cycle.response_started or not cycle.more_body)):
            self.transport.abort()
            return
        self.transport.write(answer_bytes(b"400 Bad Request", self._refusal or msg))
        self.transport.close()


def answer_bytes(status: bytes, sentence: str) -> bytes:
    """A complete answer that closes its connection, for refusals without the application."""
    body = msgspec.json.encode({"error": sentence})
    return (
        b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"
        % (status, len(body), body)
    )  # fmt: skip
