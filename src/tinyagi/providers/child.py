"""A running child process: its pipes are read and written by the event loop, its exit is waited for. Ends nothing."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import IO, Final

from tinyagi.providers.pipes import Lines, OnLine, Tail

LINGER: Final = timedelta(seconds=1)
"""How long a pipe may stay open after the child has gone: something it started may hold it for ever."""

_CHUNK: Final = 256 * 1024


class Child:
    """The loop itself reads, writes and watches: no task and, on Linux, no thread per child."""

    def __init__(self, process: subprocess.Popen[bytes], on_line: OnLine) -> None:
        self.process = process
        self.lines = Lines(on_line)
        self.tail = Tail()
        self._stdin, *outputs = (pipe for pipe in (process.stdin, process.stdout, process.stderr) if pipe is not None)
        self._outputs = list(zip(outputs, (self.lines.feed, self.tail.feed), strict=True))
        self._open = set(outputs)
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._has_exited = False
        self._linger: asyncio.TimerHandle | None = None
        self._pidfd: int | None = None

    @property
    def was_heard_out(self) -> bool:
        """The child came to its end by itself, and all it said was taken."""
        return self._over.done() and not self._over.cancelled() and self._over.exception() is None

    async def talk(self, text: bytes, touch: Callable[[], None]) -> None:
        """Give it the text and read until it has exited and its pipes are closed, or have been open long enough.

        `touch` is called at every sign of life. Raises what the taker of lines raises.
        """
        for pipe, feed in self._outputs:
            self._read(pipe, feed, touch)
        self._write(text)
        self._watch()
        await self._over
        self.lines.close()

    def close(self) -> None:
        """Let go of pipes and loop; the process is not touched."""
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
            # Else nobody listens any more; it is read all the same, as a child that cannot write cannot end.

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
                # It does not want to read on, which is its own business: its exit code tells whether it could work.
                left = left[:0]
            if not left:
                self._loop.remove_writer(fd)
                self._stdin.close()

        ready()
        if not self._stdin.closed:
            self._loop.add_writer(fd, ready)

    def _watch(self) -> None:
        """Learn of the exit: from the kernel where it tells, else from a thread that waits."""
        if sys.platform == "linux":
            with suppress(OSError):
                self._pidfd = os.pidfd_open(self.process.pid)
        if self._pidfd is not None:
            self._loop.add_reader(self._pidfd, self._exited)
        else:
            threading.Thread(target=self._wait, name=f"wait-{self.process.pid}", daemon=True).start()

    def _wait(self) -> None:
        self.process.wait()
        # The loop may be closed by now: then nobody wants to know any more.
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
