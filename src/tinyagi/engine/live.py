"""What runs say while they run: live only, throttled, never stored."""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tinyagi.domain.events import AgentProgress
from tinyagi.domain.ids import ClaimId
from tinyagi.domain.messages import Claim, Message

PERIOD: Final = timedelta(milliseconds=250)
SHOWN: Final = 4_000
"""Characters of a run's latest text that a late reader finds."""
BUFFER: Final = 256


@dataclass(frozen=True, slots=True)
class LiveProgress:
    """A piece of text and the message whose run says it."""

    message: Message
    event: AgentProgress


class Live:
    """Passes progress on to whoever listens. A listener that does not keep up misses pieces; nobody waits for it."""

    def __init__(self) -> None:
        self._listeners: set[asyncio.Queue[LiveProgress]] = set()
        self._speakers: dict[ClaimId, Speaker] = {}

    @contextlib.contextmanager
    def listening(self) -> Iterator[asyncio.Queue[LiveProgress]]:
        """Pieces arrive in the queue for as long as the block lasts."""
        queue: asyncio.Queue[LiveProgress] = asyncio.Queue(BUFFER)
        self._listeners.add(queue)
        try:
            yield queue
        finally:
            self._listeners.discard(queue)

    @contextlib.contextmanager
    def speaking(self, claim: Claim) -> Iterator["Speaker"]:
        """A run's voice for as long as the block lasts."""
        speaker = Speaker(claim, self)
        self._speakers[claim.id] = speaker
        try:
            yield speaker
        finally:
            del self._speakers[claim.id]
            speaker.close()

    def text_of(self, claim: ClaimId) -> str:
        """The latest text of a run that is going on; empty when it has said nothing."""
        speaker = self._speakers.get(claim)
        return "" if speaker is None else speaker.latest

    def publish(self, progress: LiveProgress) -> None:
        for listener in self._listeners:
            with contextlib.suppress(asyncio.QueueFull):
                listener.put_nowait(progress)


class Speaker:
    """Collects what a run says and passes it on at most four times a second."""

    def __init__(self, claim: Claim, live: Live) -> None:
        self.latest = ""
        self._claim = claim
        self._live = live
        self._unsaid: list[str] = []
        self._timer: asyncio.TimerHandle | None = None

    def say(self, text: str) -> None:
        if not text:
            return
        self.latest = (self.latest + text)[-SHOWN:]
        self._unsaid.append(text)
        if self._timer is None:
            self._flush()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _flush(self) -> None:
        self._timer = None
        if self._unsaid:
            text = "".join(self._unsaid)[-SHOWN:]
            self._unsaid.clear()
            self._live.publish(LiveProgress(self._claim.primary, AgentProgress(self._claim.id, text)))
            self._timer = asyncio.get_running_loop().call_later(PERIOD.total_seconds(), self._flush)
