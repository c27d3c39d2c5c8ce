"""The webhook channel: any system writes to the agents with a signed POST and gets answers as signed POSTs."""

import asyncio
import base64
import binascii
import email.utils
import hashlib
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import httpx
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
from tinyagi.channels.webhook.manifest import DEFAULT_PORT, MANIFEST
from tinyagi.channels.webhook.signing import Refused, checked_id, secrets_of, signed_headers
from tinyagi.domain.chats import Chat

log = logging.getLogger(__name__)

DELIVERY_TIME: Final = timedelta(seconds=15)
BODY_LIMIT: Final = 7 * 1_048_576
"""A file of 5 MB in base64, and the rest of the message."""
LONGEST_WAIT: Final = 3_600.0
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,90}")
_KEY: Final = re.compile(r"[A-Za-z0-9._:-]{1,200}")
_LONGEST_NAME: Final = 100


class _File(msgspec.Struct):
    name: str
    base64: str


class _Post(msgspec.Struct):
    """A message as another system sends it; unknown fields are ignored."""

    sender_id: str
    text: str = ""
    sender: str = ""
    place: str = ""
    files: list[_File] = []
    from_bot: bool = False


class WebhookChannel:
    """Listens for signed messages and posts signed answers."""

    def __init__(self, settings: Mapping[str, str], state: Path, clock: Callable[[], float] = time.time) -> None:
        del state  # The caller repeats what was not confirmed, so nothing is kept here.
        try:
            self._secrets = secrets_of(settings.get("secret", ""))
        except ValueError as error:
            raise NotSetUp(str(error)) from error
        self._url = _url(settings.get("url", ""))
        self._place = ListenAddress.of(settings, DEFAULT_PORT)
        self._clock = clock
        self._turns = Turns()
        self._client = httpx.AsyncClient(timeout=DELIVERY_TIME.total_seconds(), follow_redirects=False, trust_env=False)

    @property
    def manifest(self) -> Manifest:
        return MANIFEST

    async def connect(self) -> str:
        """Return the name of the system that gets the answers; it is asked nothing before the first answer."""
        return self._url.host

    async def receive(self, receive: Receive) -> None:
        async def post(request: Request) -> Answer:
            return await self._post(request, receive)

        routes = {("POST", "/"): post, ("POST", "/messages"): post}
        async with listener(self._place, routes, body_limit=BODY_LIMIT):
            await asyncio.get_running_loop().create_future()

    async def _post(self, request: Request, receive: Receive) -> Answer:
        try:
            webhook_id = checked_id(self._secrets, request.headers, request.body, self._clock())
            message = _message(webhook_id, request.body)
        except Refused as refused:
            return Answer(401, str(refused))
        except ValueError as error:
            return Answer(400, str(error))
        async with self._turns.of(message.chat.address):
            await receive(message)
        return Answer(200, msgspec.json.encode({"id": message.id}).decode(), media_type="application/json")

    async def send(self, part: Part) -> str:
        return await self._deliver("answer", part.chat, part.key, part.reply_to, text=part.text)

    async def send_file(self, part: FilePart) -> str:
        content = await asyncio.to_thread(_read, part.path, part.name)
        file = {"name": part.name, "base64": base64.b64encode(content).decode()}
        return await self._deliver("file", part.chat, part.key, part.reply_to, files=(file,))

    async def show_typing(self, chat: Chat) -> None:
        pass

    async def edit(self, chat: Chat, sent: str, text: str) -> None:
        del chat, sent, text
        raise DeliveryError("An answer that was sent to a webhook cannot be changed.", is_final=True)

    async def remove(self, chat: Chat, sent: str) -> None:
        del chat, sent
        raise DeliveryError("An answer that was sent to a webhook cannot be removed.", is_final=True)

    async def close(self) -> None:
        await self._client.aclose()

    async def _deliver(
        self,
        kind: str,
        chat: Chat,
        key: str,
        reply_to: str | None,
        *,
        text: str = "",
        files: tuple[Mapping[str, str], ...] = (),
    ) -> str:
        body = msgspec.json.encode(
            {
                "type": kind,
                "sender_id": chat.person,
                "place": chat.place,
                "text": text,
                "reply_to": reply_to,
                "files": files,
            }
        )
        webhook_id = key if _KEY.fullmatch(key) else _hash(key)
        headers = signed_headers(self._secrets, webhook_id, self._clock(), body)
        try:
            async with (
                asyncio.timeout(DELIVERY_TIME.total_seconds()),
                self._client.stream(
                    "POST", self._url, content=body, headers={**headers, "content-type": "application/json"}
                ) as answer,
            ):
                self._check(answer)
        except (httpx.HTTPError, TimeoutError) as error:
            reason = "did not answer in time" if _is_timeout(error) else "cannot be reached"
            raise DeliveryError(f"The webhook at {self._url.host} {reason}. Check that it runs.") from error
        return webhook_id

    def _check(self, answer: httpx.Response) -> None:
        if answer.is_success:
            return
        said = f"The webhook at {self._url.host} answered {answer.status_code}"
        if answer.status_code == 410:
            raise DeliveryError(f"{said}: it takes no more answers. Set url to another address.", is_final=True)
        if answer.has_redirect_location:
            raise DeliveryError(f"{said}: it has moved, and redirects are not followed. Set url to the new address.")
        if answer.status_code in {429, 503}:
            wait = _seconds(answer.headers.get("retry-after", ""), self._clock())
            raise DeliveryError(f"{said}: it is busy.", retry_after=wait)
        if answer.status_code == 401:
            raise DeliveryError(f"{said}: it refuses the signature. Give it the secret of this channel.")
        raise DeliveryError(f"{said}. Look into its log; the answer is sent again.")


def _url(text: str) -> httpx.URL:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        url = httpx.URL()
    if url.scheme not in {"http", "https"} or not url.host:
        raise NotSetUp("The webhook has no address for answers. Set url to one that begins with https://.")
    return url


def _message(webhook_id: str, body: bytes) -> ChannelMessage:
    """Parse a signed body; raise ValueError with a sentence."""
    try:
        post = msgspec.json.decode(body, type=_Post)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"The body is not a message: {error}.") from error
    if not _is_id(post.sender_id) or "#" in post.sender_id:
        raise ValueError("sender_id needs 1 to 100 printable characters, without #.")
    if post.place and not _is_id(post.place):
        raise ValueError("place may have 100 printable characters.")
    if not post.text.strip() and not post.files:
        raise ValueError("The message has no text and no files.")
    return ChannelMessage(
        id=webhook_id if _ID.fullmatch(webhook_id) else _hash(webhook_id),
        chat=Chat(post.sender_id, post.place),
        name=" ".join(post.sender.split())[:_LONGEST_NAME] or post.sender_id,
        text=post.text,
        attachments=tuple(_attachment(file) for file in post.files),
        is_from_bot=post.from_bot,
    )


def _is_id(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_NAME and text.isprintable()


def _attachment(file: _File) -> Attachment:
    try:
        content = base64.b64decode(file.base64, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"The file {file.name[:_LONGEST_NAME]!r} is not in base64.") from error

    async def chunks() -> AsyncIterator[bytes]:
        yield content

    return Attachment(file.name or "file", len(content), chunks)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read(path: Path, name: str) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MANIFEST.send_limit + 1)
    except OSError as error:
        raise DeliveryError(f"The file {name!r} cannot be read: {error.strerror}.", is_final=True) from error
    if len(content) > MANIFEST.send_limit:
        raise DeliveryError(f"The file {name!r} is too large: a webhook gets at most 5 MB.", is_final=True)
    return content


def _is_timeout(error: Exception) -> bool:
    return isinstance(error, httpx.TimeoutException | TimeoutError)


def _seconds(text: str, now: float) -> float | None:
    """The wait of a Retry-After header, which is a number of seconds or a date."""
    if text.isascii() and text.isdigit():
        return min(float(text), LONGEST_WAIT)
    try:
        until = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    wait = (until if until.tzinfo else until.replace(tzinfo=UTC)) - datetime.fromtimestamp(now, UTC)
    return min(max(wait.total_seconds(), 0.0), LONGEST_WAIT)
