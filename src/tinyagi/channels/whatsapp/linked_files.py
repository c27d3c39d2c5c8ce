"""Files that go out through the linked phone."""

import asyncio
import mimetypes
from typing import Final

from neonize.proto.Neonize_pb2 import UploadResponse
from neonize.proto.waE2E.WAWebProtobufsE2E_pb2 import AudioMessage, DocumentMessage, ImageMessage, VideoMessage
from neonize.proto.waE2E.WAWebProtobufsE2E_pb2 import Message as Content

from tinyagi.channels.port import DeliveryError, FilePart
from tinyagi.channels.whatsapp.phone import Phone, PhoneError

_IMAGES: Final = frozenset({"image/jpeg", "image/png"})
_VIDEO: Final = frozenset({"video/mp4"})
_AUDIO: Final = frozenset({"audio/aac", "audio/mp4", "audio/mpeg", "audio/ogg"})


async def file_content(part: FilePart, phone: Phone, limit: int) -> Content:
    """Upload a file and return the message that shows it; raise DeliveryError."""
    data = await asyncio.to_thread(_read, part, limit)
    media_type = mimetypes.guess_type(part.name)[0] or "application/octet-stream"
    kind = _kind(media_type)
    try:
        uploaded = await phone.upload(data, kind)
    except PhoneError as error:
        raise DeliveryError(f"WhatsApp did not take the file {part.name!r}: {error}") from error
    return _content(kind, media_type, part.name, uploaded)


def _kind(media_type: str) -> str:
    if media_type in _IMAGES:
        return "image"
    if media_type in _VIDEO:
        return "video"
    return "audio" if media_type in _AUDIO else "document"


def _read(part: FilePart, limit: int) -> bytes:
    try:
        with part.path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise DeliveryError(f"The file {part.name!r} cannot be read: {error.strerror}.", is_final=True) from error
    if len(data) > limit:
        raise DeliveryError(f"The file {part.name!r} is larger than {limit // 1_000_000} MB.", is_final=True)
    return data


def _content(kind: str, media_type: str, name: str, uploaded: UploadResponse) -> Content:
    content = Content()
    message: AudioMessage | DocumentMessage | ImageMessage | VideoMessage = getattr(content, f"{kind}Message")
    message.URL = uploaded.url
    message.directPath = uploaded.DirectPath
    message.mediaKey = uploaded.MediaKey
    message.fileEncSHA256 = uploaded.FileEncSHA256
    message.fileSHA256 = uploaded.FileSHA256
    message.fileLength = uploaded.FileLength
    message.mimetype = media_type
    if isinstance(message, DocumentMessage):
        message.fileName = message.title = name
    return content
