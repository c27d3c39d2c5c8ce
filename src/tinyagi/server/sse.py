"""The readers of the stream: one task follows the log for all of them, each takes what is there at its own speed.

Nothing is queued for a reader. It has a cursor, the log is durable, and what was encoded lately is at hand for all.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import timedelta
from typing import Final

from tinyagi.domain.errors import StoreError
from tinyagi.domain.events import RecordedEvent
from tinyagi.engine.background import SupervisedTasks
from tinyagi.engine.live import BUFFER, Live, LiveProgress
from tinyagi.server.batches import PAGE, Batch, Recent
from tinyagi.server.errors import Refused
from tinyagi.server.filters import Filter
from tinyagi.server.frames import frame_of_progress
from tinyagi.server.pace import Pace
from tinyagi.server.reader import Pruned, Reader
from tinyagi.store.base import Store
from tinyagi.store.clock import wall_clock

KEEP_ALIVE: Final = timedelta(seconds=15)
READ_AGAIN: Final = timedelta(seconds=1)
ONE_SEND: Final = 0.0001
"""Seconds that a reader is taken to need for what it has loaded."""
WITH_READING: Final = 3
"""Times what encoding takes: the store's threads need about twice as long to read, with the same interpreter."""
WOKEN_AT_ONCE: Final = 20
"""Readers that send before others have their turn in the event loop."""

log = logging.getLogger(__name__)


class Hub:
    """One per server. Without readers it rests."""

    def __init__(
        self,
        store: Store,
        live: Live,
        background: SupervisedTasks,
        *,
        max_readers: int,
        keep_alive: timedelta = KEEP_ALIVE,
        read_again: timedelta = READ_AGAIN,
        clock: Callable[[], int] = wall_clock,
    ) -> None:
        self.clock = clock
        self.pace = Pace()
        self.position = 0
        """Readers may go up to this id of the log."""
        self.dropped = 0
        self._store = store
        self._live = live
        self._background = background
        self._max_readers = max_readers
        self._keep_alive = keep_alive.total_seconds()
        self._read_again = read_again.total_seconds()
        self._readers: set[Reader] = set()
        self._recent = Recent()
        self._pieces: deque[LiveProgress] = deque(maxlen=BUFFER)
        self._due = asyncio.Event()
        self._everybody_left = asyncio.Event()
        self._loading = asyncio.Lock()
        self._forget: Callable[[], None] | None = None
        self._is_open = False
        self._is_waiting = False
        """The log could not be read the last time."""

    @property
    def readers(self) -> int:
        return len(self._readers)

    async def start(self) -> None:
        self._forget = self._store.changes.call(self._due.set)
        self._background.start("stream", self._follow)
        self._background.start("stream-live", self._hear)
        self._background.start("stream-beat", self._keep_beating)
        self._is_open = True

    async def stop(self) -> None:
        """End every reader's answer, so that it asks again, and return when they have gone."""
        if self._forget is not None:
            self._forget()
            self._forget = None
        self._close()
        await self._background.stop("stream", "stream-live", "stream-beat")
        while self._readers:
            self._everybody_left.clear()
            await self._everybody_left.wait()

    def enter(self, wanted: Filter, cursor: int, head: int) -> Reader:
        """A new reader that has seen everything up to the cursor; raise Refused when there is no place for it."""
        if not self._is_open:
            raise Refused(503, "The event stream is closed: the daemon stops or starts. Try again in a moment.")
        if len(self._readers) >= self._max_readers:
            raise Refused(
                503,
                f"There are {self._max_readers} readers of the event stream, and no place for more. "
                "Close some, or raise server.max_streams.",
                {"retry-after": "30"},
            )
        if not self._readers:
            self.position = max(self.position, head)
        reader = Reader(self, wanted, cursor)
        self._readers.add(reader)
        self._due.set()
        return reader

    def leave(self, reader: Reader) -> None:
        self._readers.discard(reader)
        if not self._readers:
            self._everybody_left.set()

    def at_hand(self, after: int) -> Batch | None:
        """What comes after this id, if it was used lately and readers may have it."""
        return self._recent.get(after) if after < self.position else None

    async def load(self, after: int) -> Batch | None:
        """The same from the log, for one reader at a time; None when it cannot be read now. Raise Pruned."""
        try:
            async with self._loading:
                batch = self.at_hand(after)
                if batch is None:
                    await self.pace.turn()
                    batch = await self._load(after)
                self.pace.spend(ONE_SEND)
                return batch
        except StoreError as error:
            self._complain(error)
        await asyncio.sleep(self._read_again)
        return None

    async def _load(self, after: int) -> Batch:
        upto = min(self.position, (after // PAGE + 1) * PAGE)
        page = await self._store.events.read_after(after, limit=upto - after)
        events = [event for event in page if event.id <= upto]
        if not events or events[0].id > after + 1:
            bounds = await self._store.events.bounds()
            if bounds.oldest > after + 1 or bounds.oldest == 0:
                raise Pruned(bounds)
        batch = self._encode(events, upto)
        self._recent.add(after, batch)
        return batch

    def _encode(self, events: Sequence[RecordedEvent], upto: int) -> Batch:
        began = time.perf_counter()
        self._is_waiting = False
        batch = Batch.of_log(events, upto)
        self.pace.spend((time.perf_counter() - began) * WITH_READING)
        return batch

    async def _follow(self) -> AsyncGenerator[None, None]:
        # After a fault there may be something that no further change announces.
        self._due.set()
        while True:
            await self._due.wait()
            self._due.clear()
            if self._readers:
                await self.pace.turn()
                await self._publish(await self._next())
            else:
                self._pieces.clear()
            yield

    async def _next(self) -> Batch | None:
        """What is new in the log."""
        after = self.position
        try:
            page = await self._store.events.read_after(after, limit=PAGE)
        except StoreError as error:
            self._complain(error)
            asyncio.get_running_loop().call_later(self._read_again, self._due.set)
            return None
        if not page:
            return None
        if self.position != after:
            # The last reader left and another came, while the log was being read: it begins elsewhere.
            self._due.set()
            return None
        batch = self._encode(page, page[-1].id)
        if len(page) == PAGE or batch.last < page[-1].id:
            self._due.set()
        if page[0].id == after + 1:
            self._recent.add(after, batch)
        # Else something is gone before anybody was told. Each reader looks into the log itself, and hears of it.
        return batch

    async def _publish(self, news: Batch | None) -> None:
        # Taken after the log was read: what a run has said is sent before the end of the run.
        pieces = self._take_pieces()
        if news is None and pieces is None:
            return
        resting = [reader for reader in self._readers if reader.is_resting]
        if news is not None:
            self.position = news.last
        for start in range(0, len(resting), WOKEN_AT_ONCE):
            await self._wake(resting[start : start + WOKEN_AT_ONCE], pieces)

    async def _wake(self, readers: Sequence[Reader], pieces: Batch | None) -> None:
        """Let them send, and count what it takes: they have their turns after `began` and before this goes on."""
        began: list[float] = []
        asyncio.get_running_loop().call_soon(lambda: began.append(time.perf_counter()))
        for reader in readers:
            reader.wake(pieces)
        await asyncio.sleep(0)
        self.pace.spend(time.perf_counter() - began[0])

    def _take_pieces(self) -> Batch | None:
        if not self._pieces:
            return None
        now = self.clock()
        frames = [frame_of_progress(piece, now) for piece in self._pieces]
        self._pieces.clear()
        return Batch(frames, 0)

    async def _hear(self) -> AsyncGenerator[None, None]:
        with self._live.listening() as pieces:
            while True:
                self._pieces.append(await pieces.get())
                self._due.set()
                yield

    async def _keep_beating(self) -> AsyncGenerator[None, None]:
        while True:
            await asyncio.sleep(self._keep_alive)
            self._beat(tuple(self._readers))
            yield

    def _beat(self, readers: Sequence[Reader]) -> None:
        for reader in readers:
            if not reader.beat():
                self.dropped += 1
                reader.drop()

    def _close(self) -> None:
        self._is_open = False
        for reader in self._readers:
            reader.end()

    def _complain(self, error: StoreError) -> None:
        if not self._is_waiting:
            log.warning("The event stream waits: %s", error)
        self._is_waiting = True
