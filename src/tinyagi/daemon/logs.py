"""The daemon's log: loggers put lines into a queue, one thread takes secrets out and writes the files."""

import contextlib
import logging
import queue
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from tinyagi.daemon.log_files import LogFile
from tinyagi.daemon.log_lines import Line, as_json, as_text
from tinyagi.daemon.log_streams import LineStream
from tinyagi.engine import log_context

WAITING: Final = 10_000
"""Lines between the loggers and the disk; what comes on top is dropped and counted."""
TAKEN: Final = 65_536
"""Characters of a text that are looked at: what waits must not fill the memory."""
FLUSH: Final = 5.0
"""Seconds that an ending daemon waits for a slow disk."""
SAID: Final = "said"
"""Marks a record that a person in front of the daemon has read already."""

_QUEUE_LOGGERS: Final = ("engine", "store", "providers", "agents", "plugins")
_CHANNEL: Final = re.compile(r"tinyagi\.channels\.([a-z0-9][a-z0-9_-]{0,63})(?:\.|$)")
_NOISY: Final = ("httpx", "httpcore", "uvicorn.access", "uvicorn.error", "asyncio")

Redact = Callable[[str], str]


class Log:
    """Writes what the process logs into the files of a folder, and shows it to a person where there is one."""

    def __init__(self, folder: Path, redact: Redact, *, show: Callable[[str], None] | None = None) -> None:
        self._folder = folder
        self._redact = redact
        self._show = show
        self._files: dict[str, LogFile] = {}
        self._waiting: queue.Queue[tuple[Line, bool] | None] = queue.Queue(WAITING)
        self._dropped = _Dropped()
        self._thread = threading.Thread(target=self._write_all, name="tinyagi-log", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def take(self, line: Line, *, shown: bool) -> None:
        """Note a line for the files; returns at once and never raises."""
        try:
            self._waiting.put_nowait((line, shown))
        except queue.Full:
            self._dropped.add("they came faster than the disk takes them")

    def close(self) -> None:
        """Write what waits, for a few seconds at most."""
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=FLUSH)
        self._thread.join(FLUSH)

    def _write_all(self) -> None:
        while (item := self._waiting.get()) is not None:
            line, shown = item
            try:
                self._write(self._without_secrets(line), shown=shown)
            except Exception as error:
                # Without this thread nothing is logged any more, not even why.
                self._dropped.add(type(error).__name__)
        self._dropped.tell(self._append)
        for file in self._files.values():
            file.close()

    def _without_secrets(self, line: Line) -> Line:
        return replace(
            line,
            text=self._redact(line.text),
            about={name: self._redact(value) for name, value in line.about.items()},
            trace=None if line.trace is None else self._redact(line.trace),
        )

    def _write(self, line: Line, *, shown: bool) -> None:
        if not shown:
            self._tell_person(line)
        self._dropped.tell(self._append)
        reason = self._append(line)
        if reason is not None and self._dropped.add(reason):
            text = f"{self._folder / file_of(line.logger)} cannot be written: {reason}. Lines are dropped until it can."
            self._tell_person(Line(time.time(), "error", __name__, text, {}))

    def _tell_person(self, line: Line) -> None:
        if self._show is not None:
            # A terminal that is gone takes nothing; the files do.
            with contextlib.suppress(OSError, ValueError):
                self._show(as_text(line))

    def _append(self, line: Line) -> str | None:
        """Why the line is not in its file; None when it is."""
        name = file_of(line.logger)
        file = self._files.setdefault(name, LogFile(self._folder / name))
        try:
            file.append(as_json(line))
        except OSError as error:
            return error.strerror or str(error)
        return None


def file_of(logger: str) -> str:
    """The file that a logger's lines go to."""
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
    """Send what this process logs and prints to the folder for as long as the block lasts; nothing waits at its end.

    What is printed goes the same way, as a plugin may print a secret as well as log it.
    """
    log = Log(folder, redact, show=show)
    intake = _Intake(log, quiet_below=level)
    root = logging.getLogger()
    before = root.level
    with contextlib.ExitStack() as stack:
        log.start()
        stack.callback(log.close)
        root.addHandler(intake)
        stack.callback(root.removeHandler, intake)
        root.setLevel(logging.INFO)
        stack.callback(root.setLevel, before)
        for name in _NOISY:
            noisy = logging.getLogger(name)
            stack.callback(noisy.setLevel, noisy.level)
            noisy.setLevel(logging.WARNING)
        logging.captureWarnings(capture=True)
        stack.callback(logging.captureWarnings, capture=False)
        stack.enter_context(contextlib.redirect_stdout(LineStream("tinyagi.stdout", sys.stdout)))
        stack.enter_context(contextlib.redirect_stderr(LineStream("tinyagi.stderr", sys.stderr)))
        yield


class _Intake(logging.Handler):
    """Makes a line of a record where it is logged: its run is known there, and its arguments may change later."""

    def __init__(self, log: Log, *, quiet_below: int) -> None:
        super().__init__()
        self._log = log
        self._quiet_below = quiet_below

    def emit(self, record: logging.LogRecord) -> None:
        shown = record.levelno < self._quiet_below or hasattr(record, SAID)
        self._log.take(_line_of(record), shown=shown)


def _line_of(record: logging.LogRecord) -> Line:
    trace = None
    try:
        text = record.getMessage()
        if record.exc_info and record.exc_info[0] is not None:
            trace = logging.Formatter().formatException(record.exc_info)
    except Exception as error:
        # A mistake in a call of the logger, or in the text form of what it names, is no reason to break off its work.
        said = record.msg[:500] if isinstance(record.msg, str) else type(record.msg).__name__
        text = f"a line that cannot be written ({type(error).__name__}): {said}"
    return Line(
        time=record.created,
        level=record.levelname.lower(),
        logger=record.name,
        text=_bounded(text),
        about=log_context.current(),
        trace=None if trace is None else _bounded(trace),
    )


def _bounded(text: str) -> str:
    """Cut at the end, with the sign by which the redaction knows that a secret may be cut, too."""
    return text if len(text) <= TAKEN else f"{text[:TAKEN]}…"


class _Dropped:
    """Counts lines that are nowhere, until there is a place to say so."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._reason = ""

    def add(self, reason: str) -> bool:
        """Count one more; True for the first one since nothing was missing."""
        with self._lock:
            self._count += 1
            self._reason = reason
            return self._count == 1

    def tell(self, append: Callable[[Line], str | None]) -> None:
        with self._lock:
            count, reason = self._count, self._reason
        if not count:
            return
        text = f"{count} lines of the logs were not written: {reason}"
        if append(Line(time.time(), "warning", __name__, text, {})) is None:
            with self._lock:
                self._count -= count
