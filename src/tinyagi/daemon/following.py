"""Log files as they grow, also when they are turned over or appear later."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from tinyagi.server.log_tail import ALL, SUFFIX

_BLOCK: Final = 256 * 1024


class Followed:
    """New lines of the logs of a folder, from the moment it is made."""

    def __init__(self, folder: Path, source: str) -> None:
        self._folder = folder
        self._pattern = f"*{SUFFIX}" if source == ALL else f"{source}{SUFFIX}"
        self._files = {path: _File(path, at_end=True) for path in self._present()}

    def poll(self) -> list[str]:
        """The lines that were finished since the last call; of each file in order."""
        for path in self._present():
            self._files.setdefault(path, _File(path, at_end=False))
        return [line for path in sorted(self._files) for line in self._files[path].poll()]

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _present(self) -> list[Path]:
        # A link may lead anywhere.
        return [path for path in self._folder.glob(self._pattern) if not path.is_symlink()]


class _File:
    def __init__(self, path: Path, *, at_end: bool) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._rest = b""
        self._open()
        if at_end and self._descriptor is not None:
            os.lseek(self._descriptor, 0, os.SEEK_END)

    def poll(self) -> Iterator[str]:
        yield from self._read()
        if self._is_turned_over():
            # What was written to the old file between the look and now, then the new one from its beginning.
            yield from self._read()
            self.close()
            self._open()
            yield from self._read()

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> None:
        self._rest = b""
        with suppress(FileNotFoundError):
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)

    def _is_turned_over(self) -> bool:
        try:
            now = self._path.stat()
        except FileNotFoundError:
            return False
        return self._descriptor is None or not os.path.samestat(now, os.fstat(self._descriptor))

    def _read(self) -> Iterator[str]:
        if self._descriptor is None:
            return
        while data := os.read(self._descriptor, _BLOCK):
            *lines, self._rest = (self._rest + data).split(b"\n")
            yield from (line.decode("utf-8", "replace") for line in lines if line)
