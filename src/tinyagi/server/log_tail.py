"""The last lines of log files, read from their ends: a file may be large, and what is asked for is little."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from tinyagi.domain.errors import NotFound

ALL: Final = "all"
SUFFIX: Final = ".log"
BLOCK: Final = 64 * 1024
MOST_BYTES: Final = 4 * 1024 * 1024
"""Of one file: lines without end do not fill the memory."""


class _Stamp(msgspec.Struct):
    time: str = ""


# Made once: several threads that make the first one together would end the process.
_stamp = msgspec.json.Decoder(_Stamp).decode


def tail(folder: Path, source: str, limit: int) -> list[str]:
    """The last lines of a source or of all together, oldest first; raise NotFound for one that is not there. Blocks."""
    logs = {path.name.removesuffix(SUFFIX): path for path in _logs(folder)}
    if source == ALL:
        return _by_time([_continued(path, limit) for path in logs.values()])[-limit:]
    if source not in logs:
        known = ", ".join(sorted(logs)) or "none yet"
        raise NotFound(f"There is no log of {source!r}; there are: {known}.")
    return _continued(logs[source], limit)


def last_lines(path: Path, limit: int) -> list[str]:
    """The last lines of a file, oldest first; what is no text in them is shown as replaced."""
    # It may be gone by now, or closed to us: then there is nothing to show.
    with suppress(OSError), path.open("rb") as file:
        at = end = file.seek(0, os.SEEK_END)
        found = b""
        # One line break more than lines: the one before the first of them tells that it is whole.
        while at > 0 and found.count(b"\n") <= limit and end - at < MOST_BYTES:
            at, size = max(0, at - BLOCK), min(BLOCK, at)
            file.seek(at)
            found = file.read(size) + found
        lines = found.split(b"\n")
        whole = lines if at == 0 else lines[1:]
        return [line.decode("utf-8", "replace") for line in whole if line][-limit:]
    return []


def _continued(path: Path, limit: int) -> list[str]:
    """With lines of the file before it, when this one was just begun."""
    lines, before = last_lines(path, limit), path.with_name(f"{path.name}.1")
    missing = limit - len(lines)
    if not missing or before.is_symlink() or not before.is_file():
        return lines
    return [*last_lines(before, missing), *lines]


def _logs(folder: Path) -> list[Path]:
    """Files of the folder itself: a link may lead anywhere."""
    with suppress(OSError), os.scandir(folder) as entries:
        files = (entry for entry in entries if entry.is_file(follow_symlinks=False))
        return sorted(Path(entry.path) for entry in files if entry.name.endswith(SUFFIX))
    return []


def _by_time(files: Sequence[Sequence[str]]) -> list[str]:
    stamped = []
    for lines in files:
        time = ""
        for line in lines:
            # A line that has no time belongs to the one before it.
            time = _time_of(line) or time
            stamped.append((time, line))
    return [line for _, line in sorted(stamped, key=lambda pair: pair[0])]


def _time_of(line: str) -> str:
    try:
        return _stamp(line).time
    except (ValueError, RecursionError):
        return ""
