"""Runs the pipeline beside the daemon: niced, its words in a log of its own, and nothing of it left when it is over."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import IO, Final

import psutil

from tinyagi.domain.texts import one_line
from tinyagi.engine.archiving import Ending
from tinyagi.providers.children import end
from tinyagi.settings.environment import of_nobodys_run
from tinyagi.settings.home import Home
from tinyagi.settings.pipeline import PipelineSettings

COMMAND: Final = (sys.executable, "-m", "tinyagi", "pipeline", "run", "--quiet")
GRACE: Final = timedelta(seconds=2)
"""A pipeline may be ended at any point: this is for its last words."""
LAST_WORDS: Final = 10
"""Lines."""

_LINGER: Final = 1.0
"""Seconds for the rest of the output once every process is gone."""
_LONGEST_LINE: Final = 8_192
# Before the program begins, so that no thread and no JVM of it is ever as quick as the daemon.
_NICED: Final = "import os, sys; os.nice(int(sys.argv[1])); os.execv(sys.argv[2], sys.argv[2:])"

said = logging.getLogger("tinyagi.pipeline")


class NicedPipeline:
    """Called, it runs the pipeline to its end; cancelled, it returns when every process of the run is gone."""

    def __init__(
        self,
        home: Home,
        environment: Mapping[str, str],
        redact: Callable[[str], str],
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._home = home
        self._environment = {
            **of_nobodys_run(environment),
            "TINYAGI_HOME": str(home.path),
            "PYTHONUNBUFFERED": "1",
        }
        self._redact = redact
        self._command = command

    async def __call__(self, settings: PipelineSettings) -> Ending:
        """Raise OSError when the system starts no process."""
        loop = asyncio.get_running_loop()
        over: asyncio.Future[Ending] = loop.create_future()

        def tell(ending: Ending) -> None:
            # The loop may be closed by now: then nobody wants to know any more.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(over.set_result, ending)

        process = self._spawn(settings.nice)
        # No daemon thread: whatever ends this program, the processes of the run end before.
        threading.Thread(target=_attend, args=(process, tell), name="pipeline").start()
        try:
            ending = await asyncio.shield(over)
        except asyncio.CancelledError:
            await _end(process, over)
            raise
        return Ending(ending.code, tuple(map(self._redact, ending.words)))

    def _spawn(self, nice: int) -> subprocess.Popen[bytes]:
        # Neither the terminal's Ctrl-C nor its end reaches a session of its own, and all that belongs to it is found.
        return subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", "-c", _NICED, str(nice), *self._command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self._home.path,
            env=self._environment,
            start_new_session=True,
        )


def _attend(process: subprocess.Popen[bytes], tell: Callable[[Ending], None]) -> None:
    words: deque[str] = deque(maxlen=LAST_WORDS)
    hearing = threading.Thread(target=_hear, args=(process.stdout, words), name="pipeline-output", daemon=True)
    hearing.start()
    code = process.wait()
    # Spark's workers have a group of their own within the session.
    end(_of_session(process.pid), GRACE)
    # Something may have been started between the search and the signals.
    end(_of_session(process.pid), timedelta())
    hearing.join(_LINGER)
    tell(Ending(code, tuple(words)))


def _hear(output: IO[bytes], words: deque[str]) -> None:
    with output:
        while line := output.readline(_LONGEST_LINE):
            text = one_line(line.decode("utf-8", "replace"), _LONGEST_LINE)
            if text:
                words.append(text)
                said.info("%s", text)


async def _end(process: subprocess.Popen[bytes], over: "asyncio.Future[Ending]") -> None:
    _send(process, signal.SIGTERM)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE.total_seconds()):
                await asyncio.shield(over)
    finally:
        _send(process, signal.SIGKILL)
    await asyncio.shield(over)


def _send(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Reach the whole group, as long as its number is certainly its own."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


def _of_session(number: int) -> list[psutil.Process]:
    found = []
    for pid in psutil.pids():
        with suppress(OSError, psutil.Error):
            if os.getsid(pid) == number:
                found.append(psutil.Process(pid))
    return found
