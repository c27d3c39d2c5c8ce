"""A linked phone that plays events: neonize cannot connect in a test, so its real events are built here.

The events have the fields that neonize 0.5.2 fills, and arrive in another thread, as the library's do.
"""

import asyncio
import itertools
import threading
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import Message as Event
from neonize.proto.Neonize_pb2 import JID, Connected, MessageInfo, MessageSource, UploadResponse
from neonize.proto.Neonize_pb2 import Message as MessageEvent
from neonize.proto.waE2E.WAWebProtobufsE2E_pb2 import Message as Content

from tinyagi.channels.whatsapp.linked import LinkedChannel
from tinyagi.channels.whatsapp.phone import Handlers, PhoneError, PhoneIdentity

OWN, OWN_HIDDEN = "393330000", "99887766"


def jid(user: str, server: str = "s.whatsapp.net") -> JID:
    return JID(User=user, RawAgent=0, Device=0, Integrator=0, Server=server, IsEmpty=not user)


def message_event(
    content: Content,
    *,
    stanza: str = "3EB0C0FFEE",
    sender: JID | None = None,
    sender_alt: JID | None = None,
    chat: JID | None = None,
    name: str = "Ada",
    is_from_me: bool = False,
    is_edit: bool = False,
) -> MessageEvent:
    """An event as neonize hands it over."""
    sender = sender or jid("7")
    source = MessageSource(
        Chat=chat or sender,
        Sender=sender,
        IsFromMe=is_from_me,
        IsGroup=bool(chat and chat.Server == "g.us"),
        SenderAlt=sender_alt or jid("", ""),
        RecipientAlt=jid("", ""),
        BroadcastListOwner=jid("", ""),
    )
    info = MessageInfo(
        MessageSource=source,
        ID=stanza,
        ServerID=0,
        Type="text",
        Pushname=name,
        Timestamp=1,
        Category="",
        Multicast=False,
        MediaType="",
        Edit="",
    )
    return MessageEvent(
        Info=info,
        Message=content,
        IsEphemeral=False,
        IsViewOnce=False,
        IsViewOnceV2=False,
        IsViewOnceV2Extension=False,
        IsDocumentWithCaption=False,
        IsLottieSticker=False,
        IsEdit=is_edit,
        UnavailableRequestID="",
        RetryCount=0,
    )


@dataclass(frozen=True, slots=True)
class Sent:
    to: str
    content: Content


class RecordedPhone:
    """Implements `Phone`."""

    def __init__(self, *, is_linked: bool = True) -> None:
        self._is_linked = is_linked
        self._numbers = itertools.count(1)
        self._end: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.handlers: Handlers | None = None
        self.started = asyncio.Event()
        self.sent: list[Sent] = []
        self.uploads: list[tuple[str, bytes]] = []
        self.typing: list[str] = []
        self.downloads = 0
        self.files: dict[bytes, bytes] = {}
        """Content by its hash."""
        self.error: str | None = None
        """The library's error for the next calls."""

    async def start(self, handlers: Handlers) -> None:
        self.handlers = handlers
        if self._is_linked:
            self.play(Connected(status=True))
        self.started.set()

    def play(self, event: Event) -> None:
        """Hand over an event in another thread, and wait until it is taken."""
        assert self.handlers is not None
        thread = threading.Thread(target=self.handlers.on_event, args=(event,))
        thread.start()
        thread.join(10)

    def end(self, reason: str) -> None:
        self._end.set_result(reason)

    async def ended(self) -> str:
        return await asyncio.shield(self._end)

    async def identity(self) -> PhoneIdentity:
        return PhoneIdentity("Nova", frozenset({OWN, OWN_HIDDEN}))

    async def send(self, to: JID, content: Content) -> str:
        self._refuse()
        self.sent.append(Sent(f"{to.User}@{to.Server}", content))
        return f"3EB0{next(self._numbers)}"

    async def upload(self, content: bytes, kind: str) -> UploadResponse:
        self._refuse()
        self.uploads.append((kind, content))
        return UploadResponse(
            url="https://mmg.whatsapp.net/f",
            DirectPath="/f",
            Handle="h",
            MediaKey=b"k",
            FileEncSHA256=b"e",
            FileSHA256=b"s",
            FileLength=len(content),
        )

    async def download(self, content: Content) -> bytes:
        self._refuse()
        self.downloads += 1
        media = getattr(content, content.ListFields()[0][0].name)
        return self.files[media.fileSHA256]

    async def show_typing(self, to: JID) -> None:
        self._refuse()
        self.typing.append(f"{to.User}@{to.Server}")

    async def stop(self) -> None:
        pass

    def _refuse(self) -> None:
        if self.error is not None:
            raise PhoneError(self.error)


def channel_on(phone: RecordedPhone, state: Path) -> LinkedChannel:
    return LinkedChannel({}, state, lambda database: phone)
