"""Answers the requests that come most often without a task and without the framework: head, body, answer.

Only what is plain goes this way: a small body of announced length, on a connection where nothing else is under way, and
nothing in its head to refuse. Everything else takes the long way through the same application and gets the same answer.
"""

import asyncio
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Final, Protocol, cast

from starlette.types import Scope

from tinyagi.server.http import BoundedProtocol

Header = tuple[bytes, bytes]
Reply = Callable[[int, Sequence[Header], bytes], None]
"""Given status, headers and body, once."""

MOST_BYTES: Final = 64 * 1024
"""A larger body takes the long way, where it is read piece by piece."""

_STATUS_LINES: Final = {one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n".encode() for one in HTTPStatus}


class Express(Protocol):
    """What can be answered this way."""

    def admits(self, scope: Scope) -> bool:
        """True when this request is meant and nothing speaks against it; its body is still to come."""

    def answer(self, scope: Scope, body: bytes, reply: Reply) -> "asyncio.Future[Any] | None":
        """Begin, and reply now or when the future that is returned is done."""


class _UnderWay:
    """An answer that is to come, with what uvicorn wants to know and change of it."""

    __slots__ = ("disconnected", "keep_alive", "message_event", "response_complete")

    def __init__(self) -> None:
        self.response_complete = False
        self.disconnected = False
        self.keep_alive = True
        self.message_event = _NOBODY_WAITS


class _NobodyWaits:
    def set(self) -> None: ...


_NOBODY_WAITS: Final = _NobodyWaits()


class ExpressProtocol(BoundedProtocol):
    def __init__(self, *arguments: Any, express: Express, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._express = express
        self._body: bytes | None = None
        """What has come of a request that is answered here."""

    def on_headers_complete(self) -> None:
        # Until the first request there is none, whatever its type says.
        before = cast("_UnderWay | None", self.cycle)
        is_free = before is None or before.response_complete
        if is_free and self._is_plain() and self._express.admits(self._complete_scope()):
            self._body = b""
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._body is None:
            super().on_body(body)
        else:
            self._body += body

    def on_message_complete(self) -> None:
        if self._body is None:
            super().on_message_complete()
            return
        self.since = None
        body, self._body = self._body, None
        under_way = _UnderWay()
        # What is sent behind this request before it is answered has to wait its turn, as uvicorn has it.
        self.cycle = cast("Any", under_way)

        def reply(status: int, headers: Sequence[Header], content: bytes) -> None:
            self._reply(under_way, status, headers, content)

        future = self._express.answer(cast("Scope", self.scope), body, reply)
        if future is not None:
            # Who stops the server waits for these.
            self.tasks.add(cast("asyncio.Task[None]", future))
            future.add_done_callback(self.tasks.discard)

    def _is_plain(self) -> bool:
        return self.parser.should_keep_alive() and not self.parser.should_upgrade() and not self.expect_100_continue

    def _complete_scope(self) -> Scope:
        scope = cast("dict[str, Any]", self.scope)
        scope["method"] = self.parser.get_method().decode("ascii")
        scope["path"] = self.url.decode("latin-1")
        return scope

    def _reply(self, under_way: _UnderWay, status: int, headers: Sequence[Header], content: bytes) -> None:
        under_way.response_complete = True
        if under_way.disconnected or self.transport.is_closing():
            return
        pieces = [_STATUS_LINES[status]]
        for name, value in headers:
            pieces += (name, b": ", value, b"\r\n")
        if not under_way.keep_alive:
            pieces.append(b"connection: close\r\n")
        pieces.append(b"content-length: %d\r\n\r\n" % len(content))
        pieces.append(content)
        self.transport.write(b"".join(pieces))
        if not under_way.keep_alive:
            self.transport.close()
        self.on_response_complete()
