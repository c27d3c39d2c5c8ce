"""Discord as a chat channel: its connection, and deliveries over REST. The client receives over the gateway."""

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, NotRequired, TypedDict

from tinyagi.channels.discord.attachments import DiscordDownloads
from tinyagi.channels.discord.client import DiscordClient
from tinyagi.channels.discord.commands import register
from tinyagi.channels.discord.failures import CALL_ERRORS, CANNOT_QUOTE, connection_error, delivering, failure_of
from tinyagi.channels.discord.formatting import to_discord
from tinyagi.channels.discord.incoming import message_id, parse_sent
from tinyagi.channels.discord.library import discord, use_api, use_gateway_of
from tinyagi.channels.discord.manifest import MANIFEST, SEND_LIMIT
from tinyagi.channels.discord.marks import Marks
from tinyagi.channels.discord.settings import parse
from tinyagi.channels.port import ChannelError, DeliveryError, FilePart, Manifest, Part, Receive
from tinyagi.domain.chats import Chat

_log: Final = logging.getLogger(__name__)
_CONNECT_SECONDS: Final = 60
_CALL_SECONDS: Final = 180
"""Longer than the library's own repeats of a call: five, for server errors and short rate limits."""
_NONCE_LENGTH: Final = 25

DiscordPlace = discord.PartialMessageable | discord.DMChannel


class _Options(TypedDict):
    nonce: str
    reference: NotRequired[discord.MessageReference]


class DiscordChannel:
    """A bot's connection with Discord."""

    def __init__(self, settings: Mapping[str, str], state: Path) -> None:
        self._settings = settings
        self._state = state
        self._client: DiscordClient | None = None
        self._marks: Marks | None = None
        self._gateway: asyncio.Task[None] | None = None
        self._downloads = DiscordDownloads()

    @property
    def manifest(self) -> Manifest:
        return MANIFEST

    async def connect(self) -> str:
        """Log in and open the gateway; return the bot's name."""
        settings = parse(self._settings)
        if settings.api:
            use_api(settings.api)
        marks = self._marks = Marks(self._state / "marks.json")
        client = self._client = DiscordClient(settings.chosen, marks, self._downloads)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await client.login(settings.token)
                marks.keep_only(client.user.id if client.user else 0, settings.chosen)
                if settings.api:
                    await use_gateway_of(client)
                await self._open_gateway(client)
        except CALL_ERRORS as error:
            await self.close()
            raise connection_error(error) from error
        except BaseException:
            await self.close()
            raise
        try:
            await register(client, in_servers=bool(settings.chosen))
        except CALL_ERRORS as error:
            _log.warning("Discord did not take the menu of commands: %s", failure_of(error).reason)
        return str(client.user)

    async def _open_gateway(self, client: DiscordClient) -> None:
        # The library resumes a cut connection. Its repeats after a refused one would hide the outage from `status`.
        self._gateway = asyncio.create_task(client.connect(reconnect=False), name="discord gateway")
        opened = asyncio.create_task(client.is_connected.wait())
        try:
            await asyncio.wait((self._gateway, opened), return_when=asyncio.FIRST_COMPLETED)
        finally:
            opened.cancel()
        if self._gateway.done():
            raise _ending(self._gateway)

    async def receive(self, receive: Receive) -> None:
        """Pass on messages until cancelled; raise ChannelError when the gateway is lost."""
        if not (self._client and self._gateway and self._marks):
            raise ChannelError("The channel is not connected with Discord.")
        gateway = self._gateway
        inbox = asyncio.create_task(self._client.inbox.run(receive), name="discord inbox")
        marks = asyncio.create_task(self._marks.keep_written(), name="discord marks")
        try:
            await asyncio.wait((gateway, inbox, marks), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (inbox, marks):
                task.cancel()
            ended = await asyncio.gather(inbox, marks, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error
        raise _ending(gateway)

    async def send(self, part: Part) -> str:
        """Deliver a text; Discord drops it when it had the same key within the last minutes."""
        text = to_discord(part.text)
        return await self._post(part, lambda place, options: place.send(text, **options))

    async def send_file(self, part: FilePart) -> str:
        """Deliver a file, as `send` does."""
        return await self._post(part, lambda place, options: place.send(file=_opened(part), **options))

    async def show_typing(self, chat: Chat) -> None:
        """Show that an answer is being written; a failure only means that the sign is missing."""
        try:
            async with self._place(chat) as place:
                await place.typing()
        except DeliveryError as error:
            _log.debug("Discord does not show the typing sign: %s", error)

    async def edit(self, chat: Chat, sent: str, text: str) -> None:
        """Replace a delivered text."""
        async with self._sent(chat, sent) as message:
            await message.edit(content=to_discord(text), allowed_mentions=discord.AllowedMentions.none())

    async def remove(self, chat: Chat, sent: str) -> None:
        """Remove a delivered text; one that is gone already is no error."""
        async with self._sent(chat, sent) as message:
            with contextlib.suppress(discord.NotFound):
                await message.delete()

    async def close(self) -> None:
        """Close the gateway and the state; closing twice is not an error."""
        client, self._client = self._client, None
        gateway, self._gateway = self._gateway, None
        if client:
            await client.close()
        if gateway:
            gateway.cancel()
            await asyncio.gather(gateway, return_exceptions=True)
        if self._marks:
            self._marks.write()
        await self._downloads.close()

    async def _post(
        self, part: Part | FilePart, post: Callable[[DiscordPlace, _Options], Awaitable[discord.Message]]
    ) -> str:
        async with self._place(part.chat) as place:
            # The library adds `enforce_nonce`: Discord then answers a repeated nonce with the message that it has.
            options: _Options = {"nonce": hashlib.sha256(part.key.encode()).hexdigest()[:_NONCE_LENGTH]}
            quoted = parse_sent(part.reply_to) if part.reply_to else None
            if quoted is None or quoted[0] != place.id:
                return await self._posted(part.chat, place, post(place, options))
            reference = discord.MessageReference(channel_id=place.id, message_id=quoted[1], fail_if_not_exists=False)
            try:
                return await self._posted(part.chat, place, post(place, {**options, "reference": reference}))
            except discord.HTTPException as error:
                if error.code != CANNOT_QUOTE:
                    raise
                return await self._posted(part.chat, place, post(place, options))

    async def _posted(self, chat: Chat, place: DiscordPlace, posting: Awaitable[discord.Message]) -> str:
        message = await posting
        if chat.is_direct and self._marks:
            # A person to whom the bot wrote first may answer while it is away.
            self._marks.open(place.id, before=message.id + 1, person=int(chat.person))
        return message_id(place.id, message.id)

    @contextlib.asynccontextmanager
    async def _place(self, chat: Chat) -> AsyncIterator[DiscordPlace]:
        """The Discord channel of the chat, for calls that raise DeliveryError."""
        client, marks = self._client, self._marks
        if not client or not marks:
            raise DeliveryError("The channel is not connected with Discord.")
        number = chat.person if chat.is_direct else chat.place
        if not number.isdecimal():
            raise DeliveryError(f"{chat.address} is not the address of a Discord chat.", is_final=True)
        with delivering():
            async with asyncio.timeout(_CALL_SECONDS):
                direct = marks.direct_channel(int(number)) if chat.is_direct else int(number)
                if direct is None:
                    yield await client.create_dm(discord.Object(int(number)))
                else:
                    yield client.get_partial_messageable(direct)

    @contextlib.asynccontextmanager
    async def _sent(self, chat: Chat, sent: str) -> AsyncIterator[discord.PartialMessage]:
        """A delivered message, for calls that raise DeliveryError."""
        place = parse_sent(sent)
        if place is None:
            raise DeliveryError(f"{sent} is not the id of a delivered Discord message.", is_final=True)
        async with self._place(Chat(chat.person, str(place[0]))) as channel:
            yield channel.get_partial_message(place[1])


def _ending(gateway: asyncio.Task[None]) -> ChannelError:
    """Why the gateway's task is done."""
    return connection_error(None if gateway.cancelled() else gateway.exception())


def _opened(part: FilePart) -> discord.File:
    """The file to upload; raise DeliveryError when it is too large or cannot be read."""
    try:
        size = part.path.stat().st_size
        if size <= SEND_LIMIT:
            return discord.File(part.path, part.name)
    except OSError as error:
        reason = f"The file {part.name} cannot be read: {error.strerror}."
        raise DeliveryError(reason, is_final=True) from error
    limit = SEND_LIMIT // 1_000_000
    reason = (
        f"The file {part.name} has {size / 1_000_000:.1f} MB; Discord takes files of at most {limit} MB from a bot."
    )
    raise DeliveryError(reason, is_final=True)
