"""Which files of a home, its workspaces and its lake belong to a backup, and under which names."""

import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tinyagi.backup.manifest import ENTRIES, HOME, LAKE, WORKSPACES, stays_inside
from tinyagi.domain.ids import AgentId
from tinyagi.settings.home import Home
from tinyagi.settings.model import Settings
from tinyagi.settings.resolve import NotConfigured, resolve

# Spark's scratch, files of an unfinished write, locks and compiled code: each is made again when it is needed.
PASSING: Final = frozenset({"_spark", "_stage", "_checkpoints", ".writer.lock", "__pycache__"})


@dataclass(slots=True)
class Contents:
    """What was found, by name in the archive."""

    files: dict[str, Path] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)
    """With their permissions."""
    links: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    """Sentences for a person."""

    @property
    def size(self) -> int:
        """Bytes right now; files that are gone count nothing."""
        return sum(_size(path) for path in self.files.values())

    def add(self, name: str, path: Path) -> None:
        """Take the file, or the folder with all that is in it. The root itself may be a link."""
        try:
            real = path.resolve(strict=True)
        except FileNotFoundError:
            return
        if real.is_dir():
            self._add_folder(name, real)
        else:
            self._add_entry(name, real)

    def _add_folder(self, name: str, folder: Path) -> None:
        entries = sorted(path for path in folder.iterdir() if path.name not in PASSING)
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
                self.left_out.append(f"{path} is no file, folder or link.")
        except FileNotFoundError:
            # A daemon at work removes files, too.
            return
        except OSError as error:
            self.left_out.append(f"{path} cannot be read: {error.strerror}.")

    def _add_link(self, name: str, path: Path) -> None:
        target = str(path.readlink())
        if stays_inside(name, target):
            self.links[name] = target
        else:
            self.left_out.append(f"{path} is a link to {target}, which is outside of its folder.")


def of_home(home: Home) -> Contents:
    """Everything a home needs beside its database: small, and nowhere else."""
    found = Contents()
    for entry in ENTRIES:
        found.add(f"{HOME}/{entry}", home.path / entry)
    return found


def of_lake(home: Home) -> Contents:
    """To be asked for and copied under the lake's writer lock."""
    found = Contents()
    found.add(LAKE, home.lake)
    return found


def workspaces(settings: Settings, home: Home) -> tuple[dict[str, Path], list[str]]:
    """The folder of each agent that has one of its own, and sentences about those that are left out."""
    found: dict[str, Path] = {}
    left_out: list[str] = []
    for name in sorted(settings.agents):
        try:
            folder = resolve(settings, AgentId(name), home).workspace.resolve()
        except NotConfigured as error:
            left_out.append(f"The workspace of @{name} is unknown: {error}")
            continue
        if home.path.resolve().is_relative_to(folder):
            left_out.append(f"The workspace of @{name}, {folder}, holds the whole home.")
        elif folder.is_dir():
            found[name] = folder
    # An agent that works in another one's folder is in the archive with that folder.
    own = {
        name: folder
        for name, folder in found.items()
        if not any(
            folder.is_relative_to(other) and (folder != other or owner < name)
            for owner, other in found.items()
            if owner != name
        )
    }
    return own, left_out


def workspace_name(agent: str) -> str:
    return f"{WORKSPACES}/{agent}"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
