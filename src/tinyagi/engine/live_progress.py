"""The text of running runs: live only, throttled, never stored."""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tinyagi.domain.events import AgentProgress
from tinyagi.domain.ids import ClaimId
from tinyagi.domain.messages import Message
from tinyagi.domain.runs import Claim

PERIOD: Final = timedelta(milliseconds=250)
SHOWN: Final = 4_000
"""Characters of a run's latest text that a late listener gets."""
BUFFER: Final = 256


@dataclass(frozen=True, slots=True)
class ProgressUpdate:
    """A piece of text and the message whose run produced it."""

    message: Message
    event: AgentProgress
    start_event_id: int = 0
    """The event that records the start of the run."""


class ProgressHub:
    """Passes progress to all listeners. A slow listener misses pieces and delays no run."""

    def __init__(self) -> None:
        self._listeners: set[asyncio.Queue[ProgressUpdate]] = set()
        self._running: dict[ClaimId, RunProgress] = {}

    @contextlib.contextmanager
    def listening(self) -> Iterator[asyncio.Queue[ProgressUpdate]]:
        """Pieces arrive in the queue for as long as the block lasts."""
        queue: asyncio.Queue[ProgressUpdate] = asyncio.Queue(BUFFER)
        self._listeners.add(queue)
        try:
            yield queue
        finally:
            self._listeners.discard(queue)

    @contextlib.contextmanager
    def speaking(self, claim: Claim) -> Iterator["RunProgress"]:
        """Collect and publish a run's progress for as long as the block lasts."""
        progress = RunProgress(claim, self)
        self._running[claim.id] = progress
        try:
            yield progress
        finally:
            del self._running[claim.id]
            progress.close()

    def text_of(self, claim: ClaimId) -> str:
        """The latest text of a run in progress; empty when it has produced none."""
        progress = self._running.get(claim)
        return "" if progress is None else progress.latest

    def publish(self, update: ProgressUpdate) -> None:
        for listener in self._listeners:
            with contextlib.suppress(asyncio.QueueFull):
                listener.put_nowait(update)


class RunProgress:
    """Collects a run's text and publishes it at most four times a second."""

    def __init__(self, claim: Claim, live: ProgressHub) -> None:
        self.latest = ""
        self._claim = claim
        self._live = live
        self._unpublished: list[str] = []
        self._timer: asyncio.TimerHandle | None = None

    def say(self, text: str) -> None:
        if not text:
            return
        self.latest = (self.latest + text)[-SHOWN:]
        self._unpublished.append(text)
        if self._timer is None:
            self._flush()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _flush(self) -> None:
        self._timer = None
        if self._unpublished:
            text = "".join(self._unpublished)[-SHOWN:]
            self._unpublished.clear()
            claim = self._claim
            self._live.publish(ProgressUpdate(claim.primary, AgentProgress(claim.id, text), claim.start_event_id))
            self._timer = asyncio.get_running_loop().call_later(PERIOD.total_seconds(), self._flush)
