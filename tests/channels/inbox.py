"""The relay's side of a channel, as far as tests of one channel need it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from tinyagi.channels.port import Channel, ChannelMessage


class Inbox:
    """Takes messages, or holds them back while `is_open` is not set."""

    def __init__(self) -> None:
        self.messages: list[ChannelMessage] = []
        self._arrived: asyncio.Queue[ChannelMessage] = asyncio.Queue()
        self.is_open = asyncio.Event()
        self.is_open.set()

    async def receive(self, message: ChannelMessage) -> None:
        self._arrived.put_nowait(message)
        await self.is_open.wait()
        self.messages.append(message)

    async def next(self) -> ChannelMessage:
        """The next message, as soon as the channel hands it over."""
        async with asyncio.timeout(10):
            return await self._arrived.get()

    @property
    def is_empty(self) -> bool:
        return self._arrived.empty()


@contextlib.asynccontextmanager
async def receiving(channel: Channel, inbox: Inbox) -> AsyncIterator[None]:
    """Receive inside the block and drop the channel at its end."""
    await channel.connect()
    task = asyncio.create_task(channel.receive(inbox.receive))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await channel.close()
        await channel.close()
