"""Follows the event log for all readers of the stream: one task reads and encodes, each reader sends at its own speed.

Nothing is queued per reader. A reader is a cursor into the durable log; recently encoded batches are shared.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from tinyagi.domain.errors import StoreError
from tinyagi.domain.events import RecordedEvent
from tinyagi.engine.background import SupervisedTasks
from tinyagi.engine.live_progress import BUFFER, ProgressHub, ProgressUpdate
from tinyagi.server.errors import HttpRefusal
from tinyagi.server.event_frames import (
    BATCH_BYTES,
    PAGE,
    Batch,
    BatchCache,
    EventFilter,
    Frame,
    NameOf,
    frame_of_progress,
    keep_alive_frame,
    reset_frame,
)
from tinyagi.store.event_log import LogBounds
from tinyagi.store.store import Store
from tinyagi.system.clock import wall_clock

KEEP_ALIVE: Final = timedelta(seconds=15)
READ_RETRY: Final = timedelta(seconds=1)
SEND_SECONDS: Final = 0.0001
"""Seconds to charge for sending a loaded batch; an estimate."""
READ_FACTOR: Final = 3
"""Factor on the time of encoding: the store's threads hold the interpreter about twice as long to read."""
WAKE_BATCH: Final = 20
"""Readers woken before other tasks get their turn in the event loop."""

LOOP_SHARE: Final = 0.1
"""Share of the event loop's time for reading, encoding and waking."""
MAX_WAIT: Final = 2.0
"""Seconds. Caps the wait after one slow piece of work, such as one during a suspend of the machine."""

log = logging.getLogger(__name__)


class Subscriber:
    """One reader of the stream. It has every event it wants up to its cursor."""

    def __init__(self, hub: "EventHub", wanted: EventFilter, cursor: int) -> None:
        self.cursor = cursor
        self.is_waiting = False
        """It has every event and waits for more."""
        self.is_dropped = False
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._hub = hub
        self._wanted = wanted
        self._woken = asyncio.Event()
        self._progress: list[Batch] = []
        self._keep_alive_is_due = False
        self._is_sending = False
        self._was_sending_at_keep_alive = False

    async def next(self) -> bytes:
        """Wait for the next bytes to send."""
        while True:
            if chunk := self._ready():
                return chunk
            if self.cursor < self._hub.position:
                if chunk := await self._from_log():
                    return chunk
            else:
                await self._wait()

    def begin_send(self) -> None:
        self._is_sending = True

    def end_send(self) -> None:
        self._is_sending = False
        self._was_sending_at_keep_alive = False

    def wake(self, progress: Batch | None) -> None:
        """Announce new events. Live progress goes only to a reader that waits: others are behind it."""
        if progress is not None and self.is_waiting:
            self._progress.append(progress)
        self._woken.set()

    def request_keep_alive(self) -> bool:
        """Ask for a keep-alive; False if the send of the previous keep-alive interval is still going on."""
        if self._is_sending:
            is_stuck, self._was_sending_at_keep_alive = self._was_sending_at_keep_alive, True
            return not is_stuck
        self._keep_alive_is_due = True
        self._woken.set()
        return True

    def end(self) -> None:
        if not self.over.done():
            self.over.set_result(None)

    def drop(self) -> None:
        self.is_dropped = True
        self.end()

    def _ready(self) -> bytes:
        """Live progress, then cached batches, then the keep-alive: its id covers everything before it."""
        parts = [progress.chunk(self._wanted) for progress in self._progress]
        self._progress.clear()
        size = 0
        while size < BATCH_BYTES and (batch := self._hub.cached(self.cursor)) is not None:
            part = batch.chunk(self._wanted)
            self.cursor = batch.last
            if part:
                parts.append(part)
                size += len(part)
        if self._keep_alive_is_due:
            self._keep_alive_is_due = False
            parts.append(keep_alive_frame(self.cursor))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _from_log(self) -> bytes:
        try:
            batch = await self._hub.load(self.cursor)
        except Pruned as pruned:
            bounds = pruned.bounds
            self.cursor = bounds.oldest - 1 if bounds.oldest else bounds.head
            return reset_frame(self.cursor, "pruned", bounds.oldest, bounds.head, self._hub.clock())
        if batch is None:
            return b""
        self.cursor = batch.last
        return batch.chunk(self._wanted)

    async def _wait(self) -> None:
        self.is_waiting = True
        try:
            await self._woken.wait()
        finally:
            self.is_waiting = False
            self._woken.clear()


class EventHub:
    """One per server: publishes new events and live progress to subscribers. Reads nothing while there are none."""

    def __init__(
        self,
        store: Store,
        live: ProgressHub,
        background: SupervisedTasks,
        *,
        max_readers: int,
        keep_alive: timedelta = KEEP_ALIVE,
        read_again: timedelta = READ_RETRY,
        clock: Callable[[], int] = wall_clock,
        name_of: NameOf = str,
    ) -> None:
        self.clock = clock
        self.loop_share = LoopShare()
        self.position = 0
        """Readers may read the log up to this id."""
        self.dropped = 0
        self._store = store
        self._live = live
        self._background = background
        self._max_readers = max_readers
        self._keep_alive = keep_alive.total_seconds()
        self._read_again = read_again.total_seconds()
        self._name_of = name_of
        self._readers: set[Subscriber] = set()
        self._cache = BatchCache()
        self._progress: deque[ProgressUpdate] = deque(maxlen=BUFFER)
        self._due = asyncio.Event()
        self._all_left = asyncio.Event()
        self._loading = asyncio.Lock()
        self._stop_watching: Callable[[], None] | None = None
        self._is_open = False
        self._is_unreadable = False
        """The last read of the log failed."""

    @property
    def readers(self) -> int:
        return len(self._readers)

    async def start(self) -> None:
        self._stop_watching = self._store.changes.call(self._due.set)
        self._background.start("stream", self._follow)
        self._background.start("stream-live", self._collect_progress)
        self._background.start("stream-beat", self._send_keep_alives)
        self._is_open = True

    async def stop(self) -> None:
        """End every reader's response, so that it reconnects, and wait until all have left."""
        if self._stop_watching is not None:
            self._stop_watching()
            self._stop_watching = None
        self._close()
        await self._background.stop("stream", "stream-live", "stream-beat")
        while self._readers:
            self._all_left.clear()
            await self._all_left.wait()

    def subscribe(self, wanted: EventFilter, cursor: int, head: int) -> Subscriber:
        """Add a reader that starts after the cursor; raise HttpRefusal when the hub is closed or full."""
        if not self._is_open:
            raise HttpRefusal(503, "The daemon is starting or stopping. Open the event stream again in a moment.")
        if len(self._readers) >= self._max_readers:
            raise HttpRefusal(
                503,
                f"The event stream has {self._max_readers} readers, which is the limit. "
                "Close some, or raise server.max_streams.",
                {"retry-after": "30"},
            )
        if not self._readers:
            self.position = max(self.position, head)
        reader = Subscriber(self, wanted, cursor)
        self._readers.add(reader)
        self._due.set()
        return reader

    def unsubscribe(self, reader: Subscriber) -> None:
        self._readers.discard(reader)
        if not self._readers:
            self._all_left.set()

    def cached(self, after: int) -> Batch | None:
        """Return the batch after this id if it is cached and published."""
        return self._cache.get(after) if after < self.position else None

    async def load(self, after: int) -> Batch | None:
        """Read the batch after this id from the log, one reader at a time; None when the read failed. Raise Pruned."""
        try:
            async with self._loading:
                batch = self.cached(after)
                if batch is None:
                    await self.loop_share.wait()
                    batch = await self._load(after)
                self.loop_share.charge(SEND_SECONDS)
                return batch
        except StoreError as error:
            self._log_unreadable(error)
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
        self._cache.add(after, batch)
        return batch

    def _encode(
        self, events: Sequence[RecordedEvent], upto: int, live: Mapping[int, Sequence[Frame]] = MappingProxyType({})
    ) -> Batch:
        began = time.perf_counter()
        self._is_unreadable = False
        batch = Batch.of_log(events, upto, self._name_of, live)
        self.loop_share.charge((time.perf_counter() - began) * READ_FACTOR)
        return batch

    async def _follow(self) -> AsyncGenerator[None, None]:
        # After a restart there may be events that no further change announces.
        self._due.set()
        while True:
            await self._due.wait()
            self._due.clear()
            if self._readers:
                await self.loop_share.wait()
                await self._publish(await self._next())
            else:
                self._progress.clear()
            yield

    async def _next(self) -> Batch | None:
        """Read the new events of the log as a batch; None when there are none, or the read failed."""
        after = self.position
        try:
            page = await self._store.events.read_after(after, limit=PAGE)
        except StoreError as error:
            self._log_unreadable(error)
            asyncio.get_running_loop().call_later(self._read_again, self._due.set)
            return None
        if not page:
            return None
        if self.position != after:
            # During the read the last reader left, and a new one started at another position.
            self._due.set()
            return None
        batch = self._encode(page, page[-1].id, self._live_frames(after=after))
        if len(page) == PAGE or batch.last < page[-1].id:
            self._due.set()
        if page[0].id == after + 1:
            self._cache.add(after, batch)
        # Otherwise events were pruned before they were sent; each reader finds the gap when it reads the log itself.
        return batch

    async def _publish(self, batch: Batch | None) -> None:
        # Collected after the log was read, so progress goes out before the end of its run. Progress of a run that
        # starts in this batch follows its start event; progress of a later run waits.
        earlier = [frame for frames in self._live_frames(upto=self.position).values() for frame in frames]
        progress = Batch(earlier, 0) if earlier else None
        self._drop_progress(self.position if batch is None else batch.last)
        if batch is None and progress is None:
            return
        waiting = [reader for reader in self._readers if reader.is_waiting]
        before = self.position
        if batch is not None:
            self.position = batch.last
        for start in range(0, len(waiting), WAKE_BATCH):
            await self._wake(waiting[start : start + WAKE_BATCH], progress)
        if batch is not None and self._cache.get(before) is batch:
            self._cache.add(before, batch.of_log_only())

    async def _wake(self, readers: Sequence[Subscriber], progress: Batch | None) -> None:
        """Let readers send, and charge their time: they run after `began` is set and before `sleep(0)` returns."""
        began: list[float] = []
        asyncio.get_running_loop().call_soon(lambda: began.append(time.perf_counter()))
        for reader in readers:
            reader.wake(progress)
        await asyncio.sleep(0)
        self.loop_share.charge(time.perf_counter() - began[0])

    def _live_frames(self, *, after: int = -1, upto: int | None = None) -> dict[int, list[Frame]]:
        """Frames of progress by the start event of their run, for runs that started after `after` and up to `upto`."""
        frames: dict[int, list[Frame]] = {}
        now = self.clock()
        for update in self._progress:
            start = update.start_event_id
            if after < start and (upto is None or start <= upto):
                frames.setdefault(start, []).append(frame_of_progress(update, now, self._name_of))
        return frames

    def _drop_progress(self, upto: int) -> None:
        late = [update for update in self._progress if update.start_event_id > upto]
        self._progress.clear()
        self._progress.extend(late)

    async def _collect_progress(self) -> AsyncGenerator[None, None]:
        with self._live.listening() as updates:
            while True:
                self._progress.append(await updates.get())
                self._due.set()
                yield

    async def _send_keep_alives(self) -> AsyncGenerator[None, None]:
        while True:
            await asyncio.sleep(self._keep_alive)
            self._keep_alive_all(tuple(self._readers))
            yield

    def _keep_alive_all(self, readers: Sequence[Subscriber]) -> None:
        for reader in readers:
            if not reader.request_keep_alive():
                self.dropped += 1
                reader.drop()

    def _close(self) -> None:
        self._is_open = False
        for reader in self._readers:
            reader.end()

    def _log_unreadable(self, error: StoreError) -> None:
        if not self._is_unreadable:
            log.warning("the event stream cannot read the log and will retry: %s", error)
        self._is_unreadable = True


class Pruned(Exception):
    """The log no longer has a reader's next event."""

    def __init__(self, bounds: LogBounds) -> None:
        super().__init__(f"The log starts at event {bounds.oldest}.")
        self.bounds = bounds


class LoopShare:
    """Holds work to a share of the event loop's time; after a pause the next piece starts at once."""

    def __init__(self, share: float = LOOP_SHARE) -> None:
        self._share = share
        self._free_at = 0.0

    def charge(self, seconds: float) -> None:
        now = time.perf_counter()
        self._free_at = min(max(self._free_at, now) + seconds / self._share, now + MAX_WAIT)

    async def wait(self) -> None:
        """Wait until more work fits into the share."""
        while (wait := self._free_at - time.perf_counter()) > 0:  # noqa: ASYNC110 - others may charge meanwhile
            await asyncio.sleep(wait)
