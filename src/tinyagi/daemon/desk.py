"""What the daemon's process has for the program it runs: a voice, and a place to say where it answers."""

import logging
from collections.abc import Callable

from tinyagi.daemon.logs import SAID
from tinyagi.daemon.pidfile import PidFile

log = logging.getLogger("tinyagi.daemon")


class FrontDesk:
    """The desk of one process: what it says goes to a person where there is one, and into the log."""

    def __init__(self, pid_file: PidFile, tell: Callable[[str], None]) -> None:
        self._pid_file = pid_file
        self._tell = tell

    def say(self, text: str) -> None:
        """Tell what a person in front of the process wants to know."""
        self._tell(text)
        log.info("%s", text, extra={SAID: True})

    def listening(self, host: str, port: int) -> None:
        """The API answers there from now on."""
        self._pid_file.listening(host, port)
