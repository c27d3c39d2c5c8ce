"""Lists a home's folder of backups: archives, files that restores replaced, and copies from before upgrades."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tinyagi.backup.archive import open_archive
from tinyagi.backup.create import PREFIX, SUFFIX
from tinyagi.backup.manifest import BackupError, BackupManifest
from tinyagi.backup.restore import REPLACED_PREFIX
from tinyagi.backup.swap import JOURNAL
from tinyagi.settings.home import Home

BackupKind = Literal["backup", "before-restore", "before-upgrade", "before-takeover"]

MEANINGS: Final = {
    "before-restore": "files that a restore replaced",
    "before-upgrade": "the database before an upgrade",
    "before-takeover": "both homes before `tinyagi migrate`",
}


@dataclass(frozen=True, slots=True)
class Listed:
    path: Path
    kind: BackupKind
    created_at: int
    size: int
    manifest: BackupManifest | None = None
    """None for a damaged archive, and for other kinds."""
    problem: str | None = None
    """Why the archive cannot be restored."""


def list_backups(home: Home) -> list[Listed]:
    """The backups, newest first. Archives are opened but not read; only a restore detects a wrong byte."""
    if not home.backups.is_dir():
        return []
    found = [listed for path in home.backups.iterdir() if (listed := _listed(path)) is not None]
    return sorted(found, key=lambda one: (one.created_at, one.path.name), reverse=True)


def newest_archive(home: Home) -> Path | None:
    """The newest archive by name, without opening it."""
    return max(home.backups.glob(f"{PREFIX}*{SUFFIX}"), default=None) if home.backups.is_dir() else None


def find_backup(name: str, *homes: Home) -> Path:
    """The backup at this path, or with this name in one of the homes' folders of backups."""
    places = [Path(name).expanduser(), *(home.backups / name for home in homes)]
    found = next((place for place in places if place.exists()), None)
    if found is None:
        raise BackupError(f"There is no backup {name}. `tinyagi backup list` lists the backups.")
    if found.suffix == ".db":
        raise BackupError(
            f"{found} is a copy of the database only. To go back to it, stop TinyAGI, move tinyagi.db and its -wal "
            "and -shm files away, and copy this file there as tinyagi.db."
        )
    if found.is_dir() and not (found / JOURNAL).is_file():
        raise BackupError(f"{found} is not a folder from a restore. Name an archive.")
    return found.absolute()


def _listed(path: Path) -> Listed | None:
    kind = _kind(path)
    if kind is None:
        return None
    changed, size = int(path.stat().st_mtime * 1000), _size(path)
    if kind != "backup":
        return Listed(path, kind, changed, size)
    try:
        with open_archive(path) as archive:
            manifest = archive.manifest
    except BackupError as error:
        return Listed(path, kind, changed, size, problem=str(error))
    return Listed(path, kind, manifest.created_at, size, manifest)


def _kind(path: Path) -> BackupKind | None:
    name = path.name
    if name.startswith("."):
        return None
    if path.is_dir():
        if name.startswith(REPLACED_PREFIX):
            return "before-restore"
        return "before-takeover" if name.startswith("migration-") else None
    if name.endswith(SUFFIX):
        return "backup"
    return "before-upgrade" if name.endswith(".db") else None


def _size(path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file() and not file.is_symlink())
