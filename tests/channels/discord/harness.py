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
    """Stores messages. While it is away for a person, or for all, `receive` waits."""

    def __init__(self) -> None:
        self.messages: list[ChannelMessage] = []
        self.holds: str | None = None
        """The person whose messages wait; "all" for everybody."""
        self._asked = 0
        self._changed = asyncio.Condition()

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.messages]

    async def receive(self, message: ChannelMessage) -> None:
        async with self._changed:
            self._asked += 1
            self._changed.notify_all()
            await self._changed.wait_for(lambda: self.holds not in {message.chat.person, "all"})
            self.messages.append(message)
            self._changed.notify_all()

    async def let_go(self) -> None:
        async with self._changed:
            self.holds = None
            self._changed.notify_all()

    async def until(self, count: int) -> list[ChannelMessage]:
        """Wait until this many messages were handed over."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: len(self.messages) >= count)
        return self.messages

    async def until_asked(self, count: int) -> None:
        """Wait until this many messages were offered, whether they were taken or wait."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: self._asked >= count)


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
