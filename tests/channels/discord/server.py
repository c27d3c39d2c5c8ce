"""Discord on loopback, for the real client library: the people who write to the bot, and faults."""

import asyncio
import re
from collections.abc import Mapping, Sequence

from tests.channels.discord import payloads
from tests.channels.discord.payloads import BOT, CHANNEL, GUILD, Payload
from tests.channels.discord.rest import Rest
from tests.channels.platform import Delivered


class DiscordServer(Rest):
    """A bot's view of Discord."""

    channel = "discord"

    @property
    def settings(self) -> Mapping[str, str]:
        return {"bot_token": self.token, "guild_channels": str(CHANNEL), "api_url": f"{self._base}/api/v10"}

    # People

    async def write(
        self,
        text: str,
        *,
        person: str = "7",
        name: str = "Ada",
        place: str = "",
        files: Sequence[tuple[str, bytes]] = (),
    ) -> str:
        author = payloads.user(int(person), name)
        if place:
            return await self.post(int(place), author, f"<@{BOT}> {text}", files=files)
        return await self.post(self.direct_channel(int(person)), author, text, files=files)

    async def post(
        self,
        channel: int,
        author: Payload,
        content: str,
        *,
        files: Sequence[tuple[str, bytes]] = (),
        reply_to: str | None = None,
        is_live: bool = True,
        **more: object,
    ) -> str:
        """A message by anyone in any channel; without `is_live` the gateway does not announce it."""
        if channel not in self._persons and channel not in self.places:
            await self.add_thread(channel)
        message = payloads.message(next(self._numbers), channel, author, content, **more)
        message["mentions"] = [self._user(number) for number in map(int, re.findall(r"<@!?(\d+)>", content))]
        message["mention_roles"] = re.findall(r"<@&(\d+)>", content)
        message["attachments"] = [self._attachment(name, data) for name, data in files]
        if reply_to is not None:
            message |= {"type": 19, "referenced_message": self._find(reply_to)}
            message["message_reference"] = {"channel_id": str(channel), "message_id": reply_to.rpartition(".")[2]}
        if channel in self.places:
            message |= {"guild_id": str(GUILD), "member": payloads.member()}
            self.places[channel]["last_message_id"] = message["id"]
        self.stored.setdefault(channel, []).append(message)
        if is_live:
            await self.gateway.dispatch("MESSAGE_CREATE", message)
        return f"{channel}.{message['id']}"

    async def command(self, name: str, *values: str, person: str = "7", place: str = "") -> str:
        """A person chooses a command in Discord's menu."""
        number = next(self._numbers)
        author = payloads.user(int(person), "Ada")
        channel = int(place) if place else self.direct_channel(int(person))
        where: Payload = {"user": author, "channel": payloads.direct_channel(channel, author)}
        if place:
            whose = {**payloads.member(), "user": author, "permissions": "0"}
            where = {"member": whose, "guild_id": str(GUILD), "channel": self.places[channel]}
        options = [{"type": 3, "name": "agents", "value": value} for value in values]
        data = {"id": "1", "type": 1, "name": name, "options": options}
        head = {"id": str(number), "application_id": str(BOT), "type": 2, "token": "t", "version": 1}
        event = {
            **head,
            "data": data,
            "channel_id": str(channel),
            "attachment_size_limit": 1,
            "entitlements": [],
            **where,
        }
        await self.gateway.dispatch("INTERACTION_CREATE", event)
        return f"{channel}.c{number}"

    async def add_thread(self, number: int, parent: int = CHANNEL) -> None:
        self.places[number] = payloads.thread(number, GUILD, parent)
        await self.gateway.dispatch("THREAD_CREATE", {**self.places[number], "newly_created": True})

    async def repeat(self, message: str) -> None:
        await self.gateway.dispatch("MESSAGE_CREATE", self._find(message))

    # What the tests see and break

    @property
    def deliveries(self) -> Sequence[Delivered]:
        return self._deliveries

    @property
    def downloads(self) -> int:
        return self._downloads

    async def until_called_matching(self, part: str) -> None:
        """Wait until the bot made a call whose path has this part."""
        async with asyncio.timeout(15), self._called:
            await self._called.wait_for(lambda: any(part in call for call in self.calls))

    async def until_called(self, call: str, *, count: int = 1) -> None:
        """Wait until the bot made this call, such as `GET /channels/5/messages`."""
        async with asyncio.timeout(15), self._called:
            await self._called.wait_for(lambda: self.calls.count(call) >= count)

    def fail_every(self, number: int) -> None:
        self._fail_every = number

    def refuse(
        self, channel: int, status: int, code: int, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Answer all calls about this channel with an error."""
        self.refusals[channel] = (status, code, message, headers or {})

    def limit_next(self, seconds: float) -> None:
        self._limit = seconds

    def fail_after_next(self, status: int) -> None:
        """Accept the next delivery, but answer it with this error."""
        self._fail_after = status

    def expire_files(self) -> None:
        """The addresses of all files change, as they do after a day."""
        moved = {f"new-{name}": data for name, data in self._files.items()}
        self._files = moved
        for messages in self.stored.values():
            for message in messages:
                for file in _list(message["attachments"]):
                    file["url"] = str(file["url"]).replace("/cdn/", "/cdn/new-")

    def remove_files(self) -> None:
        self._files.clear()

    def add_file(self, path: str, data: bytes) -> str:
        """A file that belongs to no message; return the address of the file server."""
        self._files[path] = data
        return f"{self._base}/cdn"


def _list(value: object) -> list[Payload]:
    assert isinstance(value, list)
    return value
