"""Restores a home from an archive: unpacks and checks everything beside the home first, then swaps it in.

Only the process that holds the home's pid file lock may call this.
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
from tinyagi.backup.create import OnStep
from tinyagi.backup.manifest import ENTRIES, HOME, LAKE, ArchiveRefused, BackupError, BackupManifest
from tinyagi.backup.swap import JOURNAL, Journal, Move, finish
from tinyagi.domain.errors import StoreError
from tinyagi.domain.ids import AgentId
from tinyagi.domain.texts import size_text
from tinyagi.pipeline.errors import LakeBroken
from tinyagi.pipeline.lake import writer_lock
from tinyagi.pipeline.manifest import read_manifest
from tinyagi.settings.agent_setup import NotConfigured, agent_setup
from tinyagi.settings.errors import SettingsError
from tinyagi.settings.home import Home
from tinyagi.settings.settings_file import SettingsFile
from tinyagi.wiring import examine_store

REPLACED_PREFIX: Final = "before-restore-"
_DATABASE_SUFFIXES: Final = ("-wal", "-shm", "-journal")
"""Files that SQLite keeps beside an open database. It would replay a leftover one into the new database."""
_ALWAYS_KEPT: Final = frozenset({"erasures.key"})
"""Kept when the archive has none, because the lake cannot be read without it."""


@dataclass(frozen=True, slots=True)
class Restored:
    source: Path
    home: Home
    kept: Path | None
    """The folder with the replaced files; None when nothing was replaced."""
    manifest: BackupManifest | None = None
    """None when an earlier restore was undone."""
    notes: tuple[str, ...] = ()
    """Sentences for the person."""


def restore(source: Path, home: Home, *, now: int, step: OnStep = lambda *_: None) -> Restored:
    """Restore the home from the backup; on failure raise BackupError or LakeBusy and change nothing."""
    earlier = finish(home)
    with ExitStack() as held:
        if home.lake.is_dir():
            held.enter_context(writer_lock(home.lake, "restore", "backup"))
        kept = _free(home, now)
        try:
            done = _undo(source, home, kept) if source.is_dir() else _unpack(source, home, kept, step)
        except OSError as error:
            raise BackupError(f"Nothing was restored: {error}. {home.path} is unchanged.") from error
    return replace(
        done,
        kept=kept if kept.is_dir() else None,
        notes=(*([] if earlier is None else [earlier]), *done.notes),
    )


def has_data(home: Home) -> bool:
    """True when a restore would replace something."""
    return any(os.path.lexists(home.path / entry) for entry in (home.database.name, *ENTRIES))


def _unpack(source: Path, home: Home, kept: Path, step: OnStep) -> Restored:
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
                f"The previous workspace of @{agent} is in {_kept_beside(folder, kept)}."
                for agent, folder in folders.items()
                if folder.exists()
            ]
            # Flush the files before the journal that relies on them.
            os.sync()
            replace(journal, moves=tuple(moves)).write(home)
        finally:
            # Completes the restore if the journal has the moves, else removes the unpacked files.
            finish(home)
    return Restored(source, home, kept, manifest, tuple(notes))


def _moves(manifest: BackupManifest, stage: Home, home: Home, kept: Path, notes: list[str]) -> list[Move]:
    there = manifest.entries
    moves = [_database_part(home, kept, ending) for ending in _DATABASE_SUFFIXES]
    for entry in (home.database.name, *ENTRIES):
        if entry in there:
            moves.append(Move(stage.path / entry, home.path / entry, kept / entry))
        elif entry not in _ALWAYS_KEPT:
            moves.append(Move(None, home.path / entry, kept / entry))
    if Path(LAKE).name in there:
        moves.append(Move(stage.lake, home.lake, kept / home.lake.name))
    elif _lake_through(home) > manifest.last_event:
        moves.append(Move(None, home.lake, kept / home.lake.name))
        notes.append(
            f"The lake was newer than the restored database, so it was moved to {kept / home.lake.name}. The next "
            "`tinyagi pipeline run` builds a new one from the database. To restore the lake as well, use a backup made "
            "with --lake."
        )
    return moves


def _undo(source: Path, home: Home, kept: Path) -> Restored:
    """Undo an earlier restore by putting back the files it replaced."""
    moves = Journal.read(source / JOURNAL).moves or ()
    if home.database.resolve() not in {move.place.resolve() for move in moves}:
        raise BackupError(f"{source} does not belong to {home.path}. Name its home with --to.")
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
    """The folder of each workspace according to the archive's settings, and sentences about exceptions."""
    manifest = archive.manifest
    content = archive.read(f"{HOME}/settings.json") if manifest.agents else None
    if content is None:
        return {}, []
    try:
        settings = SettingsFile(home).parse_content(content).settings
    except SettingsError as error:
        raise ArchiveRefused(
            f"The settings in the archive are not valid, so its workspaces cannot be placed: {error}"
        ) from error
    is_same_home = Path(manifest.home).resolve() == home.path.resolve()
    found: dict[str, Path] = {}
    notes = []
    for agent in manifest.agents:
        try:
            folder = agent_setup(settings, AgentId(agent), home).workspace.resolve()
        except NotConfigured as error:
            notes.append(f"The workspace of @{agent} was not restored: {error}")
            continue
        if not is_same_home and folder.exists() and not folder.is_relative_to(home.path.resolve()):
            inside = home.path / "workspaces" / agent
            notes.append(
                f"{folder}, the workspace of @{agent}, exists and {manifest.home} may be using it, so the workspace "
                f"from the backup is in {inside}. To use it, set agents.{agent}.working_directory in "
                f"{home.settings_file}."
            )
            folder = inside
        folder.parent.mkdir(parents=True, exist_ok=True)
        found[agent] = folder
    return found, notes


def _check_room(manifest: BackupManifest, home: Home) -> None:
    free = shutil.disk_usage(home.path).free
    if free < manifest.size:
        raise BackupError(
            f"There is no room in {home.path}: the backup needs {size_text(manifest.size)} and {size_text(free)} "
            "are free. Nothing was changed; free some space and try again."
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
    """The last event of the home's lake; 0 without a readable lake."""
    try:
        manifest = read_manifest(home.lake / "manifest.json")
    except (LakeBroken, OSError):
        return 0
    return 0 if manifest is None else manifest.through_id


def _database_part(home: Home, kept: Path, ending: str) -> Move:
    name = f"{home.database.name}{ending}"
    return Move(None, home.path / name, kept / name)


def _kept_beside(folder: Path, kept: Path) -> Path:
    """Where to keep the previous workspace: beside it, because it may be on another disk than the home."""
    return folder.with_name(f"{folder.name}.{kept.name}")


def _free(home: Home, now: int) -> Path:
    """A new folder for the replaced files, on the home's own disk so that they can be renamed into it."""
    is_near = home.backups.is_dir() and home.backups.stat().st_dev == home.path.stat().st_dev
    folder = home.backups if is_near or not home.backups.exists() else home.path
    instants = (datetime.fromtimestamp(now // 1000 + later, UTC) for later in count())
    paths = (folder / f"{REPLACED_PREFIX}{instant:%Y%m%dT%H%M%SZ}" for instant in instants)
    return next(path for path in paths if not path.exists())
