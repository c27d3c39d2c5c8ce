"""How far each Discord channel was handed over, in a file: Discord does not repeat what a bot that was away missed."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from tinyagi.system.files import make_folder, put_in_place, write_aside

_log: Final = logging.getLogger(__name__)
_CAPACITY: Final = 1_000
_PAUSE_SECONDS: Final = 0.5
"""Between two writes. A killed process gets the messages of this time again."""


class Mark(msgspec.Struct, omit_defaults=True):
    """A Discord channel and the last message of it that was handed over."""

    last: int
    person: int = 0
    """Whose direct chat it is."""
    parent: int = 0
    """The chosen server channel that it is, or whose thread it is."""


class _File(msgspec.Struct):
    bot: int = 0
    """Direct channels belong to a bot: another one cannot use them."""
    channels: dict[int, Mark] = {}
    since: dict[int, int] = {}
    """For each chosen server channel, the message after which a thread without a mark begins."""


class Marks:
    """The marks of the channels that were active last, so that strangers cannot fill the disk."""

    def __init__(self, path: Path, *, capacity: int = _CAPACITY) -> None:
        self._path = path
        self._capacity = capacity
        self._changed = asyncio.Event()
        self._has_new = asyncio.Event()
        self._file = _read(path)
        self._direct: dict[int, int] = {}

    def direct_channel(self, person: int) -> int | None:
        """The channel of the person's direct chat, when it is known."""
        return self._direct.get(person)

    def last(self, channel: int) -> int | None:
        """The last message that was handed over; None when the channel has no mark."""
        mark = self._file.channels.get(channel)
        return mark.last if mark else None

    def is_direct(self, channel: int) -> bool:
        mark = self._file.channels.get(channel)
        return mark is not None and mark.person != 0

    def parent(self, channel: int) -> int:
        """The chosen server channel to which a thread belongs; 0 when the channel has no mark or is a direct chat."""
        mark = self._file.channels.get(channel)
        return mark.parent if mark else 0

    def start(self, channel: int, parent: int) -> int:
        """The message after which a server channel or thread is to be handed over."""
        mark = self._file.channels.get(channel)
        return mark.last if mark else self._file.since.get(parent, 0)

    def channels(self) -> list[int]:
        """The channels with a mark, the one with the newest message first."""
        marks = self._file.channels
        return sorted(marks, key=lambda channel: marks[channel].last, reverse=True)

    def watch(self, parent: int, since: int) -> None:
        """Begin with a chosen server channel after this message; does nothing when it has begun."""
        if parent not in self._file.since:
            self._file.since[parent] = since
            self._write_soon()

    def keep_only(self, bot: int, parents: frozenset[int]) -> None:
        """Forget the marks of another bot, and of server channels that are no longer chosen.

        A channel that is chosen again later begins anew, so old mentions stay unanswered.
        """
        file = self._file if self._file.bot == bot else _File(bot)
        since = {parent: message for parent, message in file.since.items() if parent in parents}
        kept = {channel: mark for channel, mark in file.channels.items() if mark.person or mark.parent in parents}
        self._file = _File(bot, kept, since)
        self._direct = {mark.person: channel for channel, mark in kept.items() if mark.person}
        self._changed.set()

    def open(self, channel: int, *, before: int, person: int = 0, parent: int = 0) -> bool:
        """Make sure that the channel has a mark; True when its history after the mark is to be read first."""
        if channel in self._file.channels:
            return True
        last = self._file.since.get(parent, before - 1)
        if parent:
            self.watch(parent, last)
        self._file.channels[channel] = Mark(last, person, parent)
        if person:
            self._direct[person] = channel
        self._write_soon()
        # A direct chat without a mark begins with this message.
        return parent != 0

    def advance(self, channel: int, message: int) -> None:
        """The message was handed over, and all before it."""
        mark = self._file.channels.get(channel)
        if mark and message > mark.last:
            mark.last = message
            self._changed.set()

    def trim(self, is_idle: Callable[[int], bool]) -> list[int]:
        """Forget the idle channels with the oldest messages when there are too many, and return them."""
        excess = len(self._file.channels) - self._capacity
        # A tenth at once: to find the oldest takes a look at all.
        if excess <= self._capacity // 10:
            return []
        oldest = [channel for channel in reversed(self.channels()) if is_idle(channel)][:excess]
        for channel in oldest:
            self._drop(channel)
        return oldest

    def _drop(self, channel: int) -> None:
        mark = self._file.channels.pop(channel)
        self._direct.pop(mark.person, None)
        if mark.parent in self._file.since:
            # If the thread comes back, it begins here and not before.
            self._file.since[mark.parent] = max(self._file.since[mark.parent], mark.last)
        self._changed.set()

    async def keep_written(self) -> None:
        """Write changes to the file until cancelled: new marks at once, because nothing else names their channels."""
        while True:
            await self._changed.wait()
            self._has_new.clear()
            self.write()
            # Not `wait_for`: in Python 3.11 it loses a cancellation that comes together with the event.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE_SECONDS):
                    await self._has_new.wait()

    def _write_soon(self) -> None:
        self._changed.set()
        self._has_new.set()

    def write(self) -> None:
        """Write the file if something changed."""
        if not self._changed.is_set():
            return
        self._changed.clear()
        try:
            make_folder(self._path.parent, 0o700)
            put_in_place(write_aside(self._path, msgspec.json.encode(self._file)), self._path)
        except OSError as error:
            _log.warning("The marks of Discord are not written: %s", error)


def _read(path: Path) -> _File:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_File)
    except FileNotFoundError:
        return _File()
    except (OSError, msgspec.MsgspecError) as error:
        _log.warning("The marks of Discord are not readable, messages from before are not fetched: %s", error)
        return _File()
