"""What is in a home's folder of backups: archives, what restores replaced, and copies made before upgrades."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tinyagi.backup.archive import open_archive
from tinyagi.backup.create import PREFIX, SUFFIX
from tinyagi.backup.errors import BackupError
from tinyagi.backup.manifest import Manifest
from tinyagi.backup.restore import BEFORE
from tinyagi.backup.swap import JOURNAL
from tinyagi.settings.home import Home

Kind = Literal["backup", "before-restore", "before-upgrade", "before-takeover"]

MEANINGS: Final = {
    "before-restore": "what a restore replaced",
    "before-upgrade": "the database before an upgrade",
    "before-takeover": "both homes before `tinyagi migrate`",
}


@dataclass(frozen=True, slots=True)
class Listed:
    path: Path
    kind: Kind
    created_at: int
    size: int
    manifest: Manifest | None = None
    """None for a damaged archive, and for what is no archive."""
    problem: str | None = None
    """Why the archive cannot be restored."""


def list_backups(home: Home) -> list[Listed]:
    """Newest first. An archive is opened, not read as a whole: only a restore sees that a byte in it is wrong."""
    if not home.backups.is_dir():
        return []
    found = [listed for path in home.backups.iterdir() if (listed := _listed(path)) is not None]
    return sorted(found, key=lambda one: (one.created_at, one.path.name), reverse=True)


def newest_archive(home: Home) -> Path | None:
    """The last archive by its name; it is not opened."""
    return max(home.backups.glob(f"{PREFIX}*{SUFFIX}"), default=None) if home.backups.is_dir() else None


def find_backup(given: str, *homes: Home) -> Path:
    """The file or folder that a person means: a path, or a name in the folder of backups of one of the homes."""
    places = [Path(given).expanduser(), *(home.backups / given for home in homes)]
    found = next((place for place in places if place.exists()), None)
    if found is None:
        raise BackupError(f"There is no backup {given}. `tinyagi backup list` shows those there are.")
    if found.suffix == ".db":
        raise BackupError(
            f"{found} is a copy of the database alone. To go back to it, stop TinyAGI, move tinyagi.db with its -wal "
            "and -shm files away, and copy this file to its place."
        )
    if found.is_dir() and not (found / JOURNAL).is_file():
        raise BackupError(f"{found} is a folder that no restore made. Name an archive.")
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


def _kind(path: Path) -> Kind | None:
    name = path.name
    if name.startswith("."):
        return None
    if path.is_dir():
        if name.startswith(BEFORE):
            return "before-restore"
        return "before-takeover" if name.startswith("migration-") else None
    if name.endswith(SUFFIX):
        return "backup"
    return "before-upgrade" if name.endswith(".db") else None


def _size(path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file() and not file.is_symlink())
