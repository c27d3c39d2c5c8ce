"""The event stream as one that does not break: it reconnects and goes on after the last event it has seen."""

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
"""Three times the keep-alive did not come."""
LONGEST_EVENT: Final = 16_777_216
"""Bytes; the server cuts long texts, so none of its own comes near."""
FIRST_PAUSE: Final = timedelta(milliseconds=250)
LONGEST_PAUSE: Final = timedelta(seconds=5)


_Passing = ConnectionLost | NotRunning | ServerFault | TooManyRequests
"""What may be over after a while."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """An event as the stream tells it."""

    id: int | None
    """None for what is not in the log: connected, reset, progress."""
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
        """A field of the data as text; empty when it has none."""
        return self._text(name) or ""

    def _text(self, name: str) -> str | None:
        value = self.data.get(name)
        return value if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class Pauses:
    """How long to wait before the next connection: longer each time it fails, from the start after it worked."""

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
    """Yield events for ever. The first connection must work; later ones are tried again for as long as `patience`.

    A `reset` is yielded like an event: what lies before it is gone from the log, and its reader has to load anew.
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
            # The server ended the stream: it stops, or this reader was too slow.
            error: _Passing = ConnectionLost(transport.url, "it closed the stream")
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
    """The frame as an event, or None when it is not one of ours: a later version may send what we do not know."""
    try:
        data = json.loads(frame.data)
    except ValueError:
        return None
    number = int(frame.id) if frame.id is not None and frame.id.isascii() and frame.id.isdecimal() else None
    return StreamEvent(number, frame.name, data) if isinstance(data, dict) else None
