"""A log file that is turned over when it is full. What a disk refuses is for the caller to count."""

import contextlib
import os
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 10 * 1024 * 1024
KEPT: Final = 5
"""Former files: queue.log.1 is the youngest."""


class LogFile:
    """Appends lines; whole ones, readable for the owner only."""

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES, kept: int = KEPT) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._kept = kept
        self._descriptor: int | None = None
        self._size = 0
        self._inode = 0
        self._is_torn = False

    def append(self, line: str) -> None:
        """Write the line and its end; raise OSError when the disk refuses."""
        data = f"{line}\n".encode("utf-8", "replace")
        descriptor = self._open()
        if self._size and self._size + len(data) > self._max_bytes:
            descriptor = self._turn_over()
        # After a line that was cut off by a full disk, the next one begins on a line of its own.
        if self._is_torn:
            data = b"\n" + data
        written = os.write(descriptor, data)
        self._size += written
        self._is_torn = written < len(data)
        if self._is_torn:
            raise OSError(None, "the line was written in part")

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        if self._descriptor is not None and self._is_in_place():
            return self._descriptor
        self.close()
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._path, flags, 0o600)
        self._descriptor = descriptor
        found = os.fstat(descriptor)
        self._size, self._inode = found.st_size, found.st_ino
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, 0o600)
        return descriptor

    def _is_in_place(self) -> bool:
        """False when somebody has moved or removed the file."""
        try:
            return self._path.stat().st_ino == self._inode
        except FileNotFoundError:
            return False

    def _turn_over(self) -> int:
        self.close()
        for number in range(self._kept - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                self._numbered(number).replace(self._numbered(number + 1))
        self._path.replace(self._numbered(1))
        return self._open()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")
