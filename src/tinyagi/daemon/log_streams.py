"""What is printed in a daemon becomes lines of its log."""

import io
import logging
import threading
from typing import Final, TextIO

LONGEST: Final = 8_192
"""Characters without a line break that are kept together."""


class LineStream(io.TextIOBase):
    """Stands in for stdout or stderr: a finished line is logged, and never written to the stream itself."""

    def __init__(self, logger: str, original: TextIO) -> None:
        super().__init__()
        self._log = logging.getLogger(logger)
        self._original = original
        self._own = threading.local()

    def write(self, text: str) -> int:
        # A line of each thread: half lines of two threads would mix.
        *lines, rest = (getattr(self._own, "rest", "") + text).split("\n")
        if len(rest) > LONGEST:
            lines, rest = [*lines, rest], ""
        self._own.rest = rest
        for line in lines:
            self._say(line)
        return len(text)

    def flush(self) -> None:
        """Lines go when they end."""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        """Of the stream that it stands in for: programs that are started inherit that one."""
        return self._original.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def _say(self, line: str) -> None:
        # A handler that prints while it writes a line would wait for itself for ever.
        if line.strip() and not getattr(self._own, "is_saying", False):
            self._own.is_saying = True
            try:
                self._log.info("%s", line)
            finally:
                self._own.is_saying = False
