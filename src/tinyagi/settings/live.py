"""Settings that follow their file: a valid edit applies at once, an invalid one keeps the last good version."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Final

from tinyagi.settings.errors import SettingsError, SettingsFailed
from tinyagi.settings.json_tree import changed_names
from tinyagi.settings.model import Settings
from tinyagi.settings.parse import parse_settings, unknown_settings
from tinyagi.settings.settings_file import LoadedSettings, SettingsChange, SettingsFile, Stamp
from tinyagi.system.changes import Changes

log = logging.getLogger(__name__)

EVERY: Final = timedelta(seconds=1)
NEEDS_RESTART: Final = ("home", "store", "server")
"""Sections that the daemon reads only when it starts."""

_NO_CONTENT: Final = object()
"""Differs from any content; None is the content of a missing file."""

OnRejected = Callable[[str], Awaitable[None]]
"""Called with the reason when an edit is rejected, once per bad content."""


async def _log_rejected(reason: str) -> None:
    log.warning("an edit of the settings was rejected: %s", reason)


class LiveSettings:
    """The settings in force. A task reads `current` once, so that its settings do not change halfway."""

    def __init__(self, file: SettingsFile, *, every: timedelta = EVERY) -> None:
        """Read the file; raise InvalidSettings when it is not valid."""
        self._file = file
        self._on_rejected: OnRejected = _log_rejected
        self._every = every
        self._stamp = file.stamp()
        self._loaded = file.read()
        self._current = parse_settings({}) if self._loaded is None else self._loaded.settings
        self._raw_at_start = self.raw
        self._warnings = unknown_settings(self.raw)
        self._last_bad: object = _NO_CONTENT
        self._reported: object = _NO_CONTENT
        self._changes = Changes()
        self._lock = asyncio.Lock()

    @property
    def current(self) -> Settings:
        return self._current

    @property
    def raw(self) -> Mapping[str, object]:
        """The file as JSON, with unknown names; secrets are not masked."""
        return {} if self._loaded is None else self._loaded.raw

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self._changes.version

    async def beyond(self, version: int) -> int:
        """Wait until the version is greater than the given one, and return it."""
        return await self._changes.beyond(version)

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence for each setting of the file that has no effect."""
        return self._warnings

    @property
    def needs_restart(self) -> tuple[str, ...]:
        """Dotted names of settings that have changed since the start and apply only after a restart."""
        before, now = self._raw_at_start, self.raw
        return tuple(
            name for part in NEEDS_RESTART for name in changed_names(before.get(part, {}), now.get(part, {}), part)
        )

    async def save(self, patch: Mapping[str, object]) -> Settings:
        """Merge a patch into the file and apply it; raise InvalidSettings and change nothing when it is not valid."""
        return await self.edit(lambda _: patch)

    async def edit(self, change: SettingsChange) -> Settings:
        """Like `save`; the change computes its patch, in a thread, from the settings stored at that moment."""
        async with self._lock:
            # If the file was removed meanwhile, write it back whole.
            self._use(await asyncio.to_thread(self._file.edit, change, without_file=self.raw))
            return self._current

    async def poll_once(self) -> None:
        """Apply a change that another program made to the file."""
        async with self._lock:
            try:
                seen = await asyncio.to_thread(self._read_if_changed)
            except SettingsFailed as error:
                await self._report_if_repeated(str(error), error)
                return
            if seen is None:
                return
            stamp, content = seen
            if content == self._content:
                self._stamp, self._last_bad, self._reported = stamp, _NO_CONTENT, _NO_CONTENT
            elif content != self._reported:
                await self._load_changed(stamp, content)

    async def keep_polling(self, on_rejected: OnRejected) -> AsyncGenerator[None, None]:
        """Poll the file forever, and report rejected edits."""
        self._on_rejected = on_rejected
        while True:
            await asyncio.sleep(self._every.total_seconds())
            await self.poll_once()
            yield

    @property
    def _content(self) -> bytes | None:
        return None if self._loaded is None else self._loaded.content

    def _read_if_changed(self) -> tuple[Stamp | None, bytes | None] | None:
        """The file's stamp and content, or None when it is certainly unchanged."""
        stamp = self._file.stamp()
        return None if stamp is not None and stamp == self._stamp else (stamp, self._file.content())

    async def _load_changed(self, stamp: Stamp | None, content: bytes | None) -> None:
        try:
            loaded = await asyncio.to_thread(self._parse, content)
        except SettingsError as error:
            await self._report_if_repeated(content, error)
            return
        self._stamp = stamp
        self._use(loaded)
        try:
            await asyncio.to_thread(self._file.keep_backup, loaded.content)
        except SettingsError as error:
            log.warning("the new settings are in force, but could not be backed up: %s", error)

    def _parse(self, content: bytes | None) -> LoadedSettings:
        if content is None:
            raise SettingsFailed(f"{self._file.path} is gone. The last good settings stay in force.")
        return self._file.parse_content(content)

    async def _report_if_repeated(self, content: object, error: SettingsError) -> None:
        # A file that is being written is invalid for a moment, so report it only when the next poll finds the same.
        if content == self._last_bad and content != self._reported:
            await self._on_rejected(str(error))
            self._reported = content
        self._last_bad = content

    def _use(self, loaded: LoadedSettings) -> None:
        is_new = loaded.raw != self.raw
        self._loaded, self._current = loaded, loaded.settings
        self._last_bad = self._reported = _NO_CONTENT
        if is_new:
            before, self._warnings = self._warnings, unknown_settings(loaded.raw)
            for warning in self._warnings:
                if warning not in before:
                    log.warning("%s", warning)
            self._changes.notify()
