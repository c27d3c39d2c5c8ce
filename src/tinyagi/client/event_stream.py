"""The event stream with reconnects: it continues after the last event it has read."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tinyagi.client.errors import ConnectionLost, NotRunning, NotTinyAGI, ServerFault, TooManyRequests
from tinyagi.client.transport import Transport
from tinyagi.domain.event_stream import EventReader, EventTooLong, ServerEvent

PATH: Final = "/api/events/stream"
SILENCE: Final = timedelta(seconds=45)
"""Three keep-alive intervals without a byte."""
LONGEST_EVENT: Final = 16_777_216
"""Bytes. The server cuts long texts, so its events stay far below."""
FIRST_PAUSE: Final = timedelta(milliseconds=250)
LONGEST_PAUSE: Final = timedelta(seconds=5)

_Transient = ConnectionLost | NotRunning | ServerFault | TooManyRequests
"""Errors worth a reconnect."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """An event of the stream."""

    id: int | None
    """None for events outside the log: connected, reset, progress."""
    type: str
    data: Mapping[str, object]

    @property
    def message_id(self) -> str | None:
        return self._text("messageId")

    @property
    def conversation_id(self) -> str | None:
        return self._text("conversationId")

    @property
    def agent(self) -> str | None:
        return self._text("agentId")

    def text(self, name: str) -> str:
        """Return a field of the data; empty when it is missing or not a text."""
        return self._text(name) or ""

    def _text(self, name: str) -> str | None:
        value = self.data.get(name)
        return value if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class Pauses:
    """Back-off before the next connection: doubles with each failure, starts over after a success."""

    first: timedelta = FIRST_PAUSE
    longest: timedelta = LONGEST_PAUSE

    def after(self, failures: int) -> timedelta:
        return min(self.first * (1 << min(failures, 16)), self.longest)


async def follow(
    transport: Transport,
    query: Mapping[str, str | int | None],
    *,
    after: int | None,
    patience: timedelta | None,
    pauses: Pauses,
    silence: timedelta = SILENCE,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncGenerator[StreamEvent, None]:
    """Yield events without end. The first connection must work; later ones are retried for as long as `patience`.

    A `reset` is yielded like an event: events before it are gone from the log, so the caller must reload its state.
    """
    last_id = None if after is None else str(after)
    failures = 0
    has_worked = False
    lost_at: float | None = None
    while True:
        reader = EventReader(last_id, longest=LONGEST_EVENT)
        try:
            async with aclosing(_connection(transport, query, reader, silence)) as events:
                async for event in events:
                    failures, lost_at = 0, None
                    has_worked = True
                    yield event
            # The server ended the stream: it is stopping, or this reader was too slow.
            error: _Transient = ConnectionLost(transport.url, "the stream was closed")
        except (ConnectionLost, NotRunning, ServerFault, TooManyRequests) as failed:
            error = failed
        last_id = reader.last_id
        lost_at = clock() if lost_at is None else lost_at
        if not has_worked or (patience is not None and clock() - lost_at > patience.total_seconds()):
            raise error
        pause = pauses.after(failures).total_seconds()
        await asyncio.sleep(max(pause, error.retry_after if isinstance(error, TooManyRequests) else 0))
        failures += 1


async def _connection(
    transport: Transport, query: Mapping[str, str | int | None], reader: EventReader, silence: timedelta
) -> AsyncGenerator[StreamEvent, None]:
    headers = {} if reader.last_id is None else {"Last-Event-ID": reader.last_id}
    async with transport.stream(PATH, query=query, headers=headers, silence=silence.total_seconds()) as chunks:
        async for chunk in chunks:
            try:
                frames = list(reader.feed(chunk))
            except EventTooLong as error:
                raise NotTinyAGI(transport.url, str(error)) from None
            for frame in frames:
                if (event := _event(frame)) is not None:
                    yield event


def _event(frame: ServerEvent) -> StreamEvent | None:
    """Return the frame as an event, or None for an unknown format, which a later version may send."""
    try:
        data = json.loads(frame.data)
    except ValueError:
        return None
    event_id = int(frame.id) if frame.id is not None and frame.id.isascii() and frame.id.isdecimal() else None
    return StreamEvent(event_id, frame.name, data) if isinstance(data, dict) else None
