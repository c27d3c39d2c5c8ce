"""Makes a backup, also while a daemon works: the database through SQLite, the lake under its writer lock."""

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import IO, Final

from tinyagi.backup.archive import ArchiveWriter
from tinyagi.backup.contents import Contents, of_home, of_lake, workspace_name, workspaces
from tinyagi.backup.errors import BackupError
from tinyagi.backup.manifest import DATABASE, Manifest
from tinyagi.domain.errors import NotFound
from tinyagi.pipeline.errors import LakeBusy
from tinyagi.pipeline.lock import writer_lock
from tinyagi.settings.document import Document
from tinyagi.settings.home import PRIVATE, Home
from tinyagi.settings.lock import locked
from tinyagi.store.health import StoreHealth
from tinyagi.system.files import put_in_place
from tinyagi.wiring import copy_store, examine_store

PREFIX: Final = "tinyagi-"
SUFFIX: Final = ".zip"
PATIENCE: Final = timedelta(minutes=2)
"""How long a backup with the lake waits for a run of the pipeline."""
_LOOK: Final = timedelta(milliseconds=200)

Step = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True, slots=True)
class Created:
    path: Path
    manifest: Manifest
    left_out: tuple[str, ...]
    """Sentences about what the archive lacks."""

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
    step: Step = lambda *_: None,
    patience: timedelta = PATIENCE,
) -> Created:
    """Write one archive and return where it is; raise BackupError or LakeBusy and leave nothing behind."""
    if not home.database.is_file():
        raise NotFound(f"There is no database in {home.path} yet, so there is nothing to back up.")
    folder = home.backups if to is None else to if to.is_dir() else to.parent
    target = None if to is None or to.is_dir() else to
    if target is not None and os.path.lexists(target):
        raise BackupError(f"{target} is there already. Name another file, or a folder.")
    try:
        home.backups.mkdir(mode=PRIVATE, exist_ok=True)
        _check_room(home, folder)
        # The lock is in the home: the other folder may be on a share that has no locks, or take backups of many homes.
        with locked(home.backups / "backup"), _aside(folder / f".backup-{home.home_id}.new") as aside:
            manifest, left_out = _write(home, aside, with_workspaces, with_lake, now, step, patience)
            path = _reserve([target] if target is not None else _names(folder, now))
            put_in_place(aside / "archive", path)
    except OSError as error:
        raise BackupError(
            f"There is no backup: {error.strerror or error} ({error.filename or folder}). Nothing is left behind. See "
            "that the folder is there, is yours and has room, or name another one with --to."
        ) from error
    return Created(path, manifest, tuple(left_out))


def _write(
    home: Home, aside: Path, with_workspaces: bool, with_lake: bool, now: int, step: Step, patience: timedelta
) -> tuple[Manifest, list[str]]:
    stage = Home(aside)
    with ExitStack() as held, _new_file(aside / "archive") as file:
        lake = Contents()
        if with_lake and home.lake.is_dir():
            # Until the database is copied: the pipeline takes events into the lake, and then they may be pruned.
            held.enter_context(_quiet_lake(home, step, patience))
            lake = of_lake(home)
        copy_store(home, stage.database, lambda done, total: step("database", done, total))
        health = _checked(stage)
        # After the database: a message is stored after its attachments.
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
            manifest = Manifest(
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
            f"There is no backup: the database is damaged ({health.verdict}). `tinyagi doctor` says what to do."
        )
    return health


def _of_workspaces(home: Home) -> Contents:
    loaded = Document(home).read()
    found = Contents()
    if loaded is not None:
        folders, left_out = workspaces(loaded.settings, home)
        found.left_out += left_out
        for agent, folder in folders.items():
            found.add(workspace_name(agent), folder)
    return found


@contextmanager
def _quiet_lake(home: Home, step: Step, patience: timedelta) -> Iterator[None]:
    """Hold the lake's writer lock; a run of the pipeline is waited for."""
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
                time.sleep(_LOOK.total_seconds())
        yield


@contextmanager
def _aside(folder: Path) -> Iterator[Path]:
    """A private folder to work in; whatever happens, it is gone afterwards."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=PRIVATE)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_room(home: Home, folder: Path) -> None:
    """The copy of the database is not compressed, so this much is certainly needed."""
    needed, free = home.database.stat().st_size, shutil.disk_usage(folder).free
    if free < needed:
        raise BackupError(
            f"There is no room for a backup in {folder}: {needed / 1e6:.0f} MB are needed and {free / 1e6:.0f} MB are "
            "free. Make room, or name another place with --to."
        )


def _names(folder: Path, now: int) -> Iterator[Path]:
    """Names that sort by time."""
    instants = (datetime.fromtimestamp(now // 1000 + later, UTC) for later in count())
    return (folder / f"{PREFIX}{instant:%Y%m%dT%H%M%SZ}{SUFFIX}" for instant in instants)


def _reserve(names: Iterable[Path]) -> Path:
    """Take the first name that is free, so that no other backup is overwritten."""
    for path in names:
        try:
            _new_file(path).close()
        except FileExistsError:
            continue
        return path
    raise BackupError("A file of that name was made meanwhile. Name another one.")


def _new_file(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")
