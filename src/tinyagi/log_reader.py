"""Reads log files from their ends: the last lines, and new lines as they arrive. Files may be large."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from tinyagi.domain.errors import NotFound
from tinyagi.domain.texts import one_line

ALL: Final = "all"
SUFFIX: Final = ".log"
BLOCK: Final = 64 * 1024
MOST_BYTES: Final = 4 * 1024 * 1024
"""Bytes read from one file at most, so that an endless line does not fill the memory."""
MAX_LINE_CHARS: Final = 2_000
"""Characters of a line for people."""
_FOLLOW_BLOCK: Final = 256 * 1024


class _Entry(msgspec.Struct):
    """The fields of a JSON line that people see."""

    time: str = ""
    level: str = ""
    text: str = ""
    trace: str = ""


# Created once: several threads that create the first decoder at the same time crash the process.
_decode = msgspec.json.Decoder(_Entry).decode


def tail(folder: Path, source: str, limit: int) -> list[str]:
    """The last lines of one log or of all merged, oldest first; raise NotFound for an unknown log. Blocks."""
    logs = {path.name.removesuffix(SUFFIX): path for path in _logs(folder)}
    if source == ALL:
        return _by_time([_with_rotated(path, limit) for path in logs.values()])[-limit:]
    if source not in logs:
        known = ", ".join(sorted(logs)) or "none yet"
        raise NotFound(f"There is no log {source!r}. There are: {known}.")
    return _with_rotated(logs[source], limit)


def for_people(line: str) -> str:
    """A log line as `[time] [LEVEL] text`, with the last line of its trace; other lines unchanged."""
    entry = _entry(line)
    if not entry.time:
        return one_line(line, MAX_LINE_CHARS)
    error = f" ({entry.trace.strip().splitlines()[-1].strip()})" if entry.trace.strip() else ""
    return one_line(f"[{entry.time}] [{entry.level.upper()}] {entry.text}{error}", MAX_LINE_CHARS)


def last_lines(path: Path, limit: int) -> list[str]:
    """The last lines of a file, oldest first; bytes that are not UTF-8 are replaced."""
    # A file that is gone or unreadable has no lines.
    with suppress(OSError), path.open("rb") as file:
        at = end = file.seek(0, os.SEEK_END)
        data = b""
        # Read one line break more than lines: it proves that the first line is complete.
        while at > 0 and data.count(b"\n") <= limit and end - at < MOST_BYTES:
            at, size = max(0, at - BLOCK), min(BLOCK, at)
            file.seek(at)
            data = file.read(size) + data
        lines = data.split(b"\n")
        whole = lines if at == 0 else lines[1:]
        return [line.decode("utf-8", "replace") for line in whole if line][-limit:]
    return []


def _with_rotated(path: Path, limit: int) -> list[str]:
    """The last lines of a log; a log that was just rotated is topped up from the file before it."""
    lines, rotated = last_lines(path, limit), path.with_name(f"{path.name}.1")
    missing = limit - len(lines)
    if not missing or rotated.is_symlink() or not rotated.is_file():
        return lines
    return [*last_lines(rotated, missing), *lines]


def _logs(folder: Path) -> list[Path]:
    """The folder's log files without symbolic links: one may point outside."""
    with suppress(OSError), os.scandir(folder) as entries:
        files = (entry for entry in entries if entry.is_file(follow_symlinks=False))
        return sorted(Path(entry.path) for entry in files if entry.name.endswith(SUFFIX))
    return []


def _by_time(files: Sequence[Sequence[str]]) -> list[str]:
    stamped = []
    for lines in files:
        time = ""
        for line in lines:
            # A line without a time belongs to the one before it.
            time = _entry(line).time or time
            stamped.append((time, line))
    return [line for _, line in sorted(stamped, key=lambda pair: pair[0])]


def _entry(line: str) -> _Entry:
    try:
        return _decode(line)
    except (ValueError, RecursionError):
        return _Entry()


class LogFollower:
    """New lines of a folder's logs, from its creation on."""

    def __init__(self, folder: Path, source: str) -> None:
        self._folder = folder
        self._pattern = f"*{SUFFIX}" if source == ALL else f"{source}{SUFFIX}"
        self._files = {path: _FollowedFile(path, at_end=True) for path in self._log_files()}

    def poll(self) -> list[str]:
        """The lines completed since the last call, file by file, each in order."""
        for path in self._log_files():
            self._files.setdefault(path, _FollowedFile(path, at_end=False))
        return [line for path in sorted(self._files) for line in self._files[path].poll()]

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _log_files(self) -> list[Path]:
        # Skip symbolic links: one may point outside the folder.
        return [path for path in self._folder.glob(self._pattern) if not path.is_symlink()]


class _FollowedFile:
    def __init__(self, path: Path, *, at_end: bool) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._partial_line = b""
        self._open()
        if at_end and self._descriptor is not None:
            os.lseek(self._descriptor, 0, os.SEEK_END)

    def poll(self) -> Iterator[str]:
        yield from self._read()
        if self._was_rotated():
            # First the lines that the old file got before the rotation, then the new file from its beginning.
            yield from self._read()
            self.close()
            self._open()
            yield from self._read()

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> None:
        self._partial_line = b""
        with suppress(FileNotFoundError):
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)

    def _was_rotated(self) -> bool:
        try:
            current = self._path.stat()
        except FileNotFoundError:
            return False
        return self._descriptor is None or not os.path.samestat(current, os.fstat(self._descriptor))

    def _read(self) -> Iterator[str]:
        if self._descriptor is None:
            return
        while data := os.read(self._descriptor, _FOLLOW_BLOCK):
            *lines, self._partial_line = (self._partial_line + data).split(b"\n")
            yield from (line.decode("utf-8", "replace") for line in lines if line)
