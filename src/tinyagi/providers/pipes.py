"""A child's pipes and exit on the event loop: input, lines of stdout, tail of stderr.

Not asyncio's subprocess: asyncio reaps the child before it reports the exit, and then the pid of its group may be
reused. Here the group is signalled first.
"""

import asyncio
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import IO, Final

LONGEST_LINE: Final = 16 * 1024 * 1024
TAIL: Final = 4 * 1024

_ESCAPE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

OnLine = Callable[[bytes], None]

LINGER: Final = timedelta(seconds=1)
"""How long a pipe may stay open after the child's exit: a process that it started may hold the pipe forever."""

_CHUNK: Final = 256 * 1024


class Child:
    """A child's pipes and exit, served by callbacks of the loop: no task and, on Linux, no thread per child."""

    def __init__(self, process: subprocess.Popen[bytes], on_line: OnLine) -> None:
        self.process = process
        self.lines = LineSplitter(on_line)
        self.tail = OutputTail()
        self._stdin, *outputs = (pipe for pipe in (process.stdin, process.stdout, process.stderr) if pipe is not None)
        self._outputs = list(zip(outputs, (self.lines.feed, self.tail.feed), strict=True))
        self._open = set(outputs)
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._has_exited = False
        self._linger: asyncio.TimerHandle | None = None
        self._pidfd: int | None = None

    @property
    def finished_normally(self) -> bool:
        """The child exited, and all its output was read."""
        return self._over.done() and not self._over.cancelled() and self._over.exception() is None

    async def communicate(self, text: bytes, touch: Callable[[], None]) -> None:
        """Write the text to stdin and read until the child has exited and its pipes are closed or `LINGER` is over.

        `touch` is called on every output. Errors of `on_line` are raised here.
        """
        for pipe, feed in self._outputs:
            self._read(pipe, feed, touch)
        self._write(text)
        self._watch()
        await self._over
        self.lines.close()

    def close(self) -> None:
        """Close the pipes and unregister from the loop; the process is not touched."""
        for pipe in list(self._open):
            self._shut(pipe)
        if not self._stdin.closed:
            self._loop.remove_writer(self._stdin.fileno())
            self._stdin.close()
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        if self._linger is not None:
            self._linger.cancel()

    def _read(self, pipe: IO[bytes], feed: Callable[[bytes], None], touch: Callable[[], None]) -> None:
        fd = pipe.fileno()
        os.set_blocking(fd, False)

        def ready() -> None:
            try:
                chunk = os.read(fd, _CHUNK)
            except BlockingIOError:
                return
            if not chunk:
                self._shut(pipe)
            elif not self._over.done():
                touch()
                try:
                    feed(chunk)
                except Exception as error:
                    self._over.set_exception(error)
            # Otherwise the output is read and dropped: a child blocked on a full pipe cannot exit.

        self._loop.add_reader(fd, ready)

    def _write(self, text: bytes) -> None:
        fd = self._stdin.fileno()
        os.set_blocking(fd, False)
        left = memoryview(text)

        def ready() -> None:
            nonlocal left
            try:
                left = left[os.write(fd, left) :]
            except BlockingIOError:
                return
            except BrokenPipeError:
                # The child stopped reading, which is not an error: its exit code decides.
                left = left[:0]
            if not left:
                self._loop.remove_writer(fd)
                self._stdin.close()

        ready()
        if not self._stdin.closed:
            self._loop.add_writer(fd, ready)

    def _watch(self) -> None:
        """Wait for the exit: with a pidfd where the kernel has them, else in a thread."""
        if sys.platform == "linux":
            with suppress(OSError):
                self._pidfd = os.pidfd_open(self.process.pid)
        if self._pidfd is not None:
            self._loop.add_reader(self._pidfd, self._exited)
        else:
            threading.Thread(target=self._wait, name=f"wait-{self.process.pid}", daemon=True).start()

    def _wait(self) -> None:
        self.process.wait()
        # The loop may be closed by now; then the exit no longer matters.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._exited)

    def _exited(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
        self._has_exited = True
        if self._open:
            self._linger = self._loop.call_later(LINGER.total_seconds(), self._finish)
        else:
            self._finish()

    def _shut(self, pipe: IO[bytes]) -> None:
        self._loop.remove_reader(pipe.fileno())
        pipe.close()
        self._open.discard(pipe)
        if self._has_exited and not self._open:
            self._finish()

    def _finish(self) -> None:
        if not self._over.done():
            self._over.set_result(None)


class LineSplitter:
    """Splits a stream into lines and passes them on; lines over the limit are dropped, so memory stays bounded."""

    def __init__(self, on_line: OnLine, longest: int = LONGEST_LINE) -> None:
        self._on_line = on_line
        self._longest = longest
        self._held = bytearray()
        self._overflowed = False
        self.dropped_lines = 0

    def feed(self, chunk: bytes) -> None:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._hold(end)
            self.close()
        self._hold(rest)

    def close(self) -> None:
        """End the current line, also at the end of a stream without a final newline."""
        line, overflowed = bytes(self._held), self._overflowed
        self._held.clear()
        self._overflowed = False
        if overflowed:
            self.dropped_lines += 1
        elif line.strip():
            self._on_line(line)

    def _hold(self, piece: bytes) -> None:
        if self._overflowed or len(self._held) + len(piece) > self._longest:
            self._overflowed = True
            self._held.clear()
        else:
            self._held += piece


class OutputTail:
    """The last few kilobytes of a stream."""

    def __init__(self, size: int = TAIL) -> None:
        self._size = size
        self._held = b""

    def feed(self, chunk: bytes) -> None:
        self._held = (self._held + chunk[-self._size :])[-self._size :]

    def text(self) -> str:
        """The text without the escape sequences and control characters of a terminal."""
        text = _ESCAPE.sub("", self._held.decode("utf-8", "replace"))
        return _CONTROL.sub("", text).strip("\ufffd \t\n")
