"""A channel that is connected with the server, and what it handed over."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from tests.channels.discord.server import DiscordServer
from tinyagi.channels.discord.channel import DiscordChannel
from tinyagi.channels.port import ChannelMessage

PATIENCE: Final = 15


class Daemon:
    """Stores messages; while it is away, `receive` waits."""

    def __init__(self) -> None:
        self.messages: list[ChannelMessage] = []
        self.is_there = asyncio.Event()
        self.is_there.set()
        self.asked = 0
        self._changed = asyncio.Condition()

    async def receive(self, message: ChannelMessage) -> None:
        self.asked += 1
        await self._tell()
        await self.is_there.wait()
        self.messages.append(message)
        await self._tell()

    async def until(self, count: int) -> list[ChannelMessage]:
        """Wait until this many messages were handed over."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: len(self.messages) >= count)
        return self.messages

    async def until_asked(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: self.asked >= count)

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


@contextlib.asynccontextmanager
async def connected(
    server: DiscordServer, state: Path, daemon: Daemon, **settings: str
) -> AsyncIterator[DiscordChannel]:
    """A channel that receives until the block ends."""
    channel = DiscordChannel({**server.settings, **settings}, state)
    await channel.connect()
    receiving = asyncio.create_task(channel.receive(daemon.receive))
    try:
        yield channel
    finally:
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
        await channel.close()
