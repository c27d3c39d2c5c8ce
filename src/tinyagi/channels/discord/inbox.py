"""Messages on their way to the daemon: one after another within a Discord channel, side by side between channels."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from tinyagi.channels.discord.marks import Marks
from tinyagi.channels.port import ChannelMessage, Receive

PAGE: Final = 100
"""Messages that Discord's history gives at once."""
_MOST_WAITING: Final = 100
_MOST_REMEMBERED: Final = 4_096


@dataclass(frozen=True, slots=True)
class InboxEntry:
    """A message of a Discord channel, or a command there."""

    id: int
    message: ChannelMessage | None
    """None when it is not for the bot; it moves the mark all the same."""
    is_command: bool = False
    """A command is not part of the channel's history."""
    is_done: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it was handed over."""


ReadHistory = Callable[[int, int], Awaitable[list[InboxEntry]]]
"""At most PAGE entries of a channel after a message, oldest first; it waits while Discord does not answer."""


@dataclass(slots=True)
class _Lane:
    waiting: deque[InboxEntry] = field(default_factory=deque)
    is_behind: bool = False
    """The history has messages that are not in `waiting`."""
    worker: asyncio.Task[None] | None = None


class DiscordInbox:
    """Hands over each message of a channel in order, those from the channel's history before the live ones."""

    def __init__(self, marks: Marks, history: ReadHistory) -> None:
        self._marks = marks
        self._history = history
        self._lanes: dict[int, _Lane] = {}
        self._remembered: dict[int, None] = {}
        self._receive: Receive | None = None
        self._failure: Exception | None = None
        self._failed = asyncio.Event()

    def put(self, channel: int, entry: InboxEntry, *, person: int = 0, parent: int = 0) -> None:
        """Take a live message; the calls for one channel are in its order."""
        may_have_more = self._marks.open(channel, before=entry.id, person=person, parent=parent)
        lane = self._lanes.setdefault(channel, _Lane(is_behind=may_have_more))
        if len(lane.waiting) < _MOST_WAITING or entry.is_command:
            lane.waiting.append(entry)
        else:
            # Memory stays bounded while the daemon is away: the history has this message too.
            lane.is_behind = True
        self._wake(channel, lane)

    def fall_behind(self, channel: int) -> None:
        """Messages of this channel may be missing: hand over its history after the mark."""
        lane = self._lanes.setdefault(channel, _Lane())
        lane.is_behind = True
        self._wake(channel, lane)

    async def run(self, receive: Receive) -> None:
        """Hand over until cancelled; raise what `receive` raises."""
        self._receive = receive
        try:
            for channel, lane in list(self._lanes.items()):
                self._wake(channel, lane)
            await self._failed.wait()
            if self._failure:
                raise self._failure
        finally:
            self._receive = None
            workers = [lane.worker for lane in self._lanes.values() if lane.worker]
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    def fail(self, error: Exception) -> None:
        """End `run` with this error."""
        self._failure = self._failure or error
        self._failed.set()

    def _wake(self, channel: int, lane: _Lane) -> None:
        if self._receive and lane.worker is None and (lane.waiting or lane.is_behind):
            lane.worker = asyncio.create_task(self._work(channel, lane, self._receive), name=f"discord {channel}")

    async def _work(self, channel: int, lane: _Lane, receive: Receive) -> None:
        try:
            while lane.is_behind or lane.waiting:
                if lane.is_behind:
                    await self._catch_up(channel, lane, receive)
                else:
                    await self._hand_over(channel, lane.waiting[0], receive)
                    lane.waiting.popleft()
        except Exception as error:  # every failure of a lane ends the channel, which starts again
            self.fail(error)
        finally:
            lane.worker = None
            self._forget_oldest()

    async def _catch_up(self, channel: int, lane: _Lane, receive: Receive) -> None:
        # A message that finds no room from now on sets it again.
        lane.is_behind = False
        after = self._marks.last(channel)
        try:
            while after is not None:
                page = await self._history(channel, after)
                for entry in page:
                    await self._hand_over(channel, entry, receive)
                after = page[-1].id if len(page) == PAGE else None
        except BaseException:
            lane.is_behind = True
            raise

    async def _hand_over(self, channel: int, entry: InboxEntry, receive: Receive) -> None:
        if entry.id not in self._remembered:
            if entry.message is not None:
                await receive(entry.message)
            self._remember(entry.id)
        if not entry.is_command:
            self._marks.advance(channel, entry.id)
        entry.is_done.set()

    def _remember(self, message: int) -> None:
        self._remembered[message] = None
        if len(self._remembered) > _MOST_REMEMBERED:
            del self._remembered[next(iter(self._remembered))]

    def _forget_oldest(self) -> None:
        for channel in self._marks.trim(self._is_idle):
            self._lanes.pop(channel, None)

    def _is_idle(self, channel: int) -> bool:
        lane = self._lanes.get(channel)
        return lane is None or not (lane.worker or lane.waiting or lane.is_behind)
