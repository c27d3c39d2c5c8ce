"""Hands messages to the daemon: those that arrive during a call are stored together by the next one."""

import asyncio
from typing import Final

from tinyagi.api.messages import MessageSent, SendMessage
from tinyagi.client.client import AsyncClient
from tinyagi.client.errors import ClientError

MOST: Final = 50


class Submission:
    """Stores messages while `run` runs."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._news = asyncio.Event()
        self._waiting: list[tuple[SendMessage, asyncio.Future[MessageSent]]] = []

    async def send(self, message: SendMessage) -> MessageSent:
        """Store a message that has an id; raise ClientError. It may be stored although the connection was lost."""
        sent: asyncio.Future[MessageSent] = asyncio.get_running_loop().create_future()
        self._waiting.append((message, sent))
        self._news.set()
        return await sent

    async def run(self) -> None:
        """Store what waits, until cancelled."""
        while True:
            await self._news.wait()
            now, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            if not self._waiting:
                self._news.clear()
            try:
                results = await self._client.send_all([message for message, _ in now])
            except ClientError as error:
                results = [error] * len(now)
            for (_, sent), result in zip(now, results, strict=True):
                if sent.done():
                    continue
                if isinstance(result, MessageSent):
                    sent.set_result(result)
                else:
                    sent.set_exception(result)
