"""A Telegram on loopback, a channel that is connected with it, and an inbox that receives for the relay."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.channels.telegram.server import TelegramServer
from tinyagi.channels.port import ChannelMessage
from tinyagi.channels.telegram.channel import TelegramChannel


class Inbox:
    """Takes messages as the relay does; a chat of `held` waits until it is let go."""

    def __init__(self) -> None:
        self.messages: list[ChannelMessage] = []
        self.arrived: list[ChannelMessage] = []
        self.held: dict[str, asyncio.Event] = {}
        self._changed = asyncio.Condition()

    async def __call__(self, message: ChannelMessage) -> None:
        async with self._changed:
            self.arrived.append(message)
            self._changed.notify_all()
        if gate := self.held.get(message.chat.address):
            await gate.wait()
        async with self._changed:
            self.messages.append(message)
            self._changed.notify_all()

    async def until(self, number: int) -> list[ChannelMessage]:
        """Wait for so many messages, and return all."""
        async with asyncio.timeout(10), self._changed:
            await self._changed.wait_for(lambda: len(self.messages) >= number)
        return self.messages

    async def until_arrived(self, number: int) -> list[ChannelMessage]:
        """Wait for so many messages, taken or still held."""
        async with asyncio.timeout(10), self._changed:
            await self._changed.wait_for(lambda: len(self.arrived) >= number)
        return self.arrived


@asynccontextmanager
async def receiving(channel: TelegramChannel, inbox: Inbox) -> AsyncIterator[asyncio.Task[None]]:
    """The channel receives in the background until the end of the block."""
    task = asyncio.create_task(channel.receive(inbox))
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture
async def server() -> AsyncIterator[TelegramServer]:
    server = TelegramServer()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def channel(server: TelegramServer, tmp_path: Path) -> AsyncIterator[TelegramChannel]:
    channel = TelegramChannel(server.settings, tmp_path)
    await channel.connect()
    yield channel
    await channel.close()


@pytest.fixture
async def inbox(channel: TelegramChannel) -> AsyncIterator[Inbox]:
    inbox = Inbox()
    async with receiving(channel, inbox):
        yield inbox
