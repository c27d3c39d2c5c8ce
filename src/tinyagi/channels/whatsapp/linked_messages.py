"""Messages of a linked phone: from neonize's events to what the channel passes on."""

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from neonize.proto.Neonize_pb2 import JID
from neonize.proto.Neonize_pb2 import Message as MessageEvent
from neonize.proto.waE2E.WAWebProtobufsE2E_pb2 import ContextInfo
from neonize.proto.waE2E.WAWebProtobufsE2E_pb2 import Message as Content

from tinyagi.channels.whatsapp.media import incoming_name
from tinyagi.domain.chats import Chat

_PEOPLE: Final = "s.whatsapp.net"
_HIDDEN: Final = "lid"
_GROUPS: Final = "g.us"
_BOTS: Final = "bot"
_HIDDEN_PREFIX: Final = "lid."
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,90}")
_USER: Final = re.compile(r"[0-9-]{1,40}")
_WRAPPERS: Final = (
    "ephemeralMessage",
    "viewOnceMessage",
    "viewOnceMessageV2",
    "viewOnceMessageV2Extension",
    "documentWithCaptionMessage",
)
_MEDIA: Final = {
    "imageMessage": "image",
    "documentMessage": "document",
    "audioMessage": "audio",
    "videoMessage": "video",
    "ptvMessage": "video",
    "stickerMessage": "sticker",
}
_SILENT: Final = frozenset(
    {
        "senderKeyDistributionMessage",
        "fastRatchetKeySenderKeyDistributionMessage",
        "messageContextInfo",
        "protocolMessage",
        "reactionMessage",
        "encReactionMessage",
        "pollUpdateMessage",
        "keepInChatMessage",
        "pinInChatMessage",
        "editedMessage",
        "call",
        "callLogMesssage",
        "stickerSyncRmrMessage",
        "messageHistoryBundle",
        "messageHistoryNotice",
        "groupRootKeyShare",
        "albumMessage",
        "secretEncryptedMessage",
    }
)
"""What clients tell each other; it needs no answer."""


@dataclass(frozen=True, slots=True)
class LinkedMessage:
    """A message of a person, to the account or in a group where it is mentioned."""

    id: str
    chat: Chat
    name: str
    text: str
    sender: str
    """The address that a quotation names."""
    content: Content
    file: str | None = None
    size: int | None = None
    is_from_bot: bool = False


def parse_event(event: MessageEvent, own: frozenset[str]) -> LinkedMessage | None:
    """The message of an event, or None when it asks for no answer of ours; `own` are our user ids."""
    info = event.Info
    source = info.MessageSource
    content = _unwrapped(event.Message)
    kind = _kind(content)
    if source.IsFromMe or event.IsEdit or kind is None or source.Chat.Server not in {_PEOPLE, _HIDDEN, _GROUPS, _BOTS}:
        return None
    sender = source.SenderAlt if source.Sender.Server == _HIDDEN and source.SenderAlt.User else source.Sender
    person = f"{_HIDDEN_PREFIX}{sender.User}" if sender.Server == _HIDDEN else sender.User
    place = source.Chat.User if source.Chat.Server == _GROUPS else ""
    if not _USER.fullmatch(sender.User) or (place and not _USER.fullmatch(place)):
        return None
    text = _text(content, kind)
    if place:
        if not _is_for_us(_context(content, kind), own):
            return None
        text = _without_mentions(text, own)
    return LinkedMessage(
        id=_message_id(place or person, info.ID),
        chat=Chat(person, place),
        name=" ".join(info.Pushname.split())[:100] or person,
        text=text,
        sender=f"{source.Sender.User}@{source.Sender.Server}",
        content=content,
        file=_file_name(content, kind, info.ID),
        size=getattr(content, kind).fileLength if kind in _MEDIA else None,
        is_from_bot=source.Sender.Server == _BOTS,
    )


def address_of(chat: Chat) -> JID:
    """Where an answer goes; raise ValueError for a chat that is not one of WhatsApp."""
    user, server = chat.person, _PEOPLE
    if chat.place:
        user, server = chat.place, _GROUPS
    elif chat.person.startswith(_HIDDEN_PREFIX):
        user, server = chat.person.removeprefix(_HIDDEN_PREFIX), _HIDDEN
    if not _USER.fullmatch(user):
        raise ValueError(f"{chat.address!r} is not a chat of WhatsApp.")
    return JID(User=user, RawAgent=0, Device=0, Integrator=0, Server=server, IsEmpty=False)


def stanza_id(message_id: str) -> str:
    """The id on WhatsApp of a message."""
    return message_id.rpartition(".")[2]


def _message_id(chat: str, stanza: str) -> str:
    joined = f"{chat}.{stanza}"
    return joined if _ID.fullmatch(joined) and "." not in stanza else hashlib.sha256(joined.encode()).hexdigest()


def _unwrapped(content: Content) -> Content:
    for _ in range(4):
        wrapper = next((name for name in _WRAPPERS if content.HasField(name)), None)
        if wrapper is None:
            return content
        content = getattr(content, wrapper).message
    return content


def _kind(content: Content) -> str | None:
    """The field that has the message, or None when there is none for people."""
    return next((field.name for field, _ in content.ListFields() if field.name not in _SILENT), None)


def _context(content: Content, kind: str) -> ContextInfo | None:
    part = getattr(content, kind)
    return part.contextInfo if hasattr(part, "contextInfo") else None


def _is_for_us(context: ContextInfo | None, own: frozenset[str]) -> bool:
    if context is None:
        return False
    named = [*context.mentionedJID, context.participant if context.HasField("quotedMessage") else ""]
    return any(address.partition("@")[0].partition(":")[0] in own for address in named if address)


def _without_mentions(text: str, own: frozenset[str]) -> str:
    for user in own:
        text = re.sub(rf"@{re.escape(user)}(?!\d)[ \t]?", "", text)
    return text.strip()


def _file_name(content: Content, kind: str, stanza: str) -> str | None:
    if kind not in _MEDIA:
        return None
    name = content.documentMessage.fileName if kind == "documentMessage" else ""
    is_voice = kind == "audioMessage" and content.audioMessage.PTT
    return name or incoming_name("voice" if is_voice else _MEDIA[kind], stanza, getattr(content, kind).mimetype)


def _text(content: Content, kind: str) -> str:
    part = getattr(content, kind)
    if kind == "conversation":
        return content.conversation
    if kind in _MEDIA:
        return str(getattr(part, "caption", ""))
    if kind == "locationMessage":
        words = [part.name, part.address, f"{part.degreesLatitude:.6f}, {part.degreesLongitude:.6f}"]
        return f"[location: {'; '.join(word for word in words if word)}]"
    if kind == "contactMessage":
        return f"[contact: {part.displayName}]"
    written = getattr(part, "text", "") or getattr(part, "selectedDisplayText", "")
    return str(written) or f"[a message of the kind {kind.removesuffix('Message')!r}, which cannot be shown here]"
