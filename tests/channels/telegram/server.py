"""Telegram on loopback: people who write to the bot, and what the bot delivered to them."""

import asyncio
import itertools
from collections.abc import Mapping, Sequence

from tests.channels.platform import Delivered
from tests.channels.telegram.bot_api import BOT, BotApi, Json, Refusal


class TelegramServer(BotApi):
    """The platform of the tests, with more control for the tests of this channel."""

    channel = "telegram"

    @property
    def settings(self) -> Mapping[str, str]:
        return {"bot_token": self.token, "api_url": f"http://127.0.0.1:{self._port}"}

    async def write(
        self,
        text: str,
        *,
        person: str = "7",
        name: str = "Ada",
        place: str = "",
        files: Sequence[tuple[str, bytes]] = (),
    ) -> str:
        """Several files are an album, thus several messages; the first one has the text, and its id is returned."""
        chat = self.chat(person=person, name=name, place=place)
        if place:
            text = f"@{BOT['username']} {text}"
            chat["entities" if not files else "caption_entities"] = [mention(0)]
        if not files:
            return await self.push({**chat, "text": text})
        first = ""
        for place_in_album, (file_name, content) in enumerate(files):
            document = {"document": self.file(content, file_name=file_name)}
            caption = {"caption": text} if place_in_album == 0 else {}
            message = await self.push({**chat, **document, **caption})
            first = first or message
        return first

    async def repeat(self, message: str) -> None:
        await self.push_update({"message": self._messages[message]})

    @property
    def deliveries(self) -> Sequence[Delivered]:
        return self._delivered

    @property
    def downloads(self) -> int:
        return self._downloads

    def fail_every(self, number: int) -> None:
        self._fail_every = self._calls_until_failure = number

    def limit_next(self, seconds: float) -> None:
        self._limit = seconds

    # More control for the tests of this channel

    def chat(self, *, person: str = "7", name: str = "Ada", place: str = "", kind: str = "supergroup") -> Json:
        """The sender, chat and topic of a message."""
        sender = {"id": int(person), "is_bot": False, "first_name": name}
        if not place:
            return {"from": sender, "chat": {"id": int(person), "type": "private", "first_name": name}}
        chat_id, _, topic = place.partition("/")
        group: Json = {"from": sender, "chat": {"id": int(chat_id), "type": kind, "title": "Group"}}
        if topic:
            group |= {"message_thread_id": int(topic), "is_topic_message": True}
        return group

    def file(self, content: bytes, **more: object) -> Json:
        """A file that the bot can fetch, as Telegram describes it."""
        file_id = f"file{len(self.files)}"
        self.files[file_id] = content
        return {"file_id": file_id, "file_unique_id": f"u{file_id}", "file_size": len(content), **more}

    async def push(self, message: Json) -> str:
        """Hand a message with these fields to the bot; return the id of its ChannelMessage."""
        message = {"message_id": next(self._message_ids), "date": 1_700_000_000, **message}
        own_id = f"{message['chat']['id']}.{message['message_id']}"
        self._messages[own_id] = message
        await self.push_update({"message": message})
        return own_id

    async def until_confirmed(self) -> None:
        """Wait until the bot has confirmed all updates."""
        async with asyncio.timeout(10), self._changed:
            await self._changed.wait_for(lambda: not self._updates)

    async def until_called(self, method: str, times: int = 1) -> Json:
        """Wait for so many calls of a method; return the parameters of the last one."""

        def of_method() -> list[Json]:
            return [parameters for called, parameters in self.calls if called == method]

        async with asyncio.timeout(10), self._changed:
            await self._changed.wait_for(lambda: len(of_method()) >= times)
        return of_method()[times - 1]

    def refuse(self, method: str, status: int, description: str, **parameters: object) -> None:
        """Answer the next call of the method with this error."""
        self.refusals.setdefault(method, []).append(Refusal(status, description, parameters))

    def quiet_week(self) -> None:
        """From now on Telegram numbers updates from another, lower start."""
        self._update_ids = itertools.count(1_001)

    @property
    def unconfirmed(self) -> int:
        return len(self._updates)


def mention(offset: int) -> Json:
    """The entity of the bot's name at this place of a text."""
    return {"type": "mention", "offset": offset, "length": len(f"@{BOT['username']}")}
