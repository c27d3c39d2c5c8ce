"""The settings file: read, checked, merged and replaced; never left half written, never overwritten when broken."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from tinyagi.settings.backups import Backups, utc_now
from tinyagi.settings.errors import InvalidSettings, SettingsFailed, UnreadableSettings
from tinyagi.settings.home import Home
from tinyagi.settings.lock import locked
from tinyagi.settings.model import Settings
from tinyagi.settings.notation import Unreadable, check_depth, decode, encode
from tinyagi.settings.parse import parse
from tinyagi.settings.secrets import merge
from tinyagi.system.files import put_in_place, write_aside

NOTHING: Final[Mapping[str, object]] = MappingProxyType({})

Change = Callable[[Mapping[str, object]], Mapping[str, object]]
"""From what is stored to the patch for it."""

_TOO_YOUNG_NS: Final = 3_000_000_000
"""The clocks of file systems tick up to two seconds apart: two writes within one tick look like one."""


class Stamp(NamedTuple):
    """What tells one version of the file from the next without reading it."""

    changed_ns: int
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """One version of the settings: the bytes, what they say, and what they mean."""

    content: bytes = field(repr=False)
    raw: Mapping[str, object] = field(repr=False)
    settings: Settings


class Document:
    """The settings file of one home. Its calls block: an event loop makes them in a thread."""

    def __init__(self, home: Home, *, now: Callable[[], datetime] = utc_now) -> None:
        self.path = home.settings_file
        self._backups = Backups(home.backups, now)

    def read(self) -> Loaded | None:
        """Return what is stored, or None without a file; raise InvalidSettings when it cannot be used."""
        content = self.content()
        return None if content is None else self.understand(content)

    def content(self) -> bytes | None:
        """The file's bytes, or None without a file."""
        with self._failures("read"):
            return _content_of(self.path)

    def stamp(self) -> Stamp | None:
        """The same as long as the file is; None when only reading can tell."""
        with self._failures("read"):
            try:
                found = self.path.stat()
            except FileNotFoundError:
                return None
        if time.time_ns() - found.st_ctime_ns < _TOO_YOUNG_NS:
            return None
        return Stamp(found.st_ctime_ns, found.st_size, found.st_ino)

    def understand(self, content: bytes) -> Loaded:
        """Return what the file's bytes mean; raise InvalidSettings with the newest version that can be used."""
        raw = self._decode(content)
        try:
            return Loaded(content, raw, parse(raw))
        except InvalidSettings as error:
            raise InvalidSettings(error.problems, file=self.path, backup=self._newest_good()) from None

    def update(self, patch: Mapping[str, object], *, without_file: Mapping[str, object] = NOTHING) -> Loaded:
        """Merge the patch into the file; see `edit`."""
        return self.edit(lambda _: patch, without_file=without_file)

    def edit(self, change: Change, *, without_file: Mapping[str, object] = NOTHING) -> Loaded:
        """Merge a change into what is stored at that moment and return the result; invalid ones change nothing.

        The change is made from what is stored and under the lock, so nothing that somebody else wrote is lost.
        """
        with self._failures("written"), self._locked() as target:
            stored = _content_of(target)
            before = without_file if stored is None else self._decode(stored)
            patch = change(before)
            check_depth(patch)
            content = encode(merge(before, patch))
            raw = decode(content)
            settings = parse(raw)
            if stored is not None and content == encode(before):
                return Loaded(stored, raw, settings)
            self._replace(target, stored, content)
            return Loaded(content, raw, settings)

    def create(self, raw: Mapping[str, object]) -> Loaded:
        """Write the first version, or return what is there already."""
        with self._failures("written"), self._locked() as target:
            stored = _content_of(target)
            if stored is not None:
                return self.understand(stored)
            content = encode(raw)
            loaded = Loaded(content, decode(content), parse(raw))
            self._replace(target, None, content)
            return loaded

    def remember(self, content: bytes) -> None:
        """Keep a version that somebody else wrote, so that there is a way back to it."""
        with self._failures("backed up"), self._locked():
            self._backups.keep(content)

    def make_private(self) -> None:
        """Let only the owner read what may hold secrets, where the file system allows it."""
        with contextlib.suppress(OSError):
            self.path.chmod(0o600)

    def _replace(self, target: Path, stored: bytes | None, content: bytes) -> None:
        # Whatever may fail for want of room or permission comes before the one step that counts.
        aside = write_aside(target, content)
        if stored is not None:
            self._backups.keep(stored)
        self._backups.keep(content)
        put_in_place(aside, target)

    def _decode(self, content: bytes) -> dict[str, object]:
        try:
            return decode(content)
        except Unreadable as error:
            raise UnreadableSettings(
                error.reason, self.path, line=error.line, column=error.column, backup=self._newest_good()
            ) from None

    def _newest_good(self) -> Path | None:
        with contextlib.suppress(OSError):
            return self._backups.newest_good(_is_good)
        return None

    @contextlib.contextmanager
    def _locked(self) -> Iterator[Path]:
        """Hold the lock and yield the file itself: a link to it stays a link."""
        try:
            target = self.path.resolve()
        except RuntimeError as error:
            raise SettingsFailed(f"{self.path} is a link that leads to itself. Remove it.") from error
        with locked(target):
            yield target

    @contextlib.contextmanager
    def _failures(self, done: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SettingsFailed(
                f"{self.path} cannot be {done}: {error}. See that its folder is there, is yours and has room."
            ) from error


def _content_of(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _is_good(content: bytes) -> bool:
    try:
        parse(decode(content))
    except (Unreadable, InvalidSettings):
        return False
    return True
