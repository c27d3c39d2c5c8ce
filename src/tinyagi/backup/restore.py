"""Restores a home from an archive: everything is unpacked and checked beside it first, then it is swapped in.

To be called by the one process that works on the home, with its pid file locked.
"""

import os
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Final

from tinyagi.backup.archive import ArchiveReader, open_archive
from tinyagi.backup.create import Step
from tinyagi.backup.errors import ArchiveRefused, BackupError
from tinyagi.backup.manifest import ENTRIES, HOME, LAKE, Manifest
from tinyagi.backup.swap import JOURNAL, Journal, Move, finish
from tinyagi.domain.errors import StoreError
from tinyagi.domain.ids import AgentId
from tinyagi.pipeline.errors import LakeBroken
from tinyagi.pipeline.lock import writer_lock
from tinyagi.pipeline.manifest import read_manifest
from tinyagi.settings.document import Document
from tinyagi.settings.errors import SettingsError
from tinyagi.settings.home import Home
from tinyagi.settings.resolve import NotConfigured, resolve
from tinyagi.wiring import examine_store

BEFORE: Final = "before-restore-"
_BESIDE: Final = ("-wal", "-shm", "-journal")
"""Files of a database in use. One that is left behind would be read into the new database."""
_LASTING: Final = frozenset({"erasures.key"})
"""Kept when the archive has none: the lake cannot be read without it."""


@dataclass(frozen=True, slots=True)
class Restored:
    source: Path
    home: Home
    kept: Path | None
    """The folder of what was replaced; None when nothing was."""
    manifest: Manifest | None = None
    """None when a former restore was taken back."""
    notes: tuple[str, ...] = ()
    """Sentences that a person should read."""


def restore(source: Path, home: Home, *, now: int, step: Step = lambda *_: None) -> Restored:
    """Put the home into the state of the backup; raise BackupError or LakeBusy and change nothing."""
    earlier = finish(home)
    with ExitStack() as held:
        if home.lake.is_dir():
            held.enter_context(writer_lock(home.lake, "restore", "backup"))
        kept = _free(home, now)
        try:
            done = _take_back(source, home, kept) if source.is_dir() else _unpack(source, home, kept, step)
        except OSError as error:
            raise BackupError(f"Nothing was restored: {error}. {home.path} is as it was.") from error
    return replace(
        done,
        kept=kept if kept.is_dir() else None,
        notes=(*([] if earlier is None else [earlier]), *done.notes),
    )


def has_data(home: Home) -> bool:
    """Whether a restore would replace something."""
    return any(os.path.lexists(home.path / entry) for entry in (home.database.name, *ENTRIES))


def _unpack(source: Path, home: Home, kept: Path, step: Step) -> Restored:
    with open_archive(source) as archive:
        manifest = archive.manifest
        _check_room(manifest, home)
        stage = Home(home.path / ".restore.new")
        folders, notes = _workspaces(archive, home)
        stages = {agent: folder.with_name(f".{folder.name}.restore.new") for agent, folder in folders.items()}

        def place(name: str) -> Path:
            root, entry, *rest = name.split("/")
            if root == HOME:
                return stage.path.joinpath(entry, *rest)
            return stages.get(entry, stage.path / root / entry).joinpath(*rest)

        done = 0

        def advance(size: int) -> None:
            nonlocal done
            done += size
            step("unpacking", done, manifest.size)

        journal = Journal(str(source), kept, (stage.path, *stages.values()))
        for path in journal.staging:
            shutil.rmtree(path, ignore_errors=True)
        journal.write(home)
        try:
            archive.unpack(place, advance)
            _check_database(source, stage)
            moves = [
                *_moves(manifest, stage, home, kept, notes),
                *(Move(stages[agent], folder, _kept_beside(folder, kept)) for agent, folder in folders.items()),
            ]
            _check_places(moves)
            notes += [
                f"The workspace of @{agent} as it was is in {_kept_beside(folder, kept)}."
                for agent, folder in folders.items()
                if folder.exists()
            ]
            # The files first, then the journal that relies on them.
            os.sync()
            replace(journal, moves=tuple(moves)).write(home)
        finally:
            # Completes the restore once the moves are written down, and clears it away before.
            finish(home)
    return Restored(source, home, kept, manifest, tuple(notes))


def _moves(manifest: Manifest, stage: Home, home: Home, kept: Path, notes: list[str]) -> list[Move]:
    there = manifest.entries
    moves = [_database_part(home, kept, ending) for ending in _BESIDE]
    for entry in (home.database.name, *ENTRIES):
        if entry in there:
            moves.append(Move(stage.path / entry, home.path / entry, kept / entry))
        elif entry not in _LASTING:
            moves.append(Move(None, home.path / entry, kept / entry))
    if Path(LAKE).name in there:
        moves.append(Move(stage.lake, home.lake, kept / home.lake.name))
    elif _lake_through(home) > manifest.last_event:
        moves.append(Move(None, home.lake, kept / home.lake.name))
        notes.append(
            f"The lake was newer than the restored database, so it was moved to {kept / home.lake.name}. The next "
            "`tinyagi pipeline run` makes a new one from the database. To have the old one as well, restore a backup "
            "that was made with --lake."
        )
    return moves


def _take_back(source: Path, home: Home, kept: Path) -> Restored:
    """Undo a former restore: what it replaced takes its place again."""
    former = Journal.read(source / JOURNAL)
    moves = former.moves or ()
    if home.database.resolve() not in {move.place.resolve() for move in moves}:
        raise BackupError(f"{source} belongs to another home than {home.path}. Name that one with --to.")
    back = []
    for move in moves:
        new = move.kept if os.path.lexists(move.kept) else None
        inside = move.kept.is_relative_to(source)
        aside = kept / move.kept.relative_to(source) if inside else _kept_beside(move.place, kept)
        back.append(Move(new, move.place, aside))
    _check_places(back)
    Journal(str(source), kept, (source,), tuple(back)).write(home)
    finish(home)
    return Restored(source, home, kept)


def _workspaces(archive: ArchiveReader, home: Home) -> tuple[dict[str, Path], list[str]]:
    """Where the settings in the archive want the workspaces; sentences about those that go elsewhere."""
    manifest = archive.manifest
    content = archive.read(f"{HOME}/settings.json") if manifest.agents else None
    if content is None:
        return {}, []
    try:
        settings = Document(home).understand(content).settings
    except SettingsError as error:
        raise ArchiveRefused(
            f"The settings in the archive cannot be used, so its workspaces have no place: {error}"
        ) from error
    is_same_home = Path(manifest.home).resolve() == home.path.resolve()
    found: dict[str, Path] = {}
    notes = []
    for agent in manifest.agents:
        try:
            folder = resolve(settings, AgentId(agent), home).workspace.resolve()
        except NotConfigured as error:
            notes.append(f"The workspace of @{agent} was not restored: {error}")
            continue
        if not is_same_home and folder.exists() and not folder.is_relative_to(home.path.resolve()):
            own = home.path / "workspaces" / agent
            notes.append(
                f"{folder}, the workspace of @{agent}, is there and may be in use by {manifest.home}, so the one of "
                f"the backup is in {own}. To use it, set agents.{agent}.working_directory in {home.settings_file}."
            )
            folder = own
        folder.parent.mkdir(parents=True, exist_ok=True)
        found[agent] = folder
    return found, notes


def _check_room(manifest: Manifest, home: Home) -> None:
    free = shutil.disk_usage(home.path).free
    if free < manifest.size:
        raise BackupError(
            f"There is no room in {home.path}: the backup needs {manifest.size / 1e6:.0f} MB and {free / 1e6:.0f} MB "
            "are free. Nothing was changed; make room and try again."
        )


def _check_database(source: Path, stage: Home) -> None:
    try:
        health = examine_store(stage)
    except StoreError as error:
        raise ArchiveRefused(f"The database in {source} cannot be read ({error}). Nothing was changed.") from error
    if health.verdict != "ok" or health.version == 0:
        raise ArchiveRefused(f"The database in {source} is damaged ({health.verdict}). Nothing was changed.")
    if health.version > health.newest:
        raise ArchiveRefused(
            f"{source} was made by a newer TinyAGI (schema {health.version}, this version knows {health.newest}). "
            "Install that version, then restore it. Nothing was changed."
        )


def _check_places(moves: list[Move]) -> None:
    mounted = next((move.place for move in moves if os.path.ismount(move.place)), None)
    if mounted is not None:
        raise BackupError(f"{mounted} is a mount point and cannot be replaced. Unmount it, then restore.")


def _lake_through(home: Home) -> int:
    """The last event of the home's lake; 0 without a lake that can be read."""
    try:
        manifest = read_manifest(home.lake / "manifest.json")
    except (LakeBroken, OSError):
        return 0
    return 0 if manifest is None else manifest.through_id


def _database_part(home: Home, kept: Path, ending: str) -> Move:
    name = f"{home.database.name}{ending}"
    return Move(None, home.path / name, kept / name)


def _kept_beside(folder: Path, kept: Path) -> Path:
    """A workspace may be on another disk than the home, so it is kept where it is."""
    return folder.with_name(f"{folder.name}.{kept.name}")


def _free(home: Home, now: int) -> Path:
    """The folder for what is replaced; on the home's own disk, because files are moved there."""
    is_near = home.backups.is_dir() and home.backups.stat().st_dev == home.path.stat().st_dev
    folder = home.backups if is_near or not home.backups.exists() else home.path
    instants = (datetime.fromtimestamp(now // 1000 + later, UTC) for later in count())
    paths = (folder / f"{BEFORE}{instant:%Y%m%dT%H%M%SZ}" for instant in instants)
    return next(path for path in paths if not path.exists())
