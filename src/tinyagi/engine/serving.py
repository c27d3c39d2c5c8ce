"""Runs an engine until the process is told to end: the first signal is patient, the second is not."""

import asyncio
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from tinyagi.engine.engine import Engine

SWITCH: Final = timedelta(microseconds=100)


def share_fairly() -> None:
    """Let threads of this process take turns sooner than Python does by itself.

    The store's writer needs the interpreter back after every statement, and would wait for the event loop each time:
    measured with short runs, an eighth of the throughput.
    """
    sys.setswitchinterval(SWITCH.total_seconds())


async def serve(engine: Engine, started: Callable[[int], None], stopping: Callable[[], None]) -> None:
    """Start, wait for SIGTERM or SIGINT, stop. `started` is told how many messages were taken back."""
    share_fairly()
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    def on_signal() -> None:
        if asked.is_set():
            engine.halt()
        else:
            asked.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    started(await engine.start())
    await asked.wait()
    stopping()
    await engine.stop()
