"""Settings that follow their file: a good edit counts at once, a bad one leaves the last good settings in force."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Final

from tinyagi.settings.document import Change, Document, Loaded, Stamp
from tinyagi.settings.errors import SettingsError, SettingsFailed
from tinyagi.settings.merge import changed_names
from tinyagi.settings.model import Settings
from tinyagi.settings.parse import parse
from tinyagi.store.changes import Changes

log = logging.getLogger(__name__)

EVERY: Final = timedelta(seconds=1)
RESTART: Final = ("home", "store", "server")
"""Sections that are read once, when the daemon starts."""

_NOBODY: Final = object()
"""No content is equal to it: a missing file is None."""

Rejected = Callable[[str], Awaitable[None]]
"""Told why an edit does not count, once for each bad content."""


async def _log_rejected(reason: str) -> None:
    log.warning("an edit of the settings was rejected: %s", reason)


class LiveSettings:
    """The settings in force. A piece of work reads `current` once, so that they do not change under its hands."""

    def __init__(self, document: Document, *, every: timedelta = EVERY) -> None:
        """Read the file; raise InvalidSettings when there is nothing good to begin with."""
        self._document = document
        self._on_rejected: Rejected = _log_rejected
        self._every = every
        self._stamp = document.stamp()
        self._loaded = document.read()
        self._current = parse({}) if self._loaded is None else self._loaded.settings
        self._raw_at_start = self.raw
        self._suspect: object = _NOBODY
        self._told: object = _NOBODY
        self._changes = Changes()
        self._turn = asyncio.Lock()

    @property
    def current(self) -> Settings:
        return self._current

    @property
    def raw(self) -> Mapping[str, object]:
        """The file as JSON, with what the types do not know; its secrets are not masked."""
        return {} if self._loaded is None else self._loaded.raw

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self._changes.version

    async def beyond(self, version: int) -> int:
        """Return the version as soon as it is beyond the given one."""
        return await self._changes.beyond(version)

    @property
    def needs_restart(self) -> tuple[str, ...]:
        """Dotted names of what has changed since the start and counts only after the next one."""
        before, now = self._raw_at_start, self.raw
        return tuple(name for part in RESTART for name in changed_names(before.get(part, {}), now.get(part, {}), part))

    async def save(self, patch: Mapping[str, object]) -> Settings:
        """Merge a patch into the file and use the result at once; raise InvalidSettings and change nothing if bad."""
        return await self.edit(lambda _: patch)

    async def edit(self, change: Change) -> Settings:
        """Like `save`, with a patch that is made, in a thread, from what is stored at that moment."""
        async with self._turn:
            # A file that somebody has removed under us comes back whole.
            self._take(await asyncio.to_thread(self._document.edit, change, without_file=self.raw))
            return self._current

    async def look(self) -> None:
        """See whether somebody else has changed the file."""
        async with self._turn:
            try:
                seen = await asyncio.to_thread(self._glance)
            except SettingsFailed as error:
                await self._doubt(str(error), error)
                return
            if seen is None:
                return
            stamp, content = seen
            if content == self._content:
                self._stamp, self._suspect, self._told = stamp, _NOBODY, _NOBODY
            elif content != self._told:
                await self._judge(stamp, content)

    async def keep_looking(self, on_rejected: Rejected) -> AsyncGenerator[None, None]:
        """Look again and again, and report why an edit does not count."""
        self._on_rejected = on_rejected
        while True:
            await asyncio.sleep(self._every.total_seconds())
            await self.look()
            yield

    @property
    def _content(self) -> bytes | None:
        return None if self._loaded is None else self._loaded.content

    def _glance(self) -> tuple[Stamp | None, bytes | None] | None:
        """The file as it is now, or None when it is certainly the same."""
        stamp = self._document.stamp()
        return None if stamp is not None and stamp == self._stamp else (stamp, self._document.content())

    async def _judge(self, stamp: Stamp | None, content: bytes | None) -> None:
        try:
            loaded = await asyncio.to_thread(self._understand, content)
        except SettingsError as error:
            await self._doubt(content, error)
            return
        self._stamp = stamp
        self._take(loaded)
        try:
            await asyncio.to_thread(self._document.remember, loaded.content)
        except SettingsError as error:
            log.warning("the new settings are in force, but there is no backup of them: %s", error)

    def _understand(self, content: bytes | None) -> Loaded:
        if content is None:
            raise SettingsFailed(f"{self._document.path} is gone. The last good settings stay in force.")
        return self._document.understand(content)

    async def _doubt(self, content: object, error: SettingsError) -> None:
        # A file that is just being written is bad for a moment: it is told of when the next look finds the same.
        if content == self._suspect and content != self._told:
            await self._on_rejected(str(error))
            self._told = content
        self._suspect = content

    def _take(self, loaded: Loaded) -> None:
        is_new = loaded.raw != self.raw
        self._loaded, self._current = loaded, loaded.settings
        self._suspect = self._told = _NOBODY
        if is_new:
            self._changes.notify()
