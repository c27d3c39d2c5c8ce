"""What is kept of a child's output: whole lines handed on at once, and the end of what it complains about."""

import re
from collections.abc import Callable
from typing import Final

LONGEST_LINE: Final = 16 * 1024 * 1024
TAIL: Final = 4 * 1024

_ESCAPE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

OnLine = Callable[[bytes], None]


class Lines:
    """Cuts a stream into lines and hands them on; one over the bound is left out, so that memory stays bounded."""

    def __init__(self, on_line: OnLine, longest: int = LONGEST_LINE) -> None:
        self._on_line = on_line
        self._longest = longest
        self._held = bytearray()
        self._overflown = False
        self.left_out = 0

    def feed(self, chunk: bytes) -> None:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._hold(end)
            self.close()
        self._hold(rest)

    def close(self) -> None:
        """The line is over: at its end, or at the end of a stream that did not finish it."""
        line, overflown = bytes(self._held), self._overflown
        self._held.clear()
        self._overflown = False
        if overflown:
            self.left_out += 1
        elif line.strip():
            self._on_line(line)

    def _hold(self, piece: bytes) -> None:
        if self._overflown or len(self._held) + len(piece) > self._longest:
            self._overflown = True
            self._held.clear()
        else:
            self._held += piece


class Tail:
    """The last few kilobytes of a stream."""

    def __init__(self, size: int = TAIL) -> None:
        self._size = size
        self._held = b""

    def feed(self, chunk: bytes) -> None:
        self._held = (self._held + chunk[-self._size :])[-self._size :]

    def text(self) -> str:
        """What was written for a terminal, without colours and control characters."""
        text = _ESCAPE.sub("", self._held.decode("utf-8", "replace"))
        return _CONTROL.sub("", text).strip("\ufffd \t\n")
