"""Names of files that come in, and how WhatsApp takes files that go out."""

import mimetypes
import re
from dataclasses import dataclass
from typing import Final

MEGABYTE: Final = 1_000_000
_EXTENSIONS: Final = {
    "audio/ogg": ".ogg",
    "audio/mpeg": ".mp3",
    "audio/mp4": ".m4a",
    "audio/aac": ".aac",
    "audio/amr": ".amr",
    "image/jpeg": ".jpg",
    "image/webp": ".webp",
    "video/3gpp": ".3gp",
    "text/plain": ".txt",
}
_IMAGES: Final = frozenset({"image/jpeg", "image/png"})
_AUDIO: Final = frozenset({"audio/aac", "audio/amr", "audio/mp4", "audio/mpeg", "audio/ogg"})
_VIDEO: Final = frozenset({"video/3gpp", "video/mp4"})
_DOCUMENTS: Final = frozenset(
    {
        "application/msword",
        "application/pdf",
        "application/vnd.ms-excel",
        "application/vnd.ms-powerpoint",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "text/plain",
    }
)
_GUESSES: Final = {".m4a": "audio/mp4", ".ogg": "audio/ogg", ".opus": "audio/ogg", ".amr": "audio/amr"}


@dataclass(frozen=True, slots=True)
class Outgoing:
    """How a file is sent: the kind of message, its media type, and how large it may be."""

    kind: str
    media_type: str
    limit: int


def incoming_name(kind: str, media_id: str, media_type: str) -> str:
    """A name for a file without one."""
    plain = media_type.partition(";")[0].strip().lower()
    extension = _EXTENSIONS.get(plain) or mimetypes.guess_extension(plain) or ".bin"
    number = re.sub(r"[^A-Za-z0-9_-]", "", media_id)[-40:]
    return f"{kind}_{number}{extension}" if number else f"{kind}{extension}"


def outgoing(name: str, head: bytes) -> Outgoing | None:
    """How WhatsApp takes a file with this name and beginning; None when it takes no such file."""
    extension = "." + name.rpartition(".")[2].lower()
    guessed = _GUESSES.get(extension) or mimetypes.guess_type(name)[0] or ""
    if guessed in _IMAGES:
        return Outgoing("image", guessed, 5 * MEGABYTE)
    if guessed in _AUDIO:
        return Outgoing("audio", guessed, 16 * MEGABYTE)
    if guessed in _VIDEO:
        return Outgoing("video", guessed, 16 * MEGABYTE)
    if guessed in _DOCUMENTS:
        return Outgoing("document", guessed, 100 * MEGABYTE)
    if _is_text(head):
        # Source code, Markdown, CSV and JSON: WhatsApp knows plain text only, and keeps the name.
        return Outgoing("document", "text/plain", 100 * MEGABYTE)
    return None


def _is_text(head: bytes) -> bool:
    if b"\0" in head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        # The beginning can end within a character.
        return error.start >= len(head) - 3
    return True
