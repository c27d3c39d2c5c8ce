"""Events on their way to one plugin: in order and bounded, so that a slow plugin costs nobody else anything."""

import asyncio
from collections import deque
from typing import Final

from tinyagi.domain.events import RecordedEvent

CAPACITY: Final = 1_000


class Mailbox:
    """When it is full, the oldest event makes room."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._events: deque[RecordedEvent] = deque(maxlen=capacity)
        self._changed = asyncio.Event()
        self._overflowing = False
        self._closed = False

    def put(self, event: RecordedEvent) -> bool:
        """Add an event; False when this is the first one of a burst to push another out."""
        if self._closed:
            return True
        bursts = len(self._events) == self._events.maxlen and not self._overflowing
        self._overflowing = self._overflowing or bursts
        self._events.append(event)
        self._changed.set()
        return not bursts

    async def next(self) -> RecordedEvent | None:
        """The oldest event, as soon as there is one; None when the box is closed and empty."""
        while not self._events:
            if self._closed:
                return None
            self._changed.clear()
            await self._changed.wait()
        event = self._events.popleft()
        # A burst lasts until the plugin has caught up.
        self._overflowing = self._overflowing and bool(self._events)
        return event

    def close(self, *, discard: bool = False) -> None:
        """Take nothing more; what is there can still be read, unless it is discarded."""
        self._closed = True
        if discard:
            self._events.clear()
        self._changed.set()
