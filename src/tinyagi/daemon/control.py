"""Starts, stops and queries the daemon from another process."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import httpx
import psutil

from tinyagi.daemon.pidfile import (
    DaemonError,
    DaemonInfo,
    DaemonState,
    already_running_message,
    find_daemon,
    find_settled_daemon,
)
from tinyagi.domain.texts import one_line
from tinyagi.settings.environment import without_run_variables
from tinyagi.settings.home import Home
from tinyagi.settings.model import Settings
from tinyagi.system.processes import ProcessIdentity

OUTPUT: Final = "daemon.out"
"""Output of the daemon outside its log: errors before the log opens, and crashes."""
START_TIMEOUT: Final = timedelta(seconds=30)

MARGIN: Final = timedelta(seconds=10)
"""Time for the last writes and to close the store, on top of the grace periods of runs."""
AFTER_KILL: Final = timedelta(seconds=10)
QUERY_TIMEOUT: Final = 2.0
"""Seconds for one answer."""

_POLL_SECONDS: Final = 0.05
_SHOWN_LINES: Final = 10
_READ_BYTES: Final = 16_384

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StartResult:
    daemon: DaemonInfo
    was_running: bool
    """The daemon was up before, or another `start` won the race."""


def start_daemon(
    home: Home, environment: Mapping[str, str], token: str | None, *, timeout: timedelta = START_TIMEOUT
) -> StartResult:
    """Return when the home's daemon answers; raise DaemonError with the end of its output when it does not."""
    before = find_settled_daemon(home)
    if before.state is DaemonState.UNKNOWN:
        raise DaemonError(already_running_message(home, before))
    if before.is_up:
        return StartResult(_wait(home, token, None, timeout), was_running=True)
    with _output(home) as output:
        child = _launch(home, environment, output)
        try:
            return StartResult(_wait(home, token, child, timeout), was_running=False)
        except _Ended:
            # Of two concurrent starts, one loses the lock to the other.
            if find_settled_daemon(home).is_up:
                return StartResult(_wait(home, token, None, timeout), was_running=True)
            raise DaemonError(_failure_message(home, output, child.returncode)) from None


class _Ended(Exception):
    """The started process ended before it answered."""


@contextlib.contextmanager
def _output(home: Home) -> Iterator[int]:
    """Open a new output file; keep the one of the previous start beside it."""
    path = home.logs / OUTPUT
    try:
        with contextlib.suppress(FileNotFoundError):
            path.replace(path.with_name(f"{OUTPUT}.1"))
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise DaemonError(f"{path} cannot be written ({error.strerror}). Make sure that you own its folder.") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _launch(home: Home, environment: Mapping[str, str], output: int) -> subprocess.Popen[bytes]:
    # A new session: the daemon survives the terminal and does not get its Ctrl-C.
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "tinyagi", "run", "--home", str(home.path), "--detached"],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd=home.path,
        env=without_run_variables(environment),
        start_new_session=True,
    )


def _failure_message(home: Home, output: int, code: int | None) -> str:
    size = os.fstat(output).st_size
    text = os.pread(output, _READ_BYTES, max(0, size - _READ_BYTES)).decode("utf-8", "replace")
    lines = [one_line(line, 1_000) for line in text.splitlines() if line.strip()][-_SHOWN_LINES:]
    # An error message of TinyAGI is enough; without one, show the end of the output.
    shown = [line.removeprefix("tinyagi: ") for line in lines if line.startswith("tinyagi: ")] or lines
    end = f"by signal {-code}" if code is not None and code < 0 else f"with code {code}"
    reason = "\n".join(shown) or f"It printed nothing; see {home.logs}."
    return f"The daemon did not start: it ended {end}. {reason}"


def _wait(home: Home, token: str | None, child: subprocess.Popen[bytes] | None, timeout: timedelta) -> DaemonInfo:
    deadline = time.monotonic() + timeout.total_seconds()
    while True:
        if child is not None and child.poll() is not None:
            raise _Ended
        daemon = find_daemon(home)
        is_expected = child is None or daemon.pid == child.pid
        if daemon.state is DaemonState.RUNNING and is_expected and query_daemon(daemon, token) is not None:
            return daemon
        if child is None and not daemon.is_up:
            raise DaemonError(f"The daemon of {home.path} has ended. Start it again: tinyagi start")
        if time.monotonic() >= deadline:
            raise DaemonError(
                f"The daemon (pid {daemon.pid or (child.pid if child else 0)}) has not answered for "
                f"{timeout.total_seconds():g} seconds; it was left running. See its log with `tinyagi logs daemon`, "
                "or stop it with `tinyagi stop`."
            )
        time.sleep(_POLL_SECONDS)


def stop_timeout(settings: Settings) -> timedelta:
    """How long a daemon with these settings may take to stop."""
    return timedelta(seconds=settings.queue.shutdown_grace_seconds + settings.queue.kill_grace_seconds) + MARGIN


def stop_daemon(home: Home, say: Say, timeout: timedelta) -> DaemonInfo | None:
    """Stop the home's daemon and return its former state; None when there is none."""
    daemon = find_settled_daemon(home)
    if daemon.state in {DaemonState.ABSENT, DaemonState.STALE}:
        return None
    process = daemon.process
    if not daemon.is_up or process is None:
        raise DaemonError(already_running_message(home, daemon))
    _send(process, signal.SIGTERM)
    if not _is_gone(process, timeout):
        say(f"The daemon (pid {process.pid}) did not stop within {timeout.total_seconds():g} seconds. Killing it.")
        say("Nothing is lost: the next start recovers its messages.")
        _send(process, signal.SIGKILL)
        if not _is_gone(process, AFTER_KILL):
            raise DaemonError(f"Process {process.pid} survived SIGKILL; it may hang on a disk. Check it by hand.")
    return daemon


def _send(process: ProcessIdentity, number: signal.Signals) -> None:
    # Check right before the signal, so that the pid cannot have been reused.
    if not process.is_alive():
        return
    with contextlib.suppress(psutil.NoSuchProcess):
        try:
            psutil.Process(process.pid).send_signal(number)
        except psutil.AccessDenied as error:
            raise DaemonError(
                f"The daemon (pid {process.pid}) belongs to another user. Stop it as that user."
            ) from error


def _is_gone(process: ProcessIdentity, timeout: timedelta) -> bool:
    deadline = time.monotonic() + timeout.total_seconds()
    while process.is_alive():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def query_daemon(daemon: DaemonInfo, token: str | None, path: str = "/api/status") -> object | None:
    """GET the path from the daemon and return the JSON; None when it does not answer."""
    if daemon.url is None:
        return None
    headers: Mapping[str, str] = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        # Ignore proxy variables: the daemon is on this machine.
        with httpx.Client(timeout=QUERY_TIMEOUT, trust_env=False) as client:
            answer = client.get(f"{daemon.url}{path}", headers=headers)
            found: object = answer.json() if answer.status_code == httpx.codes.OK else None
    except (httpx.HTTPError, ValueError):
        return None
    return found
