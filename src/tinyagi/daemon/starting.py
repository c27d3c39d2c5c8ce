"""Starts the daemon as a process of its own and waits until it answers."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tinyagi.daemon.errors import DaemonError
from tinyagi.daemon.health import ask
from tinyagi.daemon.pidfile import Sighting, State, look, look_patiently, refusal
from tinyagi.domain.texts import one_line
from tinyagi.settings.environment import of_nobodys_run
from tinyagi.settings.home import Home

OUTPUT: Final = "daemon.out"
"""What the process prints while it has no log: mistakes at its start, and how it broke."""
PATIENCE: Final = timedelta(seconds=30)

_GLANCE: Final = 0.05
_LINES: Final = 10
_LONGEST: Final = 16_384


@dataclass(frozen=True, slots=True)
class Started:
    daemon: Sighting
    was_running: bool
    """It was there before, or another start was quicker."""


def start(home: Home, environment: Mapping[str, str], token: str | None, *, patience: timedelta = PATIENCE) -> Started:
    """Return when a daemon of this home answers; raise DaemonError with its last words when none does."""
    before = look_patiently(home)
    if before.state is State.UNKNOWN:
        raise DaemonError(refusal(home, before))
    if before.is_up:
        return Started(_wait(home, token, None, patience), was_running=True)
    with _output(home) as output:
        child = _launch(home, environment, output)
        try:
            return Started(_wait(home, token, child, patience), was_running=False)
        except _Ended:
            # Of two starts at once one is refused by the other's daemon.
            if look_patiently(home).is_up:
                return Started(_wait(home, token, None, patience), was_running=True)
            raise DaemonError(_last_words(home, output, child.returncode)) from None


class _Ended(Exception):
    """The process that was to become the daemon is gone."""


@contextlib.contextmanager
def _output(home: Home) -> Iterator[int]:
    """A new file for what the process prints; that of the start before is kept beside it."""
    path = home.logs / OUTPUT
    try:
        with contextlib.suppress(FileNotFoundError):
            path.replace(path.with_name(f"{OUTPUT}.1"))
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise DaemonError(f"{path} cannot be written ({error.strerror}). See that its folder is yours.") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _launch(home: Home, environment: Mapping[str, str], output: int) -> subprocess.Popen[bytes]:
    # A session of its own: neither the terminal's end nor its Ctrl-C reaches the daemon.
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "tinyagi", "run", "--home", str(home.path), "--detached"],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd=home.path,
        env=of_nobodys_run(environment),
        start_new_session=True,
    )


def _last_words(home: Home, output: int, code: int | None) -> str:
    size = os.fstat(output).st_size
    said = os.pread(output, _LONGEST, max(0, size - _LONGEST)).decode("utf-8", "replace")
    lines = [one_line(line, 1_000) for line in said.splitlines() if line.strip()][-_LINES:]
    # Its own sentence is enough where it has one.
    told = [line.removeprefix("tinyagi: ") for line in lines if line.startswith("tinyagi: ")] or lines
    end = f"by signal {-code}" if code is not None and code < 0 else f"with code {code}"
    words = "\n".join(told) or f"It said nothing; see {home.logs}."
    return f"The daemon did not start, it ended {end}. {words}"


def _wait(home: Home, token: str | None, child: subprocess.Popen[bytes] | None, patience: timedelta) -> Sighting:
    deadline = time.monotonic() + patience.total_seconds()
    while True:
        if child is not None and child.poll() is not None:
            raise _Ended
        sighting = look(home)
        is_ours = child is None or sighting.pid == child.pid
        if sighting.state is State.RUNNING and is_ours and ask(sighting, token) is not None:
            return sighting
        if child is None and not sighting.is_up:
            raise DaemonError(f"The daemon of {home.path} ended meanwhile. Start it again with: tinyagi start")
        if time.monotonic() >= deadline:
            raise DaemonError(
                f"The daemon (pid {sighting.pid or (child.pid if child else 0)}) does not answer after "
                f"{patience.total_seconds():g} seconds; it is left alone. See what it does with `tinyagi logs daemon`, "
                "or end it with `tinyagi stop`."
            )
        time.sleep(_GLANCE)
