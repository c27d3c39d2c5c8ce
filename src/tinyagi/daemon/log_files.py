"""Log files: rotation by size, and the form of a line as JSON or as text."""

import contextlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tinyagi.domain.texts import one_line

MAX_BYTES: Final = 10 * 1024 * 1024
KEPT: Final = 5
"""Rotated files; queue.log.1 is the newest."""

MAX_CHARS: Final = 16_384
"""Characters of a text or a trace; longer ones lose their middle."""
# Control characters that JSON does not escape, and that a terminal or a line reader would act on.
_CONTROL: Final = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_KEYS: Final = {"agent": "agent", "message_id": "messageId", "conversation_id": "conversationId"}


class RotatingLogFile:
    """Appends whole lines to a file that only its owner can read; rotates it when it is full."""

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES, kept: int = KEPT) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._kept = kept
        self._descriptor: int | None = None
        self._size = 0
        self._inode = 0
        self._ends_mid_line = False

    def append(self, line: str) -> None:
        """Write the line and its end; raise OSError when the disk refuses."""
        data = f"{line}\n".encode("utf-8", "replace")
        descriptor = self._open()
        if self._size and self._size + len(data) > self._max_bytes:
            descriptor = self._rotate()
        # A full disk may have cut the last line; start the next one on a new line.
        if self._ends_mid_line:
            data = b"\n" + data
        written = os.write(descriptor, data)
        self._size += written
        self._ends_mid_line = written < len(data)
        if self._ends_mid_line:
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
        """False when the file was moved or deleted."""
        try:
            return self._path.stat().st_ino == self._inode
        except FileNotFoundError:
            return False

    def _rotate(self) -> int:
        self.close()
        for number in range(self._kept - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                self._numbered(number).replace(self._numbered(number + 1))
        self._path.replace(self._numbered(1))
        return self._open()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


@dataclass(frozen=True, slots=True)
class LogLine:
    """One call of a logger."""

    time: float
    """Seconds since the epoch."""
    level: str
    logger: str
    text: str
    about: Mapping[str, str]
    """Agent, message and conversation of the run that logged the line."""
    trace: str | None = None
    """The traceback of an exception."""


def log_json(line: LogLine) -> str:
    """The line as one JSON object, without a line break in it or at its end."""
    fields: dict[str, object] = {
        "time": line_time(line.time),
        "level": line.level,
        "logger": line.logger,
        "text": _shortened(line.text),
    }
    fields |= {key: line.about[name] for name, key in _KEYS.items() if name in line.about}
    if line.trace:
        fields["trace"] = _shortened(line.trace)
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(fields, ensure_ascii=False))


def log_text(line: LogLine) -> str:
    """The line for a terminal; a trace follows on indented lines."""
    time = datetime.fromtimestamp(line.time, UTC).astimezone().strftime("%H:%M:%S")
    return format_line(time, line.level, line.logger, line.text, line.about.get("agent"), line.trace)


def format_line(time: str, level: str, logger: str, text: str, agent: str | None, trace: str | None) -> str:
    mention = f" @{one_line(agent)}" if agent else ""
    first = f"{time} {level:<7} {one_line(logger).removeprefix('tinyagi.')}{mention}: {one_line(text, MAX_CHARS)}"
    return "\n".join((first, *(f"    {visible(part)}" for part in (trace or "").splitlines())))


def visible(text: str) -> str:
    """The text with its spaces, and with a space for each character that a terminal would act on."""
    return "".join(character if character.isprintable() else " " for character in text)


def line_time(seconds: float) -> str:
    """An instant in UTC with milliseconds, so that lines sort as text."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _shortened(text: str) -> str:
    if len(text) <= MAX_CHARS:
        return text
    half = MAX_CHARS // 2
    return f"{text[:half]} … {len(text) - MAX_CHARS:,} characters … {text[-half:]}"
