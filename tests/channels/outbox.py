"""Messages on their way to a channel: in order for each chat, and again until the channel takes them."""

import asyncio
from collections.abc import Awaitable, Callable


class Outbox:
    """Posts the messages of each chat one after another."""

    def __init__(self, post: Callable[[str], Awaitable[bool]]) -> None:
        """`post` returns whether the channel took the message."""
        self._post = post
        self._queues: dict[str, asyncio.Queue[str]] = {}
        self._senders: list[asyncio.Task[None]] = []

    def put(self, chat: str, message: str) -> None:
        if chat not in self._queues:
            self._queues[chat] = asyncio.Queue()
            self._senders.append(asyncio.create_task(self._send(self._queues[chat])))
        self._queues[chat].put_nowait(message)

    async def close(self) -> None:
        for sender in self._senders:
            sender.cancel()
        await asyncio.gather(*self._senders, return_exceptions=True)

    async def _send(self, queue: asyncio.Queue[str]) -> None:
        while True:
            message = await queue.get()
            while not await self._post(message):  # noqa: ASYNC110 - only time tells when the channel is back
                await asyncio.sleep(0.02)
