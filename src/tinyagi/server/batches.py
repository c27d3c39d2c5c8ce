"""Events encoded once for everybody: a stretch of the log as bytes, and the stretches that were used lately."""

from collections.abc import Callable, Sequence
from typing import Final

from tinyagi.domain.events import RecordedEvent
from tinyagi.server.filters import Filter
from tinyagi.server.frames import Frame, frame_of

PAGE: Final = 256
"""Events read at once. Stretches that are read again end at its multiples, so that readers come to share them."""
CHUNK: Final = 128 * 1024
"""Bytes after which a stretch ends: what a reader is sent at once, and all that is ever kept for it."""
KEPT: Final = 2 * 1024 * 1024
ENTRY: Final = 128
"""Bytes that the entry of a filter takes, also when nothing in the stretch is for it."""


class Batch:
    """Frames, and their bytes for each filter that somebody has asked with."""

    def __init__(self, frames: Sequence[Frame], last: int) -> None:
        self.last = last
        """Everything up to this id is in it."""
        self.size = sum(len(frame.both) for frame in frames)
        """Bytes that are kept with it; more with every filter."""
        self.on_growth: Callable[[int], None] | None = None
        self._frames = frames
        self._chunks: dict[Filter, bytes] = {}

    @classmethod
    def of_log(cls, events: Sequence[RecordedEvent], upto: int) -> "Batch":
        """As many of the events as fit; all of them reach up to the id given."""
        frames: list[Frame] = []
        room = CHUNK
        for event in events:
            if room <= 0:
                return cls(frames, frames[-1].id)
            frames.append(frame_of(event))
            room -= len(frames[-1].both)
        return cls(frames, upto)

    def chunk(self, wanted: Filter) -> bytes:
        chunk = self._chunks.get(wanted)
        if chunk is None:
            chunk = self._chunks[wanted] = wanted.chunk(self._frames)
            grown = len(chunk) + ENTRY
            self.size += grown
            if self.on_growth is not None:
                self.on_growth(grown)
        return chunk


class Recent:
    """Batches by the id they begin after. What the log holds between two ids never changes, so none is ever stale."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._size = 0
        self._batches: dict[int, Batch] = {}

    def get(self, after: int) -> Batch | None:
        return self._batches.get(after)

    def add(self, after: int, batch: Batch) -> None:
        self._discard(after)
        self._batches[after] = batch
        batch.on_growth = self._grow
        self._grow(batch.size)

    def _grow(self, size: int) -> None:
        self._size += size
        while self._size > self._kept:
            self._discard(next(iter(self._batches)))

    def _discard(self, after: int) -> None:
        batch = self._batches.pop(after, None)
        if batch is not None:
            batch.on_growth = None
            self._size -= batch.size
