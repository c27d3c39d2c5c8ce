"""The index of an agent's memory: names and summaries of the Markdown files below its `memory/`.

Agents write these files, so nothing in them is trusted: number, depth, size and content are bounded here.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from tinyagi.agents import workspace_files
from tinyagi.agents.workspace_files import read_head
from tinyagi.domain.texts import one_line

MAX_FILES: Final = 200
MAX_DEPTH: Final = 8
MAX_ENTRIES: Final = 5_000
"""Directory entries that a scan reads, memory files or not."""
MAX_NAME: Final = 80
MAX_SUMMARY: Final = 200

_MORE: Final = "- … and more: look into memory/ for the rest"


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    name: str
    summary: str
    folders: tuple[str, ...]
    """The folders from the memory folder down to the file."""
    path: Path


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """A memory file as the directory lists it; equal as long as the file is unchanged."""

    folders: tuple[str, ...]
    path: str
    changed_at_ns: int
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class MemoryScan:
    files: tuple[ScannedFile, ...]
    is_cut: bool
    """The folder has more files than the scan lists."""


def memory_index(folder: Path) -> str:
    """Return a bullet per memory, nested by folder and sorted, files before folders; empty without memories."""
    return index_of(scan(folder))


def memories(folder: Path) -> tuple[MemoryEntry, ...]:
    """Return the memories in the order of the index."""
    return tuple(map(_read, scan(folder).files))


def index_of(scanned: MemoryScan) -> str:
    """Return the index of the scanned files."""
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


def scan(folder: Path) -> MemoryScan:
    """List the Markdown files below the folder without reading them; skip links that lead out of it."""
    walk = _Walk(folder)
    files = tuple(islice(walk.files(str(folder), ()), MAX_FILES + 1))
    return MemoryScan(files[:MAX_FILES], walk.is_cut or len(files) > MAX_FILES)


class _Walk:
    """One walk through a memory folder within a budget of directory entries."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._budget = MAX_ENTRIES
        self.is_cut = False

    def files(self, folder: str, folders: tuple[str, ...]) -> Iterator[ScannedFile]:
        deeper: list[str] = []
        for entry in self._entries(folder):
            # Links to folders are not followed: they lead out, or in circles, or to folders that are listed anyway.
            if entry.is_dir(follow_symlinks=False):
                deeper.append(entry.name)
            elif entry.name.endswith(".md") and (found := self._scanned_file(entry, folders)) is not None:
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

    def _scanned_file(self, entry: os.DirEntry[str], folders: tuple[str, ...]) -> ScannedFile | None:
        try:
            status = entry.stat()
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode) or (entry.is_symlink() and not self._is_inside(entry.path)):
            return None
        return ScannedFile(folders, entry.path, status.st_ctime_ns, status.st_size, status.st_ino)

    def _is_inside(self, path: str) -> bool:
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self._root))


def _read(found: ScannedFile) -> MemoryEntry:
    path = Path(found.path)
    fields = workspace_files.front_matter(read_head(path))
    name = one_line(fields.get("name", ""), MAX_NAME) or one_line(path.stem, MAX_NAME) or "unnamed"
    return MemoryEntry(name, one_line(fields.get("summary", ""), MAX_SUMMARY), found.folders, path)
