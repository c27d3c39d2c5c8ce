"""What an agent remembers, as a list to choose from: names and summaries of the Markdown files below its `memory/`.

The files are the agent's own, so their number, depth, size and content are bounded here, not trusted.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from tinyagi.agents import front_matter
from tinyagi.agents.texts import read_head
from tinyagi.domain.texts import one_line

MAX_FILES: Final = 200
MAX_DEPTH: Final = 8
MAX_ENTRIES: Final = 5_000
"""How many directory entries are looked at, memory or not."""
MAX_NAME: Final = 80
MAX_SUMMARY: Final = 200

_MORE: Final = "- … and more: look into memory/ for the rest"


@dataclass(frozen=True, slots=True)
class Memory:
    name: str
    summary: str
    folders: tuple[str, ...]
    """From the memory folder down to the file."""
    path: Path


@dataclass(frozen=True, slots=True)
class Found:
    """A file of the memory as the directory shows it; equal while nobody changed the file."""

    folders: tuple[str, ...]
    path: str
    changed_at_ns: int
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class Scan:
    files: tuple[Found, ...]
    is_cut: bool
    """There is more than is looked at."""


def memory_index(folder: Path) -> str:
    """Return a bullet per memory, nested by folder and sorted, files before folders; nothing when there is none."""
    return index_of(scan(folder))


def memories(folder: Path) -> tuple[Memory, ...]:
    """Return the memories in the order of the index."""
    return tuple(map(_read, scan(folder).files))


def index_of(scanned: Scan) -> str:
    """Return the index of what a scan found."""
    lines: list[str] = []
    open_folders: tuple[str, ...] = ()
    for memory in map(_read, scanned.files):
        lines += (
            f"{'  ' * depth}- {one_line(name, MAX_NAME)}/"
            for depth, name in enumerate(memory.folders)
            if memory.folders[: depth + 1] != open_folders[: depth + 1]
        )
        open_folders = memory.folders
        summary = f" — {memory.summary}" if memory.summary else ""
        lines.append(f"{'  ' * len(memory.folders)}- **{memory.name}**{summary}")
    if scanned.is_cut:
        lines.append(_MORE)
    return "\n".join(lines)


def scan(folder: Path) -> Scan:
    """List the Markdown files below the folder without reading them; links that lead out of it are left out."""
    walk = _Walk(folder)
    files = tuple(islice(walk.files(str(folder), ()), MAX_FILES + 1))
    return Scan(files[:MAX_FILES], walk.is_cut or len(files) > MAX_FILES)


class _Walk:
    """One walk through a memory folder, with what is left of its budget."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._budget = MAX_ENTRIES
        self.is_cut = False

    def files(self, folder: str, folders: tuple[str, ...]) -> Iterator[Found]:
        deeper: list[str] = []
        for entry in self._entries(folder):
            # A link to a folder is not followed: it leads out, or in circles, or to what is listed anyway.
            if entry.is_dir(follow_symlinks=False):
                deeper.append(entry.name)
            elif entry.name.endswith(".md") and (found := self._found(entry, folders)) is not None:
                yield found
        if len(folders) >= MAX_DEPTH:
            self.is_cut = self.is_cut or bool(deeper)
            return
        for name in deeper:
            yield from self.files(os.path.join(folder, name), (*folders, name))  # noqa: PTH118 - on every run's path

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                seen = list(islice(entries, self._budget))
                self.is_cut = self.is_cut or next(entries, None) is not None
        except OSError:
            return []
        self._budget -= len(seen)
        return sorted((entry for entry in seen if not entry.name.startswith(".")), key=lambda entry: entry.name)

    def _found(self, entry: os.DirEntry[str], folders: tuple[str, ...]) -> Found | None:
        try:
            status = entry.stat()
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode) or (entry.is_symlink() and not self._is_inside(entry.path)):
            return None
        return Found(folders, entry.path, status.st_ctime_ns, status.st_size, status.st_ino)

    def _is_inside(self, path: str) -> bool:
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self._root))


def _read(found: Found) -> Memory:
    path = Path(found.path)
    said = front_matter.parse(read_head(path))
    name = one_line(said.get("name", ""), MAX_NAME) or one_line(path.stem, MAX_NAME) or "unnamed"
    return Memory(name, one_line(said.get("summary", ""), MAX_SUMMARY), found.folders, path)
