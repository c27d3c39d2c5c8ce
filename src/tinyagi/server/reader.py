"""One reader of the stream: its cursor, its filter, and what it is to be sent next."""

import asyncio
from typing import TYPE_CHECKING

from tinyagi.server.batches import CHUNK, Batch
from tinyagi.server.filters import Filter
from tinyagi.server.frames import keep_alive, reset
from tinyagi.store.base import LogBounds

if TYPE_CHECKING:
    from tinyagi.server.sse import Hub


class Pruned(Exception):
    """What comes next for a reader is not in the log any more."""

    def __init__(self, bounds: LogBounds) -> None:
        super().__init__(f"The log begins at {bounds.oldest}.")
        self.bounds = bounds


class Reader:
    """Its cursor is the id up to which it was given everything that it wants."""

    def __init__(self, hub: "Hub", wanted: Filter, cursor: int) -> None:
        self.cursor = cursor
        self.is_resting = False
        """It has everything there is and waits."""
        self.is_dropped = False
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._hub = hub
        self._wanted = wanted
        self._woken = asyncio.Event()
        self._pieces: list[Batch] = []
        self._beat_is_due = False
        self._is_sending = False
        self._was_sending_at_beat = False

    async def next(self) -> bytes:
        """Return what is to be sent now as soon as there is something."""
        while True:
            if chunk := self._at_hand():
                return chunk
            if self.cursor < self._hub.position:
                if chunk := await self._from_log():
                    return chunk
            else:
                await self._rest()

    def begin_send(self) -> None:
        self._is_sending = True

    def end_send(self) -> None:
        self._is_sending = False
        self._was_sending_at_beat = False

    def wake(self, pieces: Batch | None) -> None:
        """There is something new; pieces of live text are for those who wait for them only."""
        if pieces is not None and self.is_resting:
            self._pieces.append(pieces)
        self._woken.set()

    def beat(self) -> bool:
        """Have a keep-alive sent; False when the same send was going on at the last beat already."""
        if self._is_sending:
            is_stuck, self._was_sending_at_beat = self._was_sending_at_beat, True
            return not is_stuck
        self._beat_is_due = True
        self._woken.set()
        return True

    def end(self) -> None:
        if not self.over.done():
            self.over.set_result(None)

    def drop(self) -> None:
        self.is_dropped = True
        self.end()

    def _at_hand(self) -> bytes:
        """Live text, then what was encoded lately, then the keep-alive: it says how far all of it reaches."""
        parts = [pieces.chunk(self._wanted) for pieces in self._pieces]
        self._pieces.clear()
        size = 0
        while size < CHUNK and (batch := self._hub.at_hand(self.cursor)) is not None:
            part = batch.chunk(self._wanted)
            self.cursor = batch.last
            if part:
                parts.append(part)
                size += len(part)
        if self._beat_is_due:
            self._beat_is_due = False
            parts.append(keep_alive(self.cursor))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _from_log(self) -> bytes:
        try:
            batch = await self._hub.load(self.cursor)
        except Pruned as pruned:
            bounds = pruned.bounds
            self.cursor = bounds.oldest - 1 if bounds.oldest else bounds.head
            return reset(self.cursor, "pruned", bounds.oldest, bounds.head, self._hub.clock())
        if batch is None:
            return b""
        self.cursor = batch.last
        return batch.chunk(self._wanted)

    async def _rest(self) -> None:
        self.is_resting = True
        try:
            await self._woken.wait()
        finally:
            self.is_resting = False
            self._woken.clear()
