"""Runs the daemon in this process: one at a time on a home, with its log, and again when it is asked to restart."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import NoReturn

from tinyagi.backup.swap import finish
from tinyagi.daemon.desk import FrontDesk
from tinyagi.daemon.errors import DaemonError
from tinyagi.daemon.logs import SAID, logging_to
from tinyagi.daemon.niced import NicedPipeline
from tinyagi.daemon.pidfile import held
from tinyagi.daemon.redaction import Redactor
from tinyagi.domain.errors import TinyAGIError
from tinyagi.settings.environment import of_nobodys_run, snapshot
from tinyagi.settings.home import Home
from tinyagi.wiring import run_daemon

log = logging.getLogger(__name__)


Tell = Callable[[str], None]


def run(home: Home, say: Tell, *, show: Tell | None, level: int = logging.INFO) -> bool:
    """Serve the home until a signal comes; True when it asks to be started again.

    `say` takes what a person wants to know, `show` the lines of the log from a level on.
    """
    home.prepare()
    redact = Redactor(home, snapshot())
    with held(home, version("tinyagi")) as pid_file, logging_to(home.logs, redact, show=show, level=level):
        log.info("TinyAGI %s begins as process %d", version("tinyagi"), os.getpid(), extra={SAID: True})
        desk = FrontDesk(pid_file, lambda text: say(redact(text)))
        try:
            completed = finish(home)
            if completed is not None:
                desk.say(completed)
            return asyncio.run(run_daemon(home, desk, NicedPipeline(home, snapshot(), redact)))
        except TinyAGIError as error:
            log.error("the daemon ends: %s", error, extra={SAID: True})  # noqa: TRY400 - a sentence needs no stack
            raise DaemonError(redact(str(error))) from None
        except Exception as error:
            log.critical("the daemon broke", exc_info=error, extra={SAID: True})
            raise DaemonError(
                f"The daemon broke: {redact(f'{type(error).__name__}: {error}')}. "
                f"Where it happened is in {home.logs / 'daemon.log'}; please report it."
            ) from None


def leave_run(arguments: Sequence[str]) -> None:
    """Begin anew without the marks of an agent's run, if there are any: what a process was started with stays on it."""
    environment = snapshot()
    own = of_nobodys_run(environment)
    if own != environment:
        os.execve(sys.executable, [sys.executable, "-m", "tinyagi", *arguments], own)  # noqa: S606


def again(arguments: Sequence[str]) -> NoReturn:
    """Become a new process of the same number, with the code and the settings of this moment."""
    os.execv(sys.executable, [sys.executable, "-m", "tinyagi", *arguments])  # noqa: S606
