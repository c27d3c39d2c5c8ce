"""GET /api/events/stream: the log as server-sent events. Speaks ASGI itself; a frame passes through nothing else."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Final
from urllib.parse import parse_qs

from starlette.types import Receive, Scope, Send

from tinyagi.api.base import LARGEST
from tinyagi.domain.errors import InvalidInput, TinyAGIError
from tinyagi.domain.texts import one_line
from tinyagi.server.errors import answer
from tinyagi.server.filters import Filter
from tinyagi.server.frames import connected, reset
from tinyagi.server.http import ABORT
from tinyagi.server.reader import Reader
from tinyagi.server.sse import Hub
from tinyagi.store.base import LogBounds, Store

HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
)
FAREWELL: Final = timedelta(seconds=1)
"""How long the end of an answer may take before the connection is cut."""


class Stream:
    def __init__(self, hub: Hub, store: Store) -> None:
        self._hub = hub
        self._store = store

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            query = parse_qs(scope["query_string"].decode("latin-1"))
            wanted = Filter.parse(query)
            after = _cursor(scope, query.get("after", [""])[-1])
            bounds = await self._store.events.bounds()
            start, opening = self._opening(after, bounds)
            reader = self._hub.enter(wanted, start, bounds.head)
        except TinyAGIError as error:
            await answer(error)(scope, receive, send)
            return
        try:
            await self._serve(reader, opening, scope, receive, send)
        finally:
            self._hub.leave(reader)

    def _opening(self, after: int | None, bounds: LogBounds) -> tuple[int, bytes]:
        """Where the reader begins, and what it reads first."""
        now, head = self._hub.clock(), bounds.head
        if after is None:
            return head, connected(head, head, now)
        if after <= head:
            return after, connected(after, head, now)
        # It has read another log, which was longer. The id of the reset is the first that counts here.
        return head, connected(None, head, now) + reset(head, "replaced", bounds.oldest, head, now)

    async def _serve(self, reader: Reader, opening: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        feeding = asyncio.create_task(_feed(reader, opening, send))
        leaving = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait({feeding, leaving, reader.over}, return_when=asyncio.FIRST_COMPLETED)
            if feeding.done():
                # It only ends with an error: the socket's, or ours.
                await feeding
            elif not leaving.done():
                feeding.cancel()
                await asyncio.wait({feeding})
                await _end(reader, scope, send, leaving)
        except OSError:
            return
        finally:
            feeding.cancel()
            leaving.cancel()
            await asyncio.gather(feeding, leaving, return_exceptions=True)


async def _feed(reader: Reader, opening: bytes, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
    chunk = opening
    while True:
        reader.begin_send()
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
        reader.end_send()
        chunk = await reader.next()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _end(reader: Reader, scope: Scope, send: Send, leaving: asyncio.Task[None]) -> None:
    """End the answer as an answer ends, or cut a connection that takes nothing any more."""
    if not reader.is_dropped:
        try:
            async with asyncio.timeout(FAREWELL.total_seconds()):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            pass
        else:
            return
    abort: Callable[[], None] | None = scope.get("extensions", {}).get(ABORT, {}).get("abort")
    if abort is not None:
        # To close it would wait until the rest is sent, which may be never.
        abort()
        await asyncio.wait({leaving}, timeout=FAREWELL.total_seconds())


def _cursor(scope: Scope, after: str) -> int | None:
    """The reader's last event: by the header that browsers send when they come back, else by the address."""
    given = next((value for name, value in scope["headers"] if name == b"last-event-id"), b"").decode("latin-1").strip()
    name, value = ("Last-Event-ID", given) if given else ("after", after.strip())
    if not value:
        return None
    if not (value.isascii() and value.isdigit() and len(value) < 20 and int(value) <= LARGEST):
        raise InvalidInput(f"{name} is the id of an event, a whole number from 0, not {one_line(value, 60)!r}.")
    return int(value)
