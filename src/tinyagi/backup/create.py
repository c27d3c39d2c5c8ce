"""Makes a backup, even while a daemon runs: the home, and on request its agents' workspaces and the lake.

The database is copied by SQLite, the lake under its writer lock.
"""

import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import IO, Final

from tinyagi.backup.archive import ArchiveWriter
from tinyagi.backup.manifest import DATABASE, ENTRIES, HOME, LAKE, WORKSPACES, BackupError, BackupManifest, stays_inside
from tinyagi.domain.errors import NotFound
from tinyagi.domain.ids import AgentId
from tinyagi.domain.texts import size_text
from tinyagi.pipeline.errors import LakeBusy
from tinyagi.pipeline.lake import writer_lock
from tinyagi.settings.agent_setup import NotConfigured, agent_setup
from tinyagi.settings.home import PRIVATE, Home
from tinyagi.settings.model import Settings
from tinyagi.settings.settings_file import SettingsFile, locked
from tinyagi.store.health import StoreHealth
from tinyagi.system.files import put_in_place
from tinyagi.wiring import copy_store, examine_store

PREFIX: Final = "tinyagi-"
SUFFIX: Final = ".zip"
PATIENCE: Final = timedelta(minutes=2)
"""How long a backup with the lake waits for the pipeline to finish."""
_LOCK_POLL: Final = timedelta(milliseconds=200)

OnStep = Callable[[str, int, int], None]
"""Called with the name of the step, the amount done and the total."""

# Spark's scratch files, unfinished writes, locks and compiled code: all are made again when needed.
TEMPORARY: Final = frozenset({"_spark", "_stage", "_checkpoints", ".writer.lock", "__pycache__"})


@dataclass(frozen=True, slots=True)
class Created:
    path: Path
    manifest: BackupManifest
    left_out: tuple[str, ...]
    """One sentence for each thing that the archive lacks."""

    @property
    def size(self) -> int:
        return self.path.stat().st_size


def create(
    home: Home,
    *,
    to: Path | None = None,
    with_workspaces: bool = False,
    with_lake: bool = False,
    now: int,
    step: OnStep = lambda *_: None,
    patience: timedelta = PATIENCE,
) -> Created:
    """Write one archive; on failure raise BackupError or LakeBusy and leave no files behind."""
    if not home.database.is_file():
        raise NotFound(f"There is no database in {home.path} yet, so there is nothing to back up.")
    folder = home.backups if to is None else to if to.is_dir() else to.parent
    target = None if to is None or to.is_dir() else to
    if target is not None and os.path.lexists(target):
        raise BackupError(f"{target} already exists. Name another file, or a folder.")
    try:
        home.backups.mkdir(mode=PRIVATE, exist_ok=True)
        _check_room(home, folder)
        # The lock is in the home: the target folder may be a share without locks, or hold backups of many homes.
        with locked(home.backups / "backup"), _aside(folder / f".backup-{home.home_id}.new") as aside:
            manifest, left_out = _write(home, aside, with_workspaces, with_lake, now, step, patience)
            path = _reserve([target] if target is not None else _names(folder, now))
            put_in_place(aside / "archive", path)
    except OSError as error:
        raise BackupError(
            f"The backup failed: {error.strerror or error} ({error.filename or folder}). No files were left behind. "
            "Check that the folder exists, is yours and has space, or name another one with --to."
        ) from error
    return Created(path, manifest, tuple(left_out))


def _write(
    home: Home, aside: Path, with_workspaces: bool, with_lake: bool, now: int, step: OnStep, patience: timedelta
) -> tuple[BackupManifest, list[str]]:
    stage = Home(aside)
    with ExitStack() as held, _new_file(aside / "archive") as file:
        lake = Contents()
        if with_lake and home.lake.is_dir():
            # Hold the lock while the database is copied, too. Otherwise the pipeline could move events into the lake,
            # the store could prune them, and neither copy would have them.
            held.enter_context(_quiet_lake(home, step, patience))
            lake = of_lake(home)
        copy_store(home, stage.database, lambda done, total: step("database", done, total))
        health = _checked(stage)
        # After the database: attachments are written before their message, so none is missing.
        parts = [of_home(home), *([_of_workspaces(home)] if with_workspaces else [])]
        total, done = health.size + lake.size + sum(part.size for part in parts), 0

        def advance(size: int) -> None:
            nonlocal done
            done += size
            step("archive", done, max(done, total))

        with ArchiveWriter(file, advance) as archive:
            archive.add_all(lake.files)
            held.close()
            archive.add(DATABASE, stage.database)
            for part in parts:
                archive.add_all(part.files)
            parts.append(lake)
            manifest = BackupManifest(
                version=version("tinyagi"),
                schema=health.version,
                last_event=health.last_event,
                created_at=now,
                home=str(home.path),
                files=tuple(archive.files),
                folders={name: mode for part in parts for name, mode in part.folders.items()},
                links={name: target for part in parts for name, target in part.links.items()},
            )
            archive.finish(manifest)
        file.flush()
        os.fsync(file.fileno())
    return manifest, [*archive.left_out, *(sentence for part in parts for sentence in part.left_out)]


def _checked(stage: Home) -> StoreHealth:
    health = examine_store(stage)
    if health.verdict != "ok":
        raise BackupError(
            f"The backup failed: the database is damaged ({health.verdict}). `tinyagi doctor` says what to do."
        )
    return health


@dataclass(slots=True)
class Contents:
    """Files, folders and links, by their names in the archive."""

    files: dict[str, Path] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)
    """With their permissions."""
    links: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    """One sentence for each entry that is left out."""

    @property
    def size(self) -> int:
        """Bytes at this moment; missing files count as zero."""
        return sum(_size(path) for path in self.files.values())

    def add(self, name: str, path: Path) -> None:
        """Add the file, or the folder with its contents. The path itself may be a link."""
        try:
            real = path.resolve(strict=True)
        except FileNotFoundError:
            return
        if real.is_dir():
            self._add_folder(name, real)
        else:
            self._add_entry(name, real)

    def _add_folder(self, name: str, folder: Path) -> None:
        entries = sorted(path for path in folder.iterdir() if path.name not in TEMPORARY)
        self.folders[name] = stat.S_IMODE(folder.stat().st_mode) & 0o777
        for entry in entries:
            self._add_entry(f"{name}/{entry.name}", entry)

    def _add_entry(self, name: str, path: Path) -> None:
        try:
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                self._add_link(name, path)
            elif stat.S_ISDIR(mode):
                self._add_folder(name, path)
            elif stat.S_ISREG(mode):
                self.files[name] = path
            else:
                self.left_out.append(f"{path} is not a file, a folder or a link.")
        except FileNotFoundError:
            # A running daemon also removes files.
            return
        except OSError as error:
            self.left_out.append(f"{path} cannot be read: {error.strerror}.")

    def _add_link(self, name: str, path: Path) -> None:
        target = str(path.readlink())
        if stays_inside(name, target):
            self.links[name] = target
        else:
            self.left_out.append(f"{path} is a link to {target}, which is outside its folder.")


def _of_workspaces(home: Home) -> Contents:
    loaded = SettingsFile(home).read()
    found = Contents()
    if loaded is not None:
        folders, left_out = workspaces(loaded.settings, home)
        found.left_out += left_out
        for agent, folder in folders.items():
            found.add(workspace_name(agent), folder)
    return found


@contextmanager
def _quiet_lake(home: Home, step: OnStep, patience: timedelta) -> Iterator[None]:
    """Hold the lake's writer lock, after waiting for a running pipeline."""
    deadline = time.monotonic() + patience.total_seconds()
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(writer_lock(home.lake, "create", "backup"))
                break
            except LakeBusy:
                if time.monotonic() >= deadline:
                    raise
                step("waiting for the pipeline", 0, 0)
                time.sleep(_LOCK_POLL.total_seconds())
        yield


@contextmanager
def _aside(folder: Path) -> Iterator[Path]:
    """A private temporary folder, removed at the end in every case."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=PRIVATE)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_room(home: Home, folder: Path) -> None:
    """The copy of the database is not compressed, so at least its size is needed."""
    needed, free = home.database.stat().st_size, shutil.disk_usage(folder).free
    if free < needed:
        raise BackupError(
            f"There is no room for a backup in {folder}: it needs {size_text(needed)}, and {size_text(free)} are "
            "free. Free some space, or name another folder with --to."
        )


def _names(folder: Path, now: int) -> Iterator[Path]:
    """Names that sort by time."""
    instants = (datetime.fromtimestamp(now // 1000 + later, UTC) for later in count())
    return (folder / f"{PREFIX}{instant:%Y%m%dT%H%M%SZ}{SUFFIX}" for instant in instants)


def _reserve(names: Iterable[Path]) -> Path:
    """Create the first free name as an empty file, so that no other backup is overwritten."""
    for path in names:
        try:
            _new_file(path).close()
        except FileExistsError:
            continue
        return path
    raise BackupError("A file of that name was created meanwhile. Name another one.")


def _new_file(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")


def of_home(home: Home) -> Contents:
    """Everything a home needs besides its database and its lake."""
    found = Contents()
    for entry in ENTRIES:
        found.add(f"{HOME}/{entry}", home.path / entry)
    return found


def of_lake(home: Home) -> Contents:
    """The lake's files. List and copy them under the lake's writer lock."""
    found = Contents()
    found.add(LAKE, home.lake)
    return found


def workspaces(settings: Settings, home: Home) -> tuple[dict[str, Path], list[str]]:
    """The folder of each agent that has its own, and sentences about those that are left out."""
    found: dict[str, Path] = {}
    left_out: list[str] = []
    for name in sorted(settings.agents):
        try:
            folder = agent_setup(settings, AgentId(name), home).workspace.resolve()
        except NotConfigured as error:
            left_out.append(f"The workspace of @{name} is unknown: {error}")
            continue
        if home.path.resolve().is_relative_to(folder):
            left_out.append(f"The workspace of @{name}, {folder}, contains the whole home.")
        elif folder.is_dir():
            found[name] = folder
    # A workspace inside another agent's folder is archived with that folder.
    separate = {
        name: folder
        for name, folder in found.items()
        if not any(
            folder.is_relative_to(other) and (folder != other or owner < name)
            for owner, other in found.items()
            if owner != name
        )
    }
    return separate, left_out


def workspace_name(agent: str) -> str:
    return f"{WORKSPACES}/{agent}"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
