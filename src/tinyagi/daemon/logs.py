"""The daemon's log: loggers put lines into a queue; one thread redacts secrets and writes the files."""

import contextlib
import io
import logging
import queue
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, TextIO

from tinyagi.daemon.log_files import LogLine, RotatingLogFile, log_json, log_text
from tinyagi.engine import active_run

MAX_QUEUED: Final = 10_000
"""Lines between the loggers and the disk; further lines are dropped and counted."""
MAX_CHARS: Final = 65_536
"""Characters of a queued text, so that the queue's memory stays bounded."""
MAX_PARTIAL_LINE: Final = 8_192
"""Printed characters that wait for their line break."""
CLOSE_TIMEOUT: Final = 5.0
"""Seconds that a stopping daemon waits for a slow disk."""
ALREADY_SHOWN: Final = "already_shown"
"""Marks a record that was already printed on the console."""

_QUEUE_LOGGERS: Final = ("engine", "store", "providers", "agents", "plugins")
_CHANNEL: Final = re.compile(r"tinyagi\.channels\.([a-z0-9][a-z0-9_-]{0,63})(?:\.|$)")
_NOISY: Final = ("httpx", "httpcore", "uvicorn.access", "uvicorn.error", "asyncio")

Redact = Callable[[str], str]


class LogWriter:
    """Writes the process's log lines to the files of a folder, and to the console if there is one."""

    def __init__(self, folder: Path, redact: Redact, *, show: Callable[[str], None] | None = None) -> None:
        self._folder = folder
        self._redact = redact
        self._show = show
        self._files: dict[str, RotatingLogFile] = {}
        self._queue: queue.Queue[tuple[LogLine, bool] | None] = queue.Queue(MAX_QUEUED)
        self._dropped = _DroppedLines()
        self._thread = threading.Thread(target=self._write_all, name="tinyagi-log", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, line: LogLine, *, shown: bool) -> None:
        """Queue a line for the files; returns at once and never raises."""
        try:
            self._queue.put_nowait((line, shown))
        except queue.Full:
            self._dropped.add("they arrived faster than the disk could write")

    def close(self) -> None:
        """Write the queued lines, for a few seconds at most."""
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=CLOSE_TIMEOUT)
        self._thread.join(CLOSE_TIMEOUT)

    def _write_all(self) -> None:
        while (item := self._queue.get()) is not None:
            line, shown = item
            try:
                self._write(self._without_secrets(line), shown=shown)
            except Exception as error:
                # The thread must survive: without it the process logs nothing, not even this error.
                self._dropped.add(type(error).__name__)
        self._dropped.report(self._append)
        for file in self._files.values():
            file.close()

    def _without_secrets(self, line: LogLine) -> LogLine:
        return replace(
            line,
            text=self._redact(line.text),
            about={name: self._redact(value) for name, value in line.about.items()},
            trace=None if line.trace is None else self._redact(line.trace),
        )

    def _write(self, line: LogLine, *, shown: bool) -> None:
        if not shown:
            self._show_line(line)
        self._dropped.report(self._append)
        reason = self._append(line)
        if reason is not None and self._dropped.add(reason):
            text = (
                f"{self._folder / file_of(line.logger)} cannot be written: {reason}. Lines are dropped until it can be."
            )
            self._show_line(LogLine(time.time(), "error", __name__, text, {}))

    def _show_line(self, line: LogLine) -> None:
        if self._show is not None:
            # The terminal may be gone; the files still get the line.
            with contextlib.suppress(OSError, ValueError):
                self._show(log_text(line))

    def _append(self, line: LogLine) -> str | None:
        """Write the line to its file; return the reason when that fails."""
        name = file_of(line.logger)
        file = self._files.setdefault(name, RotatingLogFile(self._folder / name))
        try:
            file.append(log_json(line))
        except OSError as error:
            return error.strerror or str(error)
        return None


def file_of(logger: str) -> str:
    """The name of the file for a logger's lines."""
    channel = _CHANNEL.match(logger)
    if channel is not None:
        return f"{channel[1]}.log"
    package, _, rest = logger.partition(".")
    part = rest.split(".")[0] if package == "tinyagi" else ""
    if part == "pipeline":
        return "pipeline.log"
    return "queue.log" if part in _QUEUE_LOGGERS else "daemon.log"


@contextlib.contextmanager
def logging_to(
    folder: Path, redact: Redact, *, show: Callable[[str], None] | None = None, level: int = logging.INFO
) -> Iterator[None]:
    """Write everything that this process logs and prints to the folder while the block runs; flush at its end.

    Printed text goes through the log too, because a plugin may print a secret as well as log it.
    """
    log = LogWriter(folder, redact, show=show)
    handler = _LogHandler(log, quiet_below=level)
    root = logging.getLogger()
    level_before = root.level
    with contextlib.ExitStack() as stack:
        log.start()
        stack.callback(log.close)
        root.addHandler(handler)
        stack.callback(root.removeHandler, handler)
        root.setLevel(logging.INFO)
        stack.callback(root.setLevel, level_before)
        for name in _NOISY:
            noisy = logging.getLogger(name)
            stack.callback(noisy.setLevel, noisy.level)
            noisy.setLevel(logging.WARNING)
        logging.captureWarnings(capture=True)
        stack.callback(logging.captureWarnings, capture=False)
        stack.enter_context(contextlib.redirect_stdout(PrintToLog("tinyagi.stdout", sys.stdout)))
        stack.enter_context(contextlib.redirect_stderr(PrintToLog("tinyagi.stderr", sys.stderr)))
        yield


class _LogHandler(logging.Handler):
    """Formats a record in the logging task: only there is the run known, and the arguments may change later."""

    def __init__(self, log: LogWriter, *, quiet_below: int) -> None:
        super().__init__()
        self._log = log
        self._quiet_below = quiet_below

    def emit(self, record: logging.LogRecord) -> None:
        shown = record.levelno < self._quiet_below or hasattr(record, ALREADY_SHOWN)
        self._log.put(_line_of(record), shown=shown)


def _line_of(record: logging.LogRecord) -> LogLine:
    trace = None
    try:
        text = record.getMessage()
        if record.exc_info and record.exc_info[0] is not None:
            trace = logging.Formatter().formatException(record.exc_info)
    except Exception as error:
        # A bad logging call, or an argument whose __str__ raises, must not break the caller.
        message = record.msg[:500] if isinstance(record.msg, str) else type(record.msg).__name__
        text = f"a line that cannot be formatted ({type(error).__name__}): {message}"
    return LogLine(
        time=record.created,
        level=record.levelname.lower(),
        logger=record.name,
        text=_bounded(text),
        about=active_run.current_run_fields(),
        trace=None if trace is None else _bounded(trace),
    )


def _bounded(text: str) -> str:
    """Cut the text and end it with "…", so that the redaction expects a secret to be cut as well."""
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}…"


class _DroppedLines:
    """Counts lines that were not written, until a line in the log can report them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._reason = ""

    def add(self, reason: str) -> bool:
        """Count one line; True for the first one since the last report."""
        with self._lock:
            self._count += 1
            self._reason = reason
            return self._count == 1

    def report(self, append: Callable[[LogLine], str | None]) -> None:
        """Append a line with the count; keep the count when that fails."""
        with self._lock:
            count, reason = self._count, self._reason
        if not count:
            return
        text = f"{count} log lines were not written: {reason}"
        if append(LogLine(time.time(), "warning", __name__, text, {})) is None:
            with self._lock:
                self._count -= count


class PrintToLog(io.TextIOBase):
    """Replaces stdout or stderr: logs each finished line and never writes to the stream itself."""

    def __init__(self, logger: str, original: TextIO) -> None:
        super().__init__()
        self._log = logging.getLogger(logger)
        self._original = original
        self._thread_state = threading.local()

    def write(self, text: str) -> int:
        # One partial line per thread, so that partial lines of two threads do not mix.
        *lines, rest = (getattr(self._thread_state, "rest", "") + text).split("\n")
        if len(rest) > MAX_PARTIAL_LINE:
            lines, rest = [*lines, rest], ""
        self._thread_state.rest = rest
        for line in lines:
            self._log_line(line)
        return len(text)

    def flush(self) -> None:
        """Do nothing: a line is logged when it ends."""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        """The descriptor of the replaced stream, which child processes inherit."""
        return self._original.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def _log_line(self, line: str) -> None:
        # A handler that prints while it handles a line would recurse forever.
        if line.strip() and not getattr(self._thread_state, "is_logging", False):
            self._thread_state.is_logging = True
            try:
                self._log.info("%s", line)
            finally:
                self._thread_state.is_logging = False
