"""The manifest: an archive's list of contents. It is untrusted, so it is checked before anything is unpacked."""

import json
import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from tinyagi.domain.errors import TinyAGIError
from tinyagi.domain.ids import is_valid_id

FORMAT: Final = 1
KIND: Final = "tinyagi backup"
HOME: Final = "home"
WORKSPACES: Final = "workspaces"
DATABASE: Final = "home/tinyagi.db"
LAKE: Final = "home/lake"
# Entries of a home that a backup holds, besides the database and the lake.
ENTRIES: Final = (
    "settings.json",
    "service.env",
    "erasures.key",
    "migrated.json",
    "files",
    "channels",
    "chats",
    "plugins",
)


@dataclass(frozen=True, slots=True)
class StoredFile:
    name: str
    size: int
    sha256: str
    mode: int
    """Permissions only."""
    modified: int
    """Milliseconds."""


@dataclass(frozen=True, slots=True)
class BackupManifest:
    version: str
    """The version of TinyAGI that made the archive."""
    schema: int
    last_event: int
    created_at: int
    home: str
    """The path of the home."""
    files: tuple[StoredFile, ...]
    folders: Mapping[str, int]
    """Permissions by name."""
    links: Mapping[str, str]
    """Symbolic links by name; every target is relative and stays below the same root."""

    @property
    def size(self) -> int:
        """Unpacked bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def names(self) -> list[str]:
        return [*(file.name for file in self.files), *self.folders, *self.links]

    @property
    def agents(self) -> list[str]:
        """Agents whose workspaces the archive holds."""
        parts = (PurePosixPath(name).parts for name in self.names)
        return sorted({part[1] for part in parts if part[0] == WORKSPACES})

    @property
    def entries(self) -> list[str]:
        """Entries of the home that the archive holds, including the database."""
        parts = (PurePosixPath(name).parts for name in self.names)
        return sorted({part[1] for part in parts if part[0] == HOME})

    @property
    def holds(self) -> list[str]:
        """What a restore brings back, in words."""
        optional = {"workspaces": bool(self.agents), "lake": PurePosixPath(LAKE).name in self.entries}
        return ["home", *(name for name, is_there in optional.items() if is_there)]


def encode_manifest(manifest: BackupManifest) -> bytes:
    return json.dumps({"kind": KIND, "format": FORMAT, **asdict(manifest)}, indent=1).encode()


def decode_manifest(content: bytes, archive: str) -> BackupManifest:
    """Parse the manifest; raise ArchiveRefused unless every name in it is safe to unpack."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ArchiveRefused(f"{archive} is not a TinyAGI backup: its list of contents cannot be read.") from error
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise ArchiveRefused(f"{archive} is not a TinyAGI backup: its list of contents was written by another program.")
    if found.get("format") != FORMAT:
        raise ArchiveRefused(
            f"{archive} has format {found.get('format')!r}, and this version reads format {FORMAT}. "
            "Restore it with the version of TinyAGI that made it."
        )
    try:
        manifest = _parse(found)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ArchiveRefused(f"{archive} is damaged: its list of contents is not complete ({error!r}).") from error
    problem = _problem(manifest)
    if problem:
        raise ArchiveRefused(f"{archive} is refused: {problem}. No TinyAGI backup looks like this.")
    return manifest


def _parse(found: Mapping[str, Any]) -> BackupManifest:
    files = tuple(
        StoredFile(str(one["name"]), int(one["size"]), str(one["sha256"]), int(one["mode"]), int(one["modified"]))
        for one in found["files"]
    )
    return BackupManifest(
        version=str(found["version"]),
        schema=int(found["schema"]),
        last_event=int(found["last_event"]),
        created_at=int(found["created_at"]),
        home=str(found["home"]),
        files=files,
        folders={str(name): int(mode) for name, mode in found["folders"].items()},
        links={str(name): str(target) for name, target in found["links"].items()},
    )


def _problem(manifest: BackupManifest) -> str | None:
    names = manifest.names
    if len(set(names)) != len(names):
        return "two entries have the same name"
    if DATABASE not in {file.name for file in manifest.files}:
        return "there is no database in it"
    unsafe = next((name for name in names if not _is_safe(name)), None)
    if unsafe is not None:
        return f"{unsafe!r} is not an entry of a backup"
    taken = {*(file.name for file in manifest.files), *manifest.links}
    misplaced = next((name for name in names if any(parent in taken for parent in _parents(name))), None)
    if misplaced is not None:
        # A file below a link would be written elsewhere.
        return f"{misplaced!r} is below an entry that is not a folder"
    escaping = next((name for name, target in manifest.links.items() if not stays_inside(name, target)), None)
    if escaping is not None:
        return f"the link {escaping!r} points outside its folder"
    modes = {**manifest.folders, **{file.name: file.mode for file in manifest.files}}
    wrong_mode = next((name for name, mode in modes.items() if mode & ~0o777), None)
    return None if wrong_mode is None else f"{wrong_mode!r} has permissions that no backup stores"


def _is_safe(name: str) -> bool:
    parts = name.split("/")
    if len(parts) < 2 or any(part in {"", ".", ".."} or "\0" in part or "\\" in part for part in parts):
        return False
    if parts[0] == WORKSPACES:
        return is_valid_id(parts[1])
    return parts[0] == HOME and (name == DATABASE or parts[1] in ENTRIES or parts[1] == "lake")


def _parents(name: str) -> Iterable[str]:
    parts = name.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts)))


def stays_inside(name: str, target: str) -> bool:
    """Whether a link of this name with this target stays below `home/<entry>` or `workspaces/<agent>`."""
    if not target or target.startswith("/") or "\0" in target:
        return False
    root = "/".join(name.split("/")[:2])
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), target)).startswith(f"{root}/")


class BackupError(TinyAGIError):
    """The backup could not be made or restored; existing files are unchanged."""


class ArchiveRefused(BackupError):
    """The file is not a backup, is damaged, or is not safe to unpack."""
