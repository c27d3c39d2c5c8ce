"""Reads, checks, edits and backs up the settings file. It is never half written and never overwritten when broken."""

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from tinyagi.settings.agent_setup import path_problems
from tinyagi.settings.errors import InvalidSettings, SettingsBusy, SettingsFailed, UnreadableSettings
from tinyagi.settings.home import Home
from tinyagi.settings.json_tree import JsonSyntaxError, check_depth, decode, encode
from tinyagi.settings.model import Settings
from tinyagi.settings.parse import parse_settings
from tinyagi.settings.patches import without_moved_keys
from tinyagi.settings.secrets import merge
from tinyagi.system.files import put_in_place, write_aside

LOCK_TIMEOUT: Final = timedelta(seconds=10)
LOCK_POLL: Final = timedelta(milliseconds=5)

NOTHING: Final[Mapping[str, object]] = MappingProxyType({})

SettingsChange = Callable[[Mapping[str, object]], Mapping[str, object]]
"""Computes a patch from the stored settings."""

MAX_BACKUPS: Final = 5

_TOO_YOUNG_NS: Final = 3_000_000_000
"""File system timestamps may be two seconds coarse, so two writes within that time look like one."""

_NAME: Final = re.compile(r"settings-(\d{8}T\d{6}\.\d{6})Z\.json")
_TIME: Final = "%Y%m%dT%H%M%S.%f"


class Stamp(NamedTuple):
    """Identifies one version of the file without reading it."""

    changed_ns: int
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """One version of the settings: the file's bytes, as JSON, and as types."""

    content: bytes = field(repr=False)
    raw: Mapping[str, object] = field(repr=False)
    settings: Settings


def utc_now() -> datetime:
    return datetime.now(UTC)


class SettingsFile:
    """The settings file of one home. Its calls block: call it from a thread, not from the event loop."""

    def __init__(self, home: Home, *, now: Callable[[], datetime] = utc_now) -> None:
        self.path = home.settings_file
        self._home = home
        self._backups = SettingsBackups(home.backups, now)

    def read(self) -> LoadedSettings | None:
        """Return the stored settings, or None without a file; raise InvalidSettings when they are not valid."""
        content = self.content()
        return None if content is None else self.parse_content(content)

    def content(self) -> bytes | None:
        """The file's bytes, or None without a file."""
        with self._failures("read"):
            return _content_of(self.path)

    def stamp(self) -> Stamp | None:
        """A stamp that changes with the file; None when only reading shows whether it changed."""
        with self._failures("read"):
            try:
                found = self.path.stat()
            except FileNotFoundError:
                return None
        if time.time_ns() - found.st_ctime_ns < _TOO_YOUNG_NS:
            return None
        return Stamp(found.st_ctime_ns, found.st_size, found.st_ino)

    def parse_content(self, content: bytes) -> LoadedSettings:
        """Parse the file's bytes; raise InvalidSettings that names the newest valid version."""
        raw = self._decode(content)
        try:
            return LoadedSettings(content, raw, parse_settings(raw))
        except InvalidSettings as error:
            raise InvalidSettings(error.problems, file=self.path, backup=self._newest_good()) from None

    def update(self, patch: Mapping[str, object], *, without_file: Mapping[str, object] = NOTHING) -> LoadedSettings:
        """Merge the patch into the file; see `edit`."""
        return self.edit(lambda _: patch, without_file=without_file)

    def edit(
        self, change: SettingsChange, *, without_file: Mapping[str, object] = NOTHING, checks_paths: bool = True
    ) -> LoadedSettings:
        """Merge a change into the stored settings and return the result; an invalid change writes nothing.

        The patch is computed from the stored settings under the lock, so concurrent edits are not lost.
        `checks_paths` refuses an edit that gives an agent a folder or file it must not use. Such a path that is already
        stored does not block other edits; the agent's runs report it.
        """
        with self._failures("written"), self._locked() as target:
            stored = _content_of(target)
            before = without_file if stored is None else self._decode(stored)
            patch = change(before)
            check_depth(patch)
            content = encode(without_moved_keys(before, patch, merge(before, patch)))
            raw = decode(content)
            settings = parse_settings(raw)
            if checks_paths:
                self._check_paths(before, settings)
            if stored is not None and content == encode(before):
                return LoadedSettings(stored, raw, settings)
            self._replace(target, stored, content)
            return LoadedSettings(content, raw, settings)

    def create(self, raw: Mapping[str, object]) -> LoadedSettings:
        """Write the first version, or return the existing one."""
        with self._failures("written"), self._locked() as target:
            stored = _content_of(target)
            if stored is not None:
                return self.parse_content(stored)
            content = encode(raw)
            loaded = LoadedSettings(content, decode(content), parse_settings(raw))
            self._replace(target, None, content)
            return loaded

    def keep_backup(self, content: bytes) -> None:
        """Keep a backup of a version that another program wrote."""
        with self._failures("backed up"), self._locked():
            self._backups.keep(content)

    def make_private(self) -> None:
        """Make the file readable by its owner only, because it may hold secrets; ignore file systems without modes."""
        with contextlib.suppress(OSError):
            self.path.chmod(0o600)

    def _check_paths(self, before: Mapping[str, object], settings: Settings) -> None:
        problems = path_problems(settings, self._home)
        if not problems:
            return
        with contextlib.suppress(InvalidSettings):
            known = path_problems(parse_settings(before), self._home)
            problems = [problem for problem in problems if problem not in known]
        if problems:
            raise InvalidSettings(problems)

    def _replace(self, target: Path, stored: bytes | None, content: bytes) -> None:
        # Every step that may fail for lack of space or permission comes before the replacement.
        aside = write_aside(target, content)
        if stored is not None:
            self._backups.keep(stored)
        self._backups.keep(content)
        put_in_place(aside, target)

    def _decode(self, content: bytes) -> dict[str, object]:
        try:
            return decode(content)
        except JsonSyntaxError as error:
            raise UnreadableSettings(
                error.reason, self.path, line=error.line, column=error.column, backup=self._newest_good()
            ) from None

    def _newest_good(self) -> Path | None:
        with contextlib.suppress(OSError):
            return self._backups.newest_good(_is_good)
        return None

    @contextlib.contextmanager
    def _locked(self) -> Iterator[Path]:
        """Hold the lock and yield the resolved file, so that a link to it stays a link."""
        try:
            target = self.path.resolve()
        except RuntimeError as error:
            raise SettingsFailed(f"{self.path} is a link that leads to itself. Remove it.") from error
        with locked(target):
            yield target

    @contextlib.contextmanager
    def _failures(self, action: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SettingsFailed(
                f"{self.path} cannot be {action}: {error}. Check that its folder exists, is yours and has space."
            ) from error


class SettingsBackups:
    """The last few versions of the settings file. Call it only under the file's lock."""

    def __init__(self, folder: Path, now: Callable[[], datetime] = utc_now) -> None:
        self._folder = folder
        self._now = now

    def keep(self, content: bytes) -> None:
        """Keep this version, unless it is already the newest one, and delete the oldest."""
        kept = self.newest_first()
        if kept and kept[0].read_bytes() == content:
            return
        self._folder.mkdir(mode=0o700, exist_ok=True)
        path = self._folder / f"settings-{self._time_after(kept):{_TIME}}Z.json"
        # One temporary name for all versions; see `write_aside`.
        put_in_place(write_aside(self._folder / "settings.json", content), path)
        for old in kept[MAX_BACKUPS - 1 :]:
            old.unlink(missing_ok=True)

    def newest_first(self) -> list[Path]:
        """The kept versions, newest first."""
        if not self._folder.is_dir():
            return []
        return sorted((path for path in self._folder.iterdir() if _NAME.fullmatch(path.name)), reverse=True)

    def newest_good(self, is_good: Callable[[bytes], bool]) -> Path | None:
        """The newest version that `is_good` accepts."""
        return next((path for path in self.newest_first() if is_good(path.read_bytes())), None)

    def _time_after(self, kept: list[Path]) -> datetime:
        """Now, or just after the newest version if the clock was set back."""
        now = self._now()
        found = _NAME.fullmatch(kept[0].name) if kept else None
        if found is None:
            return now
        newest = datetime.strptime(found[1], _TIME).replace(tzinfo=UTC)
        return max(now, newest + timedelta(microseconds=1))


@contextlib.contextmanager
def locked(file: Path, *, timeout: timedelta = LOCK_TIMEOUT) -> Iterator[None]:
    """Hold the lock that belongs to a file; raise SettingsBusy when another process does not release it in time.

    The kernel releases the lock when its holder ends. The lock file stays: removing it could give the next two writers
    two different locks.
    """
    path = file.with_name(f".{file.name}.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _acquire(descriptor, file, time.monotonic() + timeout.total_seconds())
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, file: Path, deadline: float) -> None:
    while True:
        try:
            # flock, not lockf: it belongs to this open file description, so threads exclude each other as well.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise SettingsBusy(
                    f"Another process keeps {file} locked. Nothing was written; try again, or stop that process."
                ) from None
            time.sleep(LOCK_POLL.total_seconds())
        else:
            return


def _content_of(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _is_good(content: bytes) -> bool:
    try:
        parse_settings(decode(content))
    except (JsonSyntaxError, InvalidSettings):
        return False
    return True
