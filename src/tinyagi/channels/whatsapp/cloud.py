"""WhatsApp by Meta's Cloud API: signed posts in, Graph calls out."""

import asyncio
import hashlib
import hmac
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from tinyagi.channels.listener import Answer, ListenAddress, Request, listener
from tinyagi.channels.port import (
    Attachment,
    ChannelMessage,
    DeliveryError,
    FilePart,
    Manifest,
    NotSetUp,
    Part,
    Receive,
)
from tinyagi.channels.turns import Turns
from tinyagi.channels.whatsapp.cloud_messages import CloudMessage, Failed, parse_post
from tinyagi.channels.whatsapp.formatting import to_whatsapp
from tinyagi.channels.whatsapp.graph import Graph, Upload
from tinyagi.channels.whatsapp.graph_errors import status_sentence
from tinyagi.channels.whatsapp.manifest import DEFAULT_API, DEFAULT_PORT, MANIFEST
from tinyagi.channels.whatsapp.media import MEGABYTE, outgoing
from tinyagi.channels.whatsapp.message_ids import MessageIds, Recent
from tinyagi.domain.chats import Chat

log = logging.getLogger(__name__)

BODY_LIMIT: Final = 4 * 1_048_576
"""Meta's posts have up to 3 MB."""
_REQUIRED: Final = ("phone_number_id", "access_token", "app_secret", "verify_token")
_HEAD: Final = 65_536


class CloudChannel:
    """Takes Meta's signed posts for one business number and answers through the Graph API."""

    def __init__(self, settings: Mapping[str, str], state: Path) -> None:
        del state  # Meta repeats what was not confirmed, so nothing is kept here.
        missing = [name for name in _REQUIRED if not settings.get(name)]
        if missing:
            raise NotSetUp(f"WhatsApp needs {', '.join(missing)}. Set them with: tinyagi channel setup whatsapp")
        self._number_id = settings["phone_number_id"]
        if not (self._number_id.isascii() and self._number_id.isdigit()):
            raise NotSetUp("phone_number_id has digits only. Take the ID from the page API Setup.")
        if not settings["access_token"].isascii() or not settings["access_token"].isprintable():
            raise NotSetUp("access_token has characters that no token has. Copy it again.")
        self._app_secret = settings["app_secret"].encode()
        self._verify_token = settings["verify_token"].encode()
        self._place = ListenAddress.of(settings, DEFAULT_PORT)
        self._graph = Graph(settings.get("api_url") or DEFAULT_API, self._number_id, settings["access_token"])
        self._turns = Turns()
        self._ids = MessageIds()
        self._last = Recent[str](10_000)
        """The last message of each person: the sign of typing belongs to it."""

    @property
    def manifest(self) -> Manifest:
        return MANIFEST

    async def connect(self) -> str:
        return await self._graph.account() or self._number_id

    async def receive(self, receive: Receive) -> None:
        async def post(request: Request) -> Answer:
            return await self._post(request, receive)

        routes = {
            (method, path): handler
            for path in ("/", "/whatsapp")
            for method, handler in (("GET", self._verify), ("POST", post))
        }
        async with listener(self._place, routes, body_limit=BODY_LIMIT):
            await asyncio.get_running_loop().create_future()

    async def _verify(self, request: Request) -> Answer:
        """Answer the challenge with which Meta checks the address once."""
        token = request.query.get("hub.verify_token", "").encode()
        if request.query.get("hub.mode") == "subscribe" and hmac.compare_digest(token, self._verify_token):
            return Answer(200, request.query.get("hub.challenge", ""))
        return Answer(403, "The verify token is wrong. Enter the one of this channel's settings.")

    async def _post(self, request: Request, receive: Receive) -> Answer:
        signature = "sha256=" + hmac.new(self._app_secret, request.body, hashlib.sha256).hexdigest()
        given = request.headers.get("x-hub-signature-256", "")
        if not hmac.compare_digest(given.encode("latin-1"), signature.encode()):
            log.warning("A post to the WhatsApp channel has a wrong signature. Check app_secret when Meta sent it.")
            return Answer(401, "The signature is wrong.")
        try:
            updates = list(parse_post(request.body, self._number_id))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return Answer(400, f"This is not a post of the Cloud API: {error}")
        by_person: defaultdict[str, list[CloudMessage]] = defaultdict(list)
        for update in updates:
            if isinstance(update, Failed):
                log.warning("WhatsApp did not deliver a message: %s", status_sentence(update.errors))
            else:
                by_person[update.person].append(update)
        async with asyncio.TaskGroup() as group:
            for person, messages in by_person.items():
                group.create_task(self._hand_over(person, messages, receive))
        return Answer(200)

    async def _hand_over(self, person: str, messages: list[CloudMessage], receive: Receive) -> None:
        async with self._turns.of(person):
            for message in messages:
                self._last.set(person, message.wamid)
                await receive(self._received(message))

    def _received(self, message: CloudMessage) -> ChannelMessage:
        attachments: tuple[Attachment, ...] = ()
        if message.file is not None:
            attachments = (Attachment(message.file.name, None, partial(self._download, message.file.media_id)),)
        return ChannelMessage(
            self._ids.encode(message.wamid), Chat(message.person), message.name, message.text, attachments
        )

    def _download(self, media_id: str) -> AsyncIterator[bytes]:
        return self._graph.download(media_id, MANIFEST.receive_limit)

    async def send(self, part: Part) -> str:
        text = to_whatsapp(part.text)
        if not text.strip():
            text = part.text
        body = {"type": "text", "text": {"body": text, "preview_url": False}}
        return await self._graph.send({**self._envelope(part.chat, part.reply_to), **body})

    async def send_file(self, part: FilePart) -> str:
        try:
            upload, kind = await asyncio.to_thread(_upload, part)
            media_id = await self._graph.upload(upload)
        except OSError as error:
            raise DeliveryError(f"The file {part.name!r} cannot be read: {error.strerror}.", is_final=True) from error
        media = {"id": media_id, "filename": part.name} if kind == "document" else {"id": media_id}
        return await self._graph.send({**self._envelope(part.chat, part.reply_to), "type": kind, kind: media})

    def _envelope(self, chat: Chat, reply_to: str | None) -> Mapping[str, object]:
        # A person with a username is known by an id of Meta's, which has a field of its own.
        address = "to" if chat.person.isdigit() else "recipient"
        envelope: dict[str, object] = {"recipient_type": "individual", address: chat.person}
        quoted = self._ids.decode(reply_to) if reply_to else None
        if quoted is not None:
            envelope["context"] = {"message_id": quoted}
        return envelope

    async def show_typing(self, chat: Chat) -> None:
        wamid = self._last.get(chat.person)
        if wamid is None:
            return
        try:
            await self._graph.mark_typing(wamid)
        except DeliveryError as error:
            log.debug("WhatsApp does not show that an answer is written: %s", error)

    async def edit(self, chat: Chat, sent: str, text: str) -> None:
        del chat, sent, text
        raise DeliveryError("The Cloud API cannot change a message.", is_final=True)

    async def remove(self, chat: Chat, sent: str) -> None:
        del chat, sent
        raise DeliveryError("The Cloud API cannot remove a message.", is_final=True)

    async def close(self) -> None:
        await self._graph.close()


def _upload(part: FilePart) -> tuple[Upload, str]:
    """How the file is sent; raise DeliveryError for one that WhatsApp does not take."""
    with part.path.open("rb") as file:
        head = file.read(_HEAD)
    chosen = outgoing(part.name, head)
    if chosen is None:
        raise DeliveryError(
            f"WhatsApp takes no file like {part.name!r}: only pictures, sound, video, PDF, Office and text.",
            is_final=True,
        )
    if part.path.stat().st_size > chosen.limit:
        raise DeliveryError(
            f"The file {part.name!r} is too large: WhatsApp takes {chosen.limit // MEGABYTE} MB as {chosen.kind}.",
            is_final=True,
        )
    return Upload(part.path, part.name, chosen.media_type), chosen.kind
