"""Messages that the linked phone handed over and the relay has not stored yet. The library confirms them at once."""

import itertools
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

LIMIT: Final = 10_000
"""Messages that can wait."""


class SpoolFull(Exception):
    """More messages wait than may."""


class Spool:
    """A folder with one file for each message, in order. `add` may be called in any thread."""

    def __init__(self, folder: Path, limit: int = LIMIT) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._limit = limit
        self._lock = threading.Lock()
        for unfinished in folder.glob("*.new"):
            unfinished.unlink()
        waiting = self._files()
        self._count = len(waiting)
        self._numbers = itertools.count(int(waiting[-1].stem) + 1 if waiting else 1)

    def add(self, content: bytes) -> Path:
        """Store a message so that it outlives the process."""
        with self._lock:
            if self._count >= self._limit:
                raise SpoolFull(f"{self._limit} messages of WhatsApp wait for the daemon.")
            self._count += 1
            path = self._folder / f"{next(self._numbers):012d}.message"
        new = path.with_suffix(".new")
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:  # noqa: PTH123 - with a mode
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        return path

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        with self._lock:
            self._count -= 1

    def waiting(self) -> Iterator[tuple[Path, bytes]]:
        """What an earlier process left, oldest first."""
        for path in self._files():
            yield path, path.read_bytes()

    def _files(self) -> list[Path]:
        return sorted(path for path in self._folder.glob("*.message") if path.stem.isdigit())
