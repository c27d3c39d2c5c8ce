"""A disk that keeps only what was synced: it records every fsync, and copies a folder as a power cut would leave it."""

import json
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import pytest

LOSSES: Final = ("empty", "half", "nameless")
"""States of a file that was not synced: without content, with half of it, or without its name."""

_UNTOUCHED: Final = ("_spark", ".writer.lock", "_checkpoints")
"""Temporary names that are not copied."""


@dataclass(frozen=True)
class Sync:
    path: Path
    inode: int
    size: int
    changed: int
    names: dict[str, int] | None
    """For a folder: the inode of each of its names."""

    @property
    def content(self) -> tuple[int, int, int]:
        return self.inode, self.size, self.changed


class Disk:
    """Records the fsyncs of this process, and those of others that call `recorder(disk.journal)()` first."""

    def __init__(self, journal: Path, patch: pytest.MonkeyPatch) -> None:
        self.journal = journal
        journal.touch()
        note = recorder(journal)
        lock = threading.Lock()
        self.before_sync: Callable[[Path], None] = lambda _: None

        def fsync(file: int | IO[bytes]) -> None:
            descriptor = file if isinstance(file, int) else file.fileno()
            with lock:
                self.before_sync(Path(f"/proc/self/fd/{descriptor}").readlink())
            note(descriptor)

        patch.setattr(os, "fsync", fsync)

    def syncs(self) -> list[Sync]:
        """All syncs so far, in order."""
        found = [json.loads(line) for line in self.journal.read_text().splitlines()]
        return [Sync(Path(one["path"]), one["inode"], one["size"], one["changed"], one["names"]) for one in found]

    def cut(self, folder: Path, into: Path, loss: str) -> Path:
        """A copy of the folder as after a power cut now."""
        syncs = self.syncs()
        contents = {one.content for one in syncs}
        names = {one.path: one.names for one in syncs if one.names is not None}
        into.mkdir()
        self._copy(folder, into, contents, names, loss)
        return into

    def _copy(
        self, source: Path, target: Path, contents: set[tuple[int, int, int]], names: dict[Path, Any], loss: str
    ) -> None:
        durable = names.get(source, {})
        for entry in os.scandir(source):
            status = entry.stat()
            if entry.name in _UNTOUCHED or (loss == "nameless" and durable.get(entry.name) != status.st_ino):
                continue
            copy = target / entry.name
            if entry.is_dir():
                copy.mkdir()
                self._copy(source / entry.name, copy, contents, names, loss)
                continue
            shutil.copyfile(entry, copy)
            if (status.st_ino, status.st_size, status.st_mtime_ns) not in contents:
                os.truncate(copy, status.st_size // 2 if loss == "half" else 0)


def recorder(journal: Path) -> Callable[[int], None]:
    """In place of `os.fsync`. A closure with its own imports, so that it can be sent to another process."""
    name = str(journal)

    def note(descriptor: int) -> None:
        import json  # noqa: PLC0415
        import os  # noqa: PLC0415
        import stat  # noqa: PLC0415

        path, status = os.readlink(f"/proc/self/fd/{descriptor}"), os.fstat(descriptor)  # noqa: PTH115
        names = {entry.name: entry.inode() for entry in os.scandir(path)} if stat.S_ISDIR(status.st_mode) else None
        line = {
            "path": path,
            "inode": status.st_ino,
            "size": status.st_size,
            "changed": status.st_mtime_ns,
            "names": names,
        }
        with open(name, "a") as file:  # noqa: PTH123
            file.write(json.dumps(line) + "\n")

    return note
