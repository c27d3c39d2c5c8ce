"""Shows people that their request is alive: the typing sign, the latest output, and once why a message waits."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Final

from tinyagi.api.queue import RunningMessage
from tinyagi.channels.commands import waiting_line
from tinyagi.channels.journal import DeliveryJournal
from tinyagi.channels.port import Channel, ChannelError, DeliveryError, Part
from tinyagi.client.client import AsyncClient
from tinyagi.client.errors import ClientError
from tinyagi.domain.chats import Chat

log = logging.getLogger(__name__)

_ALL: Final = 1_000
_EVERY: Final = 4.0
"""Seconds between looks at the runs, for platforms without a typing sign."""
_MOST_CHATS: Final = 20
_SHORTEST_PAUSE: Final = 1.0
_EXPLAIN_EVERY: Final = 5.0
"""Seconds between two looks at everything that waits: a long list in a busy company."""
_LONGEST_TEXT: Final = 600
_HELD: Final = frozenset({"held", "paused", "team"})


class ProgressMode(StrEnum):
    OFF = "off"
    TYPING = "typing"
    EDITS = "edits"
    """One message per running request, changed as the output grows and removed when the answer comes."""


class ProgressDisplay:
    """Looks at the queue while a person waits, and not otherwise. What it finds is true after a restart, too."""

    def __init__(self, channel: Channel, client: AsyncClient, journal: DeliveryJournal, mode: ProgressMode) -> None:
        self._channel = channel
        self._client = client
        self._journal = journal
        self._mode = mode
        self._news = asyncio.Event()
        self._ended: asyncio.Queue[Chat] = asyncio.Queue()
        self._explain_at = 0.0
        self._texts: dict[str, str] = {}
        """The text that each chat's progress message shows."""

    def wake(self) -> None:
        """A message was stored or a run has started."""
        self._news.set()

    def answered(self, chat: Chat) -> None:
        """The chat has its answer: its progress message goes."""
        self._ended.put_nowait(chat)

    async def run(self) -> None:
        """Show progress until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look())
            while True:
                await self._remove(await self._ended.get())

    async def _remove(self, chat: Chat) -> None:
        key = _key(chat)
        sent = self._journal.sent(key)
        if sent is not None:
            with suppress(DeliveryError):
                await self._channel.remove(chat, sent)
            self._journal.forget([key])
        self._texts.pop(chat.address, None)

    async def _look(self) -> None:
        # People may be waiting from before this process started.
        self._news.set()
        while True:
            await self._news.wait()
            self._news.clear()
            while await self._show():
                # In a busy company every look would find news: the queue is asked once a second at most.
                await asyncio.sleep(min(_SHORTEST_PAUSE, self._interval))
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._interval):
                        await self._news.wait()
                self._news.clear()

    @property
    def _interval(self) -> float:
        seconds = self._channel.manifest.typing_seconds
        return _EVERY if seconds is None else seconds * 0.8

    async def _show(self) -> bool:
        """Show the state of every open request; False when there is none."""
        channel = self._channel.manifest.id
        try:
            messages = [one for one in await self._client.queue.processing(limit=_ALL) if one.channel == channel]
            if any(one.status == "queued" for one in messages) and self._may_explain():
                await self._explain_waits()
        except ClientError as error:
            log.debug("cannot look at the queue: %s", error)
            return True
        chats = _by_chat(messages)
        for gone in self._texts.keys() - chats.keys():
            self.answered(Chat.at(gone))
        if self._mode is not ProgressMode.OFF:
            # One after the other, and not for everyone in a crowd: answers go first.
            for chat, running in list(chats.items())[:_MOST_CHATS]:
                await self._show_chat(chat, running)
        return bool(chats)

    async def _show_chat(self, address: str, messages: Iterable[RunningMessage]) -> None:
        chat = Chat.at(address)
        # Neither is worth a failed delivery.
        with suppress(ChannelError):
            await self._channel.show_typing(chat)
            text = "\n\n".join(f"@{one.agent}: {_tail(one.progress)}" for one in messages if one.progress.strip())
            if text and self._mode is ProgressMode.EDITS and self._channel.manifest.can_edit:
                await self._edit(chat, f"⏳ {text}")

    async def _edit(self, chat: Chat, text: str) -> None:
        if self._texts.get(chat.address) == text:
            return
        self._texts[chat.address] = text
        key = _key(chat)
        sent = self._journal.sent(key)
        if sent is None:
            self._journal.record(key, await self._channel.send(Part(chat, text, key)))
        else:
            await self._channel.edit(chat, sent, text)

    def _may_explain(self) -> bool:
        now = asyncio.get_running_loop().time()
        if now < self._explain_at:
            return False
        self._explain_at = now + _EXPLAIN_EVERY
        return True

    async def _explain_waits(self) -> None:
        """Tell each sender once why their message waits for a person or for tomorrow."""
        for message in await self._client.queue.waiting(limit=_ALL):
            if message.channel != self._channel.manifest.id or message.reason not in _HELD or not message.sender_id:
                continue
            key = f"wait-{message.id}-{message.reason}"
            if message.from_agent is not None or self._journal.sent(key) is not None:
                continue
            with suppress(DeliveryError, ValueError):
                sent = await self._channel.send(Part(Chat.at(message.sender_id), waiting_line(message), key))
                self._journal.record(key, sent)


def _by_chat(messages: Iterable[RunningMessage]) -> Mapping[str, list[RunningMessage]]:
    chats: dict[str, list[RunningMessage]] = {}
    for message in messages:
        with suppress(ValueError):
            chats.setdefault(Chat.at(message.sender_id or message.sender).address, []).append(message)
    return chats


def _key(chat: Chat) -> str:
    return f"progress-{chat.address}"


def _tail(text: str) -> str:
    stripped = text.strip()
    return stripped if len(stripped) <= _LONGEST_TEXT else f"…{stripped[-_LONGEST_TEXT:]}"
