"""Runs an engine until the process is told to end: the first signal is patient, the second is not."""

import asyncio
import signal
from collections.abc import Callable

from tinyagi.engine.engine import Engine


async def serve(engine: Engine, started: Callable[[int], None], stopping: Callable[[], None]) -> None:
    """Start, wait for SIGTERM or SIGINT, stop. `started` is told how many messages were taken back."""
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
