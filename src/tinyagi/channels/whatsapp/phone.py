"""The linked phone: what the channel needs of it, and neonize, which does it with WhatsApp's own protocol."""

import asyncio
import contextlib
import ctypes
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, Protocol

from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Event
from neonize.aioze.client import NewAClient
from neonize.events import EVENT_TO_INT, INT_TO_EVENT
from neonize.exc import NeonizeError
from neonize.proto.Neonize_pb2 import (
    JID,
    ClientOutdated,
    Connected,
    ConnectFailure,
    Disconnected,
    LoggedOut,
    StreamReplaced,
    TemporaryBan,
    UploadResponse,
)
from neonize.proto.Neonize_pb2 import Message as MessageEvent
from neonize.proto.waE2E.WAWebProtobufsE2E_pb2 import Message as Content
from neonize.utils.enum import ChatPresence, ChatPresenceMedia, MediaType

log = logging.getLogger(__name__)

STOP_TIME: Final = timedelta(seconds=5)
_EVENTS: Final = (
    ClientOutdated,
    Connected,
    ConnectFailure,
    Disconnected,
    LoggedOut,
    MessageEvent,
    StreamReplaced,
    TemporaryBan,
)


class PhoneError(Exception):
    """WhatsApp or the library refused a call."""


@dataclass(frozen=True, slots=True)
class PhoneIdentity:
    """Whose phone it is."""

    name: str
    users: frozenset[str]
    """The number and the hidden id (LID): people mention either."""


@dataclass(frozen=True, slots=True)
class Handlers:
    """Called in any thread. WhatsApp counts a message as received when `on_event` has returned."""

    on_qr: Callable[[str], None]
    on_event: Callable[[Event], None]


class Phone(Protocol):
    """A link with a phone; the tests have one that plays recorded events."""

    async def start(self, handlers: Handlers) -> None:
        """Connect in the background and stay connected."""

    async def ended(self) -> str:
        """Wait until the library gives up, and return why."""

    async def identity(self) -> PhoneIdentity:
        """Who is logged in; call it after the event Connected."""

    async def send(self, to: JID, content: Content) -> str:
        """Send a message and return its id; raise PhoneError."""

    async def upload(self, content: bytes, kind: str) -> UploadResponse:
        """Upload a file of the kind image, video, audio or document; raise PhoneError."""

    async def download(self, content: Content) -> bytes:
        """The file of a message; raise PhoneError."""

    async def show_typing(self, to: JID) -> None: ...

    async def stop(self) -> None: ...


class NeonizePhone:
    """A session of neonize, kept in a SQLite file. It connects again on its own."""

    def __init__(self, database: Path) -> None:
        # Their lines name people and messages.
        logging.getLogger("whatsmeow").setLevel(logging.WARNING)
        logging.getLogger("Whatsmeow").setLevel(logging.WARNING)
        self._client = NewAClient(str(database), uuid="tinyagi")
        self._running: asyncio.Task[None] | None = None
        self._is_connected = False

    async def start(self, handlers: Handlers) -> None:
        async def on_qr(_: NewAClient, code: bytes) -> None:
            handlers.on_qr(code.decode())

        def execute(uuid: int, binary: int, size: int, code: int) -> None:
            del uuid
            self._execute(handlers, ctypes.string_at(binary, size), code)

        self._client.event.qr(on_qr)
        # The library's own `execute` only schedules a task: a message would be confirmed before it is stored.
        self._client.event.execute = execute  # type: ignore[method-assign]
        self._client.event.list_func = dict.fromkeys((EVENT_TO_INT[event] for event in _EVENTS), _unused)
        self._running = await self._client.connect()

    def _execute(self, handlers: Handlers, content: bytes, code: int) -> None:
        """Handle an event; an exception must not get into the library's thread."""
        try:
            event = INT_TO_EVENT[code].FromString(content)
            self._is_connected = self._is_connected or isinstance(event, Connected)
            handlers.on_event(event)
        except (DecodeError, KeyError):
            log.warning("An event of WhatsApp (%d) is not understood and left out", code)
        except Exception:
            log.exception("A message of WhatsApp is lost")

    async def ended(self) -> str:
        if self._running is None:
            return "it was not started"
        try:
            await asyncio.shield(self._running)
        except NeonizeError as error:
            return str(error)
        return "it was stopped"

    async def identity(self) -> PhoneIdentity:
        me = await self._client.get_me()
        return PhoneIdentity(me.PushName or me.JID.User, frozenset(user for user in (me.JID.User, me.LID.User) if user))

    async def send(self, to: JID, content: Content) -> str:
        self._check()
        try:
            return (await self._client.send_message(to, content)).ID
        except NeonizeError as error:
            raise PhoneError(str(error)) from error

    async def upload(self, content: bytes, kind: str) -> UploadResponse:
        self._check()
        try:
            return await self._client.upload(content, MediaType[f"Media{kind.capitalize()}"])
        except NeonizeError as error:
            raise PhoneError(str(error)) from error

    async def download(self, content: Content) -> bytes:
        self._check()
        try:
            return await self._client.download_any(content)
        except NeonizeError as error:
            raise PhoneError(str(error)) from error

    async def show_typing(self, to: JID) -> None:
        self._check()
        try:
            await self._client.send_chat_presence(
                to, ChatPresence.CHAT_PRESENCE_COMPOSING, ChatPresenceMedia.CHAT_PRESENCE_MEDIA_TEXT
            )
        except NeonizeError as error:
            raise PhoneError(str(error)) from error

    async def stop(self) -> None:
        await self._client.stop()  # type: ignore[no-untyped-call]
        if self._running is not None:
            with contextlib.suppress(NeonizeError):
                await asyncio.wait({self._running}, timeout=STOP_TIME.total_seconds())

    def _check(self) -> None:
        """A call before the first connection would crash the process inside the library."""
        if not self._is_connected:
            raise PhoneError("not connected")


async def _unused(client: NewAClient, event: Event) -> None:
    """The entry in the table from which the library reads which events are wanted."""
