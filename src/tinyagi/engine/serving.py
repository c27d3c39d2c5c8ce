"""How a process that runs an engine is told to end: the first time is patient, the second is not."""

import asyncio
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Final

SWITCH: Final = timedelta(microseconds=100)


def share_fairly() -> None:
    """Let threads of this process take turns sooner than Python does by itself.

    The store's writer needs the interpreter back after every statement, and would wait for the event loop each time:
    measured with short runs, an eighth of the throughput.
    """
    sys.setswitchinterval(SWITCH.total_seconds())


class Stop:
    """Asked for by a signal or through the API."""

    def __init__(self, halt: Callable[[], None]) -> None:
        """`halt` is called when somebody does not want to wait any longer."""
        self.wants_restart = False
        self._halt = halt
        self._asked = asyncio.Event()

    def listen(self) -> None:
        """Take SIGTERM and SIGINT as the wish to stop."""
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.ask)

    def ask(self) -> None:
        if self._asked.is_set():
            self._halt()
        self._asked.set()

    def restart(self) -> None:
        """Stop, and come back; a signal that was first wins."""
        if not self._asked.is_set():
            self.wants_restart = True
            self._asked.set()

    async def wait(self) -> None:
        await self._asked.wait()
