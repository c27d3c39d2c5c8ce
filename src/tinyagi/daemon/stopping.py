"""Ends the daemon: politely, for a bounded time, and never another process that only has its number."""

import contextlib
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

import psutil

from tinyagi.daemon.errors import DaemonError
from tinyagi.daemon.pidfile import Sighting, State, look_patiently, refusal
from tinyagi.settings.home import Home
from tinyagi.settings.model import Settings
from tinyagi.system.processes import ProcessIdentity

MARGIN: Final = timedelta(seconds=10)
"""On top of what runs are given: to write what is left and to close the store."""
AFTER_KILL: Final = timedelta(seconds=10)

_GLANCE: Final = 0.05

Say = Callable[[str], None]


def longest_stop(settings: Settings) -> timedelta:
    """How long a daemon with these settings may take to end by itself."""
    return timedelta(seconds=settings.queue.shutdown_grace_seconds + settings.queue.kill_grace_seconds) + MARGIN


def stop(home: Home, say: Say, patience: timedelta) -> Sighting | None:
    """End the home's daemon and return who it was; None when there is none."""
    sighting = look_patiently(home)
    if sighting.state in {State.ABSENT, State.STALE}:
        return None
    process = sighting.process
    if not sighting.is_up or process is None:
        raise DaemonError(refusal(home, sighting))
    _send(process, signal.SIGTERM)
    if not _is_gone(process, patience):
        say(f"The daemon (pid {process.pid}) did not end within {patience.total_seconds():g} seconds: it is killed.")
        say("Nothing is lost: the next start takes back what it was working on.")
        _send(process, signal.SIGKILL)
        if not _is_gone(process, AFTER_KILL):
            raise DaemonError(
                f"The system does not end process {process.pid}; it may hang on a disk. Look at it by hand."
            )
    return sighting


def _send(process: ProcessIdentity, number: signal.Signals) -> None:
    # Looked at right before: in between lies no time in which a number is given out again.
    if not process.is_alive():
        return
    with contextlib.suppress(psutil.NoSuchProcess):
        try:
            psutil.Process(process.pid).send_signal(number)
        except psutil.AccessDenied as error:
            raise DaemonError(
                f"The daemon (pid {process.pid}) belongs to somebody else. Stop it as its owner."
            ) from error


def _is_gone(process: ProcessIdentity, patience: timedelta) -> bool:
    deadline = time.monotonic() + patience.total_seconds()
    while process.is_alive():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_GLANCE)
    return True
