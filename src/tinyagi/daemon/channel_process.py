"""Keeps a channel's relay running as a child process of the daemon, restarts it with back-off, logs its output."""

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

from tinyagi.domain.texts import one_line
from tinyagi.settings.environment import without_run_variables
from tinyagi.settings.home import Home

FIRST_PAUSE: Final = timedelta(seconds=1)
LONGEST_PAUSE: Final = timedelta(minutes=1)
GRACE: Final = timedelta(seconds=8)
"""Between SIGTERM and SIGKILL: a relay finishes the delivery in hand and gives its lease back."""
NEEDS_FIX: Final = 4
"""Exit code of a relay whose settings a person must change: another try would fail alike."""
_LONGEST_LINE: Final = 8_192


def relay_command(channel: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "tinyagi", "channel", "run", channel, "--owned")


class ChannelProcess:
    """The relay of one channel. It gets a pipe as stdin and ends when that closes, also when the daemon is killed."""

    def __init__(
        self,
        channel: str,
        home: Home,
        environment: Mapping[str, str],
        released: Callable[[], None],
        command: Sequence[str] | None = None,
        first_pause: timedelta = FIRST_PAUSE,
    ) -> None:
        """`released` is called when a process has ended: its lease is free."""
        self._environment = {**without_run_variables(environment), "TINYAGI_HOME": str(home.path)}
        self._home = home
        self._released = released
        self._command = relay_command(channel) if command is None else command
        self._first_pause = first_pause.total_seconds()
        self._log = logging.getLogger(f"tinyagi.channels.{channel}")
        self._task: asyncio.Task[None] | None = None
        self._last_line = ""
        self.last_error: str | None = None
        self.restarts = 0

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    async def start(self) -> None:
        """Start the process; starting twice is not an error."""
        if not self.running:
            self.last_error = None
            self._task = asyncio.create_task(self._keep_running())

    async def stop(self) -> None:
        """Stop the process; stopping twice is not an error."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self.last_error = None

    async def _keep_running(self) -> None:
        pause = self._first_pause
        while True:
            began = asyncio.get_running_loop().time()
            try:
                code = await self._run_once()
            except OSError as error:
                self.last_error, code = f"its process cannot be started: {error}", -1
            if code == NEEDS_FIX:
                return
            if asyncio.get_running_loop().time() - began > LONGEST_PAUSE.total_seconds():
                pause = self._first_pause
            self._log.warning("the relay ended and starts again in %g s: %s", pause, self.last_error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE.total_seconds())
            self.restarts += 1

    async def _run_once(self) -> int:
        """Run the process to its end and return its exit code; end it when cancelled."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            # A platform's library may print there; what a relay says is on stderr.
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            cwd=self._home.path,
            env=self._environment,
            start_new_session=True,
            limit=_LONGEST_LINE,
        )
        self._last_line = ""
        reading = asyncio.create_task(self._log_output(process.stderr))
        try:
            code = await process.wait()
            # Its own children may keep the pipe open.
            await asyncio.wait([reading], timeout=1)
        except asyncio.CancelledError:
            await _end(process)
            raise
        finally:
            reading.cancel()
            self._released()
        self.last_error = self._last_line or f"its process ended with exit code {code}"
        return code

    async def _log_output(self, output: asyncio.StreamReader | None) -> None:
        if output is None:
            return
        while True:
            try:
                line = await output.readline()
            except ValueError:
                # A line longer than the buffer; the reader dropped it.
                continue
            if not line:
                return
            if text := one_line(line.decode("utf-8", "replace"), _LONGEST_LINE):
                self._last_line = text.removeprefix("tinyagi: ")
                self._log.info("%s", text)


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(GRACE.total_seconds()):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
