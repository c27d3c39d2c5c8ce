"""Files of Telegram's messages: which file a message has, its name, and its bytes when they are asked for."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from mimetypes import guess_extension
from pathlib import Path
from typing import Final
from urllib.parse import quote

import httpx
from telegram import Animation, Audio, Document, Message, PhotoSize, Sticker, Video, VideoNote, Voice
from telegram.error import TelegramError

from tinyagi.channels.port import Attachment, DeliveryError
from tinyagi.channels.telegram import utf16
from tinyagi.channels.telegram.client import TelegramClient
from tinyagi.channels.telegram.errors import UploadTooLarge, delivery_error, is_temporary, says

Media = Animation | Audio | Document | PhotoSize | Sticker | Video | VideoNote | Voice

_KINDS: Final[Mapping[type[Media], tuple[str, str]]] = {
    Animation: ("video", ".mp4"),
    Audio: ("audio", ".mp3"),
    Document: ("document", ""),
    PhotoSize: ("photo", ".jpg"),
    Sticker: ("sticker", ".webp"),
    Video: ("video", ".mp4"),
    VideoNote: ("video", ".mp4"),
    Voice: ("voice", ".ogg"),
}
_CHUNK: Final = 64 * 1024
_EXTENSIONS: Final = {"audio/ogg": ".ogg", "audio/mpeg": ".mp3", "audio/mp4": ".m4a", "video/mp4": ".mp4"}
_UNFIT: Final = re.compile(r"[\x00-\x1f\x7f]")
_LOST: Final = "The file could not be fetched from Telegram"


@dataclass(frozen=True, slots=True)
class TelegramDownloads:
    """Fetches files from Telegram, or from a Bot API server on this machine."""

    bot: TelegramClient
    has_own_server: bool

    def attachment(self, media: Media, name: str) -> Attachment:
        return Attachment(name, media.file_size, partial(self._chunks, media.file_id))

    async def _chunks(self, file_id: str) -> AsyncIterator[bytes]:
        """The bytes of the file; raise DeliveryError, which is final when Telegram does not hand the file over."""
        try:
            path = (await self.bot.get_file(file_id)).file_path or ""
            if self.has_own_server and path.startswith("/"):
                async for chunk in _local_chunks(Path(path)):
                    yield chunk
                return
            base = f"{self.bot.base_file_url}/"
            async with self.bot.downloads.stream("GET", base + quote(path.removeprefix(base))) as response:
                if response.status_code != httpx.codes.OK:
                    reason = f"{_LOST}: it answers with the error {response.status_code}."
                    raise DeliveryError(reason, is_final=True)
                async for chunk in response.aiter_bytes(_CHUNK):
                    yield chunk
        except TelegramError as error:
            raise _download_error(error) from None
        except httpx.HTTPError:
            raise DeliveryError(f"{_LOST}: the connection failed.") from None


async def _local_chunks(path: Path) -> AsyncIterator[bytes]:
    """A Bot API server with `--local` names the file on its disk instead of an address."""
    try:
        with await asyncio.to_thread(path.open, "rb") as file:
            while chunk := await asyncio.to_thread(file.read, _CHUNK):
                yield chunk
    except OSError as error:
        reason = f"The Bot API server stored the file as {path}, which cannot be read here: {error.strerror}."
        raise DeliveryError(reason) from None


def _download_error(error: TelegramError) -> DeliveryError:
    if isinstance(error, UploadTooLarge) or says(error, "too big"):
        return DeliveryError("Telegram hands no file of more than 20 MB to bots. Send a link instead.", is_final=True)
    if is_temporary(error):
        return delivery_error(error)
    return DeliveryError(f"{_LOST}: it is no longer there.", is_final=True)


def file_of(message: Message) -> tuple[Media, str] | None:
    """The file of the message, a photo in its largest size, and its name."""
    media: Media | None = (
        message.animation  # comes as a document too, for old programs
        or message.audio
        or message.document
        or message.sticker
        or message.video
        or message.video_note
        or message.voice
        or max(message.photo, key=lambda size: size.width * size.height, default=None)
    )
    return (media, _name_of(media)) if media else None


def _name_of(media: Media) -> str:
    """The name that the sender's file had, else kind, id and extension."""
    if isinstance(media, Animation | Audio | Document | Video):
        name = _UNFIT.sub("", utf16.clean(media.file_name or "")).replace("\\", "/").rpartition("/")[2].strip()
        if name.strip("."):
            return name
    kind, extension = _KINDS[type(media)]
    if isinstance(media, Sticker):
        extension = ".tgs" if media.is_animated else ".webm" if media.is_video else extension
    elif not isinstance(media, PhotoSize | VideoNote) and media.mime_type:
        extension = _EXTENSIONS.get(media.mime_type) or guess_extension(media.mime_type, strict=False) or extension
    return f"{kind}-{media.file_unique_id}{extension}"
