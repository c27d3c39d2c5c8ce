"""Files of incoming messages: nothing is downloaded before they are read."""

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Final

import aiohttp

from tinyagi.channels.discord.failures import CALL_ERRORS, failure_of
from tinyagi.channels.discord.library import discord
from tinyagi.channels.port import Attachment, ChannelError

_CHUNK: Final = 64 * 1024
_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=60)
_EXPIRED: Final = frozenset({403, 404})


class DiscordDownloads:
    """Reads the files of messages from Discord's file servers."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session:
            await self._session.close()

    def of(self, message: discord.Message) -> tuple[Attachment, ...]:
        """The files, voice messages and stickers of a message, and of the messages that it forwards."""
        files = (
            Attachment(file.filename, file.size, functools.partial(self._read, message, file))
            for file in _files(message)
        )
        stickers = (
            Attachment(
                f"{sticker.name}.{sticker.format.file_extension}", None, functools.partial(self._read, message, sticker)
            )
            for sticker in _stickers(message)
        )
        return (*files, *stickers)

    async def _read(
        self, message: discord.Message, file: discord.Attachment | discord.StickerItem
    ) -> AsyncIterator[bytes]:
        """The content; raise ChannelError when Discord does not give it."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=_TIMEOUT)
        response: aiohttp.ClientResponse | None = None
        try:
            response = await self._session.get(file.url)
            if response.status in _EXPIRED:
                # The addresses of files expire after a day; the message, read again, has new ones.
                response.release()
                response = await self._session.get(await _new_address(message, file))
            if response.status != 200:
                raise ChannelError(f"Discord does not hand over the file {_name(file)} (status {response.status}).")
            async for chunk in response.content.iter_chunked(_CHUNK):
                yield chunk
        except CALL_ERRORS as error:
            raise ChannelError(f"The file {_name(file)} was not downloaded. {failure_of(error).reason}") from error
        finally:
            if response is not None:
                response.release()


async def _new_address(message: discord.Message, file: discord.Attachment | discord.StickerItem) -> str:
    again = await message.channel.fetch_message(message.id)
    return next((other.url for other in _files(again) if other.id == file.id), file.url)


def _files(message: discord.Message) -> Iterator[discord.Attachment]:
    yield from message.attachments
    for forwarded in message.message_snapshots:
        yield from forwarded.attachments


def _stickers(message: discord.Message) -> Iterator[discord.StickerItem]:
    yield from message.stickers
    for forwarded in message.message_snapshots:
        yield from forwarded.stickers


def _name(file: discord.Attachment | discord.StickerItem) -> str:
    return file.filename if isinstance(file, discord.Attachment) else file.name
