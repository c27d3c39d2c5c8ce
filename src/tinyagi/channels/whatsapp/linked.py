"""WhatsApp by a linked phone, as WhatsApp Web does it. The library cannot set message ids, so nothing is idempotent."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Event
from neonize.proto.Neonize_pb2 import (
    ClientOutdated,
    Connected,
    ConnectFailure,
    Disconnected,
    LoggedOut,
    StreamReplaced,
    TemporaryBan,
)
from neonize.proto.Neonize_pb2 import Message as MessageEvent
from neonize.proto.waE2E.WAWebProtobufsE2E_pb2 import ContextInfo, ExtendedTextMessage
from neonize.proto.waE2E.WAWebProtobufsE2E_pb2 import Message as Content

from tinyagi.channels.port import (
    Attachment,
    ChannelError,
    ChannelMessage,
    DeliveryError,
    FilePart,
    Manifest,
    NotSetUp,
    Part,
    Receive,
)
from tinyagi.channels.turns import Turns
from tinyagi.channels.whatsapp.formatting import to_whatsapp
from tinyagi.channels.whatsapp.linked_files import file_content
from tinyagi.channels.whatsapp.linked_messages import LinkedMessage, address_of, parse_event, stanza_id
from tinyagi.channels.whatsapp.manifest import MANIFEST
from tinyagi.channels.whatsapp.message_ids import Recent
from tinyagi.channels.whatsapp.phone import Handlers, NeonizePhone, Phone, PhoneError, PhoneIdentity
from tinyagi.channels.whatsapp.qr import QrFile
from tinyagi.channels.whatsapp.spool import Spool
from tinyagi.domain.chats import Chat

log = logging.getLogger(__name__)

LINKED_MANIFEST: Final = replace(
    MANIFEST,
    receive_limit=64_000_000,
    send_limit=64_000_000,
    typing_seconds=10.0,
    packages={"neonize": "tinyagi[whatsapp]"},
)
CONNECT_TIME: Final = timedelta(seconds=180)
"""Six QR codes in a row; a known session needs seconds."""
_CHUNK: Final = 262_144
_LIMITED: Final = ("429", "rate-overlimit")
_REFUSED: Final = ("403", "forbidden", "not-authorized", "404", "item-not-found", "no LID found", "not a participant")


@dataclass(frozen=True, slots=True)
class _Stored:
    """A message in the spool."""

    path: Path
    event: MessageEvent


@dataclass(frozen=True, slots=True)
class _Quotation:
    sender: str
    text: str


class LinkedChannel:
    """One phone, linked by a QR code; its session is in the state folder."""

    def __init__(
        self, settings: Mapping[str, str], state: Path, open_phone: Callable[[Path], Phone] = NeonizePhone
    ) -> None:
        del settings  # A linked phone needs none.
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._database = state / "session.db"
        self._database.touch(mode=0o600)
        self._qr = QrFile(state)
        self._spool = Spool(state / "inbox")
        self._phone = open_phone(self._database)
        self._queue: asyncio.Queue[_Stored | ChannelError] = asyncio.Queue()
        self._turns = Turns()
        self._quotations = Recent[_Quotation](1_000)
        self._identity = PhoneIdentity("", frozenset())
        self._changed = asyncio.Event()
        """Set with the first connection, and by a failure."""
        self._error: ChannelError | None = None
        self._watch: asyncio.Task[None] | None = None
        self.on_qr: Callable[[str], None] | None = None
        """Called with each QR code, in any thread."""

    @property
    def manifest(self) -> Manifest:
        return LINKED_MANIFEST

    async def connect(self) -> str:
        """Log in; without a session wait until the QR code is scanned in `qr.txt`."""
        self._loop = asyncio.get_running_loop()
        self._load_waiting()
        await self._phone.start(Handlers(self._show_qr, self._on_event))
        self._watch = asyncio.create_task(self._watch_end())
        try:
            async with asyncio.timeout(CONNECT_TIME.total_seconds()):
                await self._changed.wait()
        except TimeoutError as error:
            raise ChannelError(
                "The phone is not linked. Start the channel and scan its QR code within three minutes."
            ) from error
        if self._error is not None:
            raise self._error
        self._identity = await self._phone.identity()
        return self._identity.name

    def _load_waiting(self) -> None:
        """Queue what an earlier process did not pass on."""
        for path, content in self._spool.waiting():
            try:
                self._queue.put_nowait(_Stored(path, MessageEvent.FromString(content)))
            except DecodeError:
                log.warning("A stored message of WhatsApp is damaged and left out")
                self._spool.remove(path)

    def _show_qr(self, code: str) -> None:
        self._qr.write(code)
        log.info("Scan the QR code on the phone: WhatsApp, Linked devices, Link a device")
        if self.on_qr is not None:
            self.on_qr(code)

    def _on_event(self, event: Event) -> None:
        """Store a message before the library goes on, and leave the rest to the event loop."""
        # A closed loop loses no message: the next process finds it in the spool.
        with contextlib.suppress(RuntimeError):
            if isinstance(event, MessageEvent):
                stored = _Stored(self._spool.add(event.SerializeToString()), event)
                self._loop.call_soon_threadsafe(self._queue.put_nowait, stored)
            else:
                self._loop.call_soon_threadsafe(self._change_state, event)

    def _change_state(self, event: Event) -> None:
        match event:
            case Connected():
                self._qr.remove()
                self._changed.set()
            case Disconnected():
                log.info("The connection with WhatsApp is interrupted; it connects again")
            case LoggedOut():
                self._fail(
                    ChannelError("The phone has ended the link. Start the channel again and scan the new QR code.")
                )
            case StreamReplaced():
                self._fail(ChannelError("Another program uses this session. Stop it, then start the channel again."))
            case TemporaryBan():
                self._fail(
                    NotSetUp("WhatsApp has banned this number for a time. Open WhatsApp on the phone to see why.")
                )
            case ClientOutdated():
                self._fail(
                    NotSetUp("WhatsApp refuses this version of neonize. Run: pip install -U 'tinyagi[whatsapp]'")
                )
            case ConnectFailure():
                self._fail(ChannelError(f"WhatsApp refused the connection: {event.Message or 'no reason given'}"))

    async def _watch_end(self) -> None:
        reason = await self._phone.ended()
        self._fail(ChannelError(f"The connection with WhatsApp has ended: {reason}"))

    def _fail(self, error: ChannelError) -> None:
        if self._error is None:
            self._error = error
            self._changed.set()
            self._queue.put_nowait(error)

    async def receive(self, receive: Receive) -> None:
        running: set[asyncio.Task[None]] = set()
        try:
            while True:
                stored = await self._queue.get()
                if isinstance(stored, ChannelError):
                    raise stored
                task = asyncio.create_task(self._hand_over(stored, receive))
                running.add(task)
                task.add_done_callback(running.discard)
                task.add_done_callback(self._check_handed_over)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def _check_handed_over(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            self._fail(ChannelError(f"A message of WhatsApp could not be passed on: {error}"))

    async def _hand_over(self, stored: _Stored, receive: Receive) -> None:
        message = parse_event(stored.event, self._identity.users)
        if message is not None:
            async with self._turns.of(message.chat.address):
                self._quotations.set(message.id, _Quotation(message.sender, message.text))
                await receive(self._received(message))
        self._spool.remove(stored.path)

    def _received(self, message: LinkedMessage) -> ChannelMessage:
        attachments: tuple[Attachment, ...] = ()
        if message.file is not None:
            attachments = (Attachment(message.file, message.size, partial(self._download, message)),)
        return ChannelMessage(
            message.id, message.chat, message.name, message.text, attachments, is_from_bot=message.is_from_bot
        )

    async def _download(self, message: LinkedMessage) -> AsyncIterator[bytes]:
        limit = LINKED_MANIFEST.receive_limit
        if message.size is not None and message.size > limit:
            raise ChannelError(f"The file is larger than {limit // 1_000_000} MB.")
        try:
            content = await self._phone.download(message.content)
        except PhoneError as error:
            raise ChannelError(f"The file could not be fetched from WhatsApp: {error}") from error
        for start in range(0, len(content), _CHUNK):
            yield content[start : start + _CHUNK]

    async def send(self, part: Part) -> str:
        text = to_whatsapp(part.text)
        content = Content(extendedTextMessage=ExtendedTextMessage(text=text if text.strip() else part.text))
        return await self._deliver(part.chat, content, part.reply_to)

    async def send_file(self, part: FilePart) -> str:
        content = await file_content(part, self._phone, LINKED_MANIFEST.send_limit)
        return await self._deliver(part.chat, content, part.reply_to)

    async def _deliver(self, chat: Chat, content: Content, reply_to: str | None) -> str:
        quotation = self._quotations.get(reply_to) if reply_to else None
        if reply_to and quotation is not None:
            kind = content.ListFields()[0][0].name
            getattr(content, kind).contextInfo.CopyFrom(
                ContextInfo(
                    stanzaID=stanza_id(reply_to),
                    participant=quotation.sender,
                    quotedMessage=Content(conversation=quotation.text),
                )
            )
        try:
            return await self._phone.send(address_of(chat), content)
        except ValueError as error:
            raise DeliveryError(str(error), is_final=True) from error
        except PhoneError as error:
            raise delivery_error(error) from error

    async def show_typing(self, chat: Chat) -> None:
        try:
            await self._phone.show_typing(address_of(chat))
        except (PhoneError, ValueError) as error:
            log.debug("WhatsApp does not show that an answer is written: %s", error)

    async def edit(self, chat: Chat, sent: str, text: str) -> None:
        del chat, sent, text
        raise DeliveryError("Messages of the linked phone are not changed.", is_final=True)

    async def remove(self, chat: Chat, sent: str) -> None:
        del chat, sent
        raise DeliveryError("Messages of the linked phone are not removed.", is_final=True)

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._qr.remove()
        await self._phone.stop()


def _failure(event: Event) -> ChannelError | None:
    """Why the link cannot go on after this event; None when it can."""
    match event:
        case LoggedOut():
            return ChannelError("The phone has ended the link. Start the channel again and scan the new QR code.")
        case StreamReplaced():
            return ChannelError("Another program uses this session. Stop it, then start the channel again.")
        case TemporaryBan():
            return NotSetUp("WhatsApp has banned this number for a time. Open WhatsApp on the phone to see why.")
        case ClientOutdated():
            return NotSetUp("WhatsApp refuses this version of neonize. Run: pip install -U 'tinyagi[whatsapp]'")
        case ConnectFailure():
            return ChannelError(f"WhatsApp refused the connection: {event.Message or 'no reason given'}")
    return None


def delivery_error(error: PhoneError) -> DeliveryError:
    """Why the phone did not send."""
    said = str(error)
    if any(word in said for word in _LIMITED):
        return DeliveryError("WhatsApp limits how much this number may send now.", retry_after=60.0)
    if any(word in said for word in _REFUSED):
        return DeliveryError(f"WhatsApp does not let this number write to the chat: {said}", is_final=True)
    return DeliveryError(f"WhatsApp did not take the message: {said}")
