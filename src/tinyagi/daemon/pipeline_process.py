"""Runs the pipeline as a niced child process of the daemon; logs its output and leaves no process behind."""

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
from tinyagi.engine.pipeline_trigger import PipelineExit
from tinyagi.providers.process import end_processes
from tinyagi.settings.environment import without_run_variables
from tinyagi.settings.home import Home
from tinyagi.settings.model import PipelineSettings

COMMAND: Final = (sys.executable, "-m", "tinyagi", "pipeline", "run", "--quiet")
GRACE: Final = timedelta(seconds=2)
"""Between SIGTERM and SIGKILL. A run can be killed at any point; the grace is for its last output."""
LAST_LINES: Final = 10
"""Lines of output that a result keeps."""

_OUTPUT_TIMEOUT: Final = 1.0
"""Seconds to read the rest of the output once every process is gone."""
_LONGEST_LINE: Final = 8_192
# Niced before the exec, so that no thread and no JVM of the run ever has the daemon's priority.
_NICED: Final = "import os, sys; os.nice(int(sys.argv[1])); os.execv(sys.argv[2], sys.argv[2:])"

pipeline_log = logging.getLogger("tinyagi.pipeline")


class PipelineProcess:
    """Runs the pipeline to its end when called; when cancelled, returns once every process of the run is gone."""

    def __init__(
        self,
        home: Home,
        environment: Mapping[str, str],
        redact: Callable[[str], str],
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._home = home
        self._environment = {
            **without_run_variables(environment),
            "TINYAGI_HOME": str(home.path),
            "PYTHONUNBUFFERED": "1",
        }
        self._redact = redact
        self._command = command

    async def __call__(self, settings: PipelineSettings) -> PipelineExit:
        """Run the pipeline once; raise OSError when the process cannot be started."""
        loop = asyncio.get_running_loop()
        exited: asyncio.Future[PipelineExit] = loop.create_future()

        def on_exit(result: PipelineExit) -> None:
            # The loop may be closed by now; then the result is not needed.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(exited.set_result, result)

        process = self._spawn(settings.nice)
        # Not a daemon thread: the interpreter waits for it, so the run's processes end before this one.
        threading.Thread(target=_supervise, args=(process, on_exit), name="pipeline").start()
        try:
            result = await asyncio.shield(exited)
        except asyncio.CancelledError:
            await _terminate(process, exited)
            raise
        return PipelineExit(result.code, tuple(map(self._redact, result.last_lines)))

    def _spawn(self, nice: int) -> subprocess.Popen[bytes]:
        # In a new session the run does not get the terminal's signals, and all its processes can be found.
        return subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", "-c", _NICED, str(nice), *self._command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self._home.path,
            env=self._environment,
            start_new_session=True,
        )


def _supervise(process: subprocess.Popen[bytes], on_exit: Callable[[PipelineExit], None]) -> None:
    lines: deque[str] = deque(maxlen=LAST_LINES)
    reader = threading.Thread(target=_log_output, args=(process.stdout, lines), name="pipeline-output", daemon=True)
    reader.start()
    code = process.wait()
    # Spark's workers have their own process group within the session.
    end_processes(_session_processes(process.pid), GRACE)
    # A process may have been started between the search and the signals.
    end_processes(_session_processes(process.pid), timedelta())
    reader.join(_OUTPUT_TIMEOUT)
    on_exit(PipelineExit(code, tuple(lines)))


def _log_output(output: IO[bytes], lines: deque[str]) -> None:
    with output:
        while line := output.readline(_LONGEST_LINE):
            text = one_line(line.decode("utf-8", "replace"), _LONGEST_LINE)
            if text:
                lines.append(text)
                pipeline_log.info("%s", text)


async def _terminate(process: subprocess.Popen[bytes], exited: "asyncio.Future[PipelineExit]") -> None:
    _send(process, signal.SIGTERM)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE.total_seconds()):
                await asyncio.shield(exited)
    finally:
        _send(process, signal.SIGKILL)
    await asyncio.shield(exited)


def _send(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal the whole process group; skip it once the pid may have been reused."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


def _session_processes(session: int) -> list[psutil.Process]:
    found = []
    for pid in psutil.pids():
        with suppress(OSError, psutil.Error):
            if os.getsid(pid) == session:
                found.append(psutil.Process(pid))
    return found
