"""What Meta posts to the webhook, parsed once: messages of people, and messages of ours that failed."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from tinyagi.channels.whatsapp.graph_errors import ErrorBody
from tinyagi.channels.whatsapp.media import incoming_name

log = logging.getLogger(__name__)

_MEDIA: Final = ("image", "document", "audio", "video", "sticker")
_SILENT: Final = frozenset({"reaction", "system", "request_welcome", "ephemeral"})
"""Kinds that ask for no answer."""


class _Text(msgspec.Struct):
    body: str = ""


class _Media(msgspec.Struct):
    id: str
    mime_type: str = ""
    filename: str = ""
    caption: str = ""
    voice: bool = False


class _Location(msgspec.Struct):
    latitude: float
    longitude: float
    name: str = ""
    address: str = ""


class _ContactName(msgspec.Struct):
    formatted_name: str = ""


class _Phone(msgspec.Struct):
    phone: str = ""


class _Email(msgspec.Struct):
    email: str = ""


class _Contact(msgspec.Struct):
    name: _ContactName = msgspec.field(default_factory=_ContactName)
    phones: list[_Phone] = []
    emails: list[_Email] = []


class _Button(msgspec.Struct):
    text: str = ""


class _Reply(msgspec.Struct):
    title: str = ""
    description: str = ""


class _Form(msgspec.Struct):
    body: str = ""
    response_json: str = ""


class _Interactive(msgspec.Struct):
    button_reply: _Reply | None = None
    list_reply: _Reply | None = None
    nfm_reply: _Form | None = None


class _Message(msgspec.Struct, rename={"sender": "from"}):
    id: str
    type: str
    sender: str = ""
    from_user_id: str = ""
    group_id: str = ""
    text: _Text | None = None
    image: _Media | None = None
    document: _Media | None = None
    audio: _Media | None = None
    video: _Media | None = None
    sticker: _Media | None = None
    location: _Location | None = None
    contacts: list[_Contact] = []
    button: _Button | None = None
    interactive: _Interactive | None = None


class _Profile(msgspec.Struct):
    name: str = ""


class _Person(msgspec.Struct):
    wa_id: str = ""
    user_id: str = ""
    profile: _Profile = msgspec.field(default_factory=_Profile)


class _Status(msgspec.Struct):
    status: str = ""
    errors: list[ErrorBody] = []


class _Metadata(msgspec.Struct):
    phone_number_id: str = ""


class _Value(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    contacts: list[_Person] = []
    messages: list[msgspec.Raw] = []
    statuses: list[msgspec.Raw] = []


class _Change(msgspec.Struct):
    field: str = ""
    value: msgspec.Raw = msgspec.Raw(b"{}")


class _Entry(msgspec.Struct):
    changes: list[_Change] = []


class _Post(msgspec.Struct):
    entry: list[_Entry] = []


@dataclass(frozen=True, slots=True)
class File:
    media_id: str
    name: str


@dataclass(frozen=True, slots=True)
class CloudMessage:
    """A message of a person."""

    wamid: str
    person: str
    """The number, or for a person with a username the id that Meta made for this business."""
    name: str
    text: str
    file: File | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """A message of ours that WhatsApp had accepted and could not deliver."""

    errors: list[ErrorBody]


def parse_post(body: bytes, phone_number_id: str) -> Iterator[CloudMessage | Failed]:
    """What a post says about our number, in its order; raise msgspec.DecodeError when it is not such a post.

    A single message that does not parse is logged and left out: Meta would repeat the whole post for days.
    """
    for entry in msgspec.json.decode(body, type=_Post).entry:
        for change in entry.changes:
            if change.field != "messages":
                continue
            value = msgspec.json.decode(change.value, type=_Value)
            if value.metadata.phone_number_id == phone_number_id:
                yield from _failed(value)
                yield from _messages(value)


def _failed(value: _Value) -> Iterator[Failed]:
    for raw in value.statuses:
        try:
            status = msgspec.json.decode(raw, type=_Status)
        except msgspec.DecodeError as error:
            log.warning("A status of WhatsApp is not understood: %s", error)
            continue
        if status.status == "failed":
            yield Failed(status.errors)


def _messages(value: _Value) -> Iterator[CloudMessage]:
    names = {key: person.profile.name for person in value.contacts for key in (person.wa_id, person.user_id) if key}
    for raw in value.messages:
        try:
            message = msgspec.json.decode(raw, type=_Message)
        except msgspec.DecodeError as error:
            log.warning("A message of WhatsApp is not understood and left out: %s", error)
            continue
        person = message.sender or message.from_user_id
        if message.type in _SILENT or message.group_id:
            continue
        if not _is_person(person) or not message.id:
            log.warning("A message of WhatsApp has no sender and is left out")
            continue
        name = names.get(message.sender) or names.get(message.from_user_id) or ""
        yield CloudMessage(message.id, person, " ".join(name.split())[:100] or person, _text(message), _file(message))


def _is_person(person: str) -> bool:
    return 0 < len(person) <= 150 and person.isascii() and person.replace(".", "").isalnum()


def _media_of(message: _Message) -> _Media | None:
    found = (message.image, message.document, message.audio, message.video, message.sticker)
    return next((media for kind, media in zip(_MEDIA, found, strict=True) if kind == message.type and media), None)


def _file(message: _Message) -> File | None:
    media = _media_of(message)
    if media is None:
        return None
    kind = "voice" if media.voice else message.type
    return File(media.id, media.filename or incoming_name(kind, media.id, media.mime_type))


def _text(message: _Message) -> str:
    media = _media_of(message)
    if media is not None:
        return media.caption
    match message:
        case _Message(text=_Text(body=text)) | _Message(button=_Button(text=text)):
            return text
        case _Message(location=_Location() as location):
            return _location(location)
        case _Message(interactive=_Interactive() as reply):
            return _interactive(reply)
    if message.contacts:
        return "\n".join(_contact(contact) for contact in message.contacts)
    return f"[a message of the kind {message.type!r}, which cannot be shown here]"


def _location(location: _Location) -> str:
    words = [location.name, location.address, f"{location.latitude:.6f}, {location.longitude:.6f}"]
    return f"[location: {'; '.join(word for word in words if word)}]"


def _contact(contact: _Contact) -> str:
    words = [
        contact.name.formatted_name,
        *(one.phone for one in contact.phones),
        *(one.email for one in contact.emails),
    ]
    return f"[contact: {', '.join(word for word in words if word)}]"


def _interactive(reply: _Interactive) -> str:
    chosen = reply.button_reply or reply.list_reply
    if chosen is not None:
        return "\n".join(word for word in (chosen.title, chosen.description) if word)
    return reply.nfm_reply.response_json or reply.nfm_reply.body if reply.nfm_reply else ""
