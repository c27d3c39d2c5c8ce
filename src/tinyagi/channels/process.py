"""The process that serves one channel: started by the daemon, or by hand on another machine."""

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tinyagi.channels.progress import ProgressMode
from tinyagi.channels.registry import open_channel
from tinyagi.channels.relay import Relay
from tinyagi.client.client import AsyncClient

log = logging.getLogger(__name__)


def serve_channel(
    name: str, settings: Mapping[str, str], state: Path, *, url: str, token: str | None, mode: ProgressMode, owned: bool
) -> None:
    """Serve until SIGTERM, Ctrl-C or, for a process `owned` by the daemon, the end of stdin; raise ChannelError."""
    asyncio.run(_serve(name, settings, state, url, token, mode, owned))


async def _serve(
    name: str, settings: Mapping[str, str], state: Path, url: str, token: str | None, mode: ProgressMode, owned: bool
) -> None:
    channel = open_channel(name, settings, state)
    # Runs that people stop and settings that they change are recorded under this name.
    async with AsyncClient(url, token, client_name=f"a person on {name}") as client:
        # Objects of the start live as long as the process.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        serving = asyncio.create_task(Relay(channel, client, state, mode).run())
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, serving.cancel)
        if owned:
            await cancel_at_end_of_input(serving)
        with suppress(asyncio.CancelledError):
            await serving


async def cancel_at_end_of_input(task: "asyncio.Task[None]") -> None:
    """Stdin is a pipe from the daemon: it ends with the daemon, also when that is killed."""

    class EndOfInput(asyncio.Protocol):
        def eof_received(self) -> bool | None:
            task.cancel()
            return None

        def connection_lost(self, _: Exception | None) -> None:
            task.cancel()

    await asyncio.get_running_loop().connect_read_pipe(EndOfInput, sys.stdin)
