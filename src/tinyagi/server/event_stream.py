"""The event log over HTTP: GET /api/events/stream as server-sent events (plain ASGI), GET /api/events as pages."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Query
from starlette.types import Receive, Scope, Send

from tinyagi.api.base import MAX_INTEGER
from tinyagi.api.daemon import LoggedEvent
from tinyagi.domain.errors import InvalidInput, TinyAGIError
from tinyagi.domain.events import RecordedEvent
from tinyagi.domain.texts import one_line
from tinyagi.server.dependencies import Cursor, ServicesDep, limit
from tinyagi.server.errors import error_response
from tinyagi.server.event_frames import EventFilter, connected_frame, reset_frame
from tinyagi.server.event_hub import EventHub, Subscriber
from tinyagi.server.http_protocol import ABORT
from tinyagi.store.event_log import LogBounds
from tinyagi.store.store import Store

HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
)
CLOSE_TIMEOUT: Final = timedelta(seconds=1)
"""How long the end of a response may take before the connection is aborted."""

router = APIRouter(tags=["events"])

EventType = Annotated[
    str | None, Query(alias="type", pattern=r"^[a-z][a-z0-9_]{0,63}$", description="Only events of this type.")
]


class EventStream:
    """ASGI endpoint of the stream: subscribes to the hub and writes frames until either side ends."""

    def __init__(self, hub: EventHub, store: Store) -> None:
        self._hub = hub
        self._store = store

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            query = parse_qs(scope["query_string"].decode("latin-1"))
            wanted = EventFilter.parse(query)
            after = _cursor(scope, query.get("after", [""])[-1])
            bounds = await self._store.events.bounds()
            start, opening = self._opening(after, bounds)
            reader = self._hub.subscribe(wanted, start, bounds.head)
        except TinyAGIError as error:
            await error_response(error)(scope, receive, send)
            return
        try:
            await self._serve(reader, opening, scope, receive, send)
        finally:
            self._hub.unsubscribe(reader)

    def _opening(self, after: int | None, bounds: LogBounds) -> tuple[int, bytes]:
        """Return the reader's cursor and its first frames."""
        now, head = self._hub.clock(), bounds.head
        if after is None:
            return head, connected_frame(head, head, now)
        if after <= head:
            return after, connected_frame(after, head, now)
        # The id is beyond this log, so it comes from another one. The first valid id here is that of the reset.
        return head, connected_frame(None, head, now) + reset_frame(head, "replaced", bounds.oldest, head, now)

    async def _serve(self, reader: Subscriber, opening: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(_send_chunks(reader, opening, send))
        disconnect = asyncio.create_task(_until_disconnect(receive))
        try:
            await asyncio.wait({sending, disconnect, reader.over}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                # The task only ends with an exception: of the socket, or a bug.
                await sending
            elif not disconnect.done():
                sending.cancel()
                await asyncio.wait({sending})
                await _close(reader, scope, send, disconnect)
        except OSError:
            return
        finally:
            sending.cancel()
            disconnect.cancel()
            await asyncio.gather(sending, disconnect, return_exceptions=True)


async def _send_chunks(reader: Subscriber, opening: bytes, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
    chunk = opening
    while True:
        reader.begin_send()
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
        reader.end_send()
        chunk = await reader.next()


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _close(reader: Subscriber, scope: Scope, send: Send, disconnect: asyncio.Task[None]) -> None:
    """End the response properly, or abort a connection that no longer reads."""
    if not reader.is_dropped:
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT.total_seconds()):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            pass
        else:
            return
    abort: Callable[[], None] | None = scope.get("extensions", {}).get(ABORT, {}).get("abort")
    if abort is not None:
        # Closing would wait until the buffer is sent, which may be never.
        abort()
        await asyncio.wait({disconnect}, timeout=CLOSE_TIMEOUT.total_seconds())


def _cursor(scope: Scope, after: str) -> int | None:
    """Return the reader's last event id: from the header that browsers send on reconnect, else from the query."""
    header = (
        next((value for name, value in scope["headers"] if name == b"last-event-id"), b"").decode("latin-1").strip()
    )
    name, value = ("Last-Event-ID", header) if header else ("after", after.strip())
    if not value:
        return None
    if not (value.isascii() and value.isdigit() and len(value) < 20 and int(value) <= MAX_INTEGER):
        raise InvalidInput(f"{name} must be an event id, a whole number from 0, not {one_line(value, 60)!r}.")
    return int(value)


@router.get("/api/events", response_model=list[LoggedEvent])
async def read_events(
    services: ServicesDep, after: Cursor = 0, event_type: EventType = None, limit: int = limit(100)
) -> list[LoggedEvent]:
    """List the events after `after` in order. Live events, such as progress, are not in the log."""
    events = await services.store.events.read_after(after, event_type=event_type, limit=limit, bounded=True)
    return [_logged(event) for event in events]


def _logged(event: RecordedEvent) -> LoggedEvent:
    return LoggedEvent(
        id=event.id,
        type=event.type,
        version=event.version,
        timestamp=event.created_at,
        message_id=event.message_id,
        conversation_id=event.conversation_id,
        conversation_started_at=event.conversation_started_at,
        agent_id=event.agent,
        payload=dict(event.payload),
    )
