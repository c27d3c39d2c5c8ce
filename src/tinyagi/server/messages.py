"""POST /api/message: the way in, and the one route that is made for speed. Answers once the message is durable."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Final

import msgspec
from starlette.types import Receive, Scope, Send

from tinyagi.domain.batching import CHAT_CHANNELS
from tinyagi.domain.errors import InvalidInput, TinyAGIError
from tinyagi.engine.inbox import Inbox, Incoming
from tinyagi.server.errors import Refused, payload_of, status_of
from tinyagi.server.guard import PLAIN_HEADERS
from tinyagi.server.limits import RateLimit
from tinyagi.settings.server import is_loopback

PATH: Final = "/api/message"

Observe = Callable[[str, int, float], None]
"""Told the route, the status and the seconds it took."""


class Letter(msgspec.Struct, rename="camel"):
    """The body, decoded and checked in one go; `tinyagi.api.messages.SendMessage` documents the same."""

    message: str
    agent: str | None = None
    sender: Annotated[str, msgspec.Meta(min_length=1, max_length=256)] = "API"
    sender_id: Annotated[str, msgspec.Meta(max_length=256)] | None = None
    channel: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")] = "api"
    message_id: Annotated[str, msgspec.Meta(min_length=1, max_length=128)] | None = None
    files: Annotated[tuple[str, ...], msgspec.Meta(max_length=100)] = ()
    priority: Annotated[int, msgspec.Meta(ge=-1, le=1_000)] = 0
    delay_seconds: Annotated[float, msgspec.Meta(ge=0, le=31_622_400)] = 0


_decode = msgspec.json.Decoder(Letter).decode
_encode = msgspec.json.Encoder().encode


class MessageDoor:
    """An ASGI application by itself: what a framework would do between socket and queue costs as much as the queue."""

    def __init__(self, inbox: Inbox, limit: RateLimit, observe: Observe) -> None:
        self._inbox = inbox
        self._limit = limit
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        headers = list(PLAIN_HEADERS)
        try:
            status, body = 200, await self._take(scope, await _body(receive))
        except TinyAGIError as error:
            status, body = status_of(error), payload_of(error)
            if isinstance(error, Refused):
                headers += [(name.encode(), value.encode()) for name, value in error.headers.items()]
        headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        self._observe(PATH, status, time.perf_counter() - began)

    async def _take(self, scope: Scope, body: bytes) -> bytes:
        letter = _understood(body)
        self._check_rate(scope, letter)
        sent = await self._inbox.submit(
            Incoming(
                letter.message,
                letter.agent or None,
                letter.channel,
                letter.sender,
                letter.sender_id,
                letter.message_id,
                letter.files,
                letter.priority,
                timedelta(seconds=letter.delay_seconds),
            )
        )
        told = {"ok": True, "messageId": sent.message_id, "conversationId": sent.conversation_id}
        if len(sent.message_ids) > 1:
            told["messageIds"] = sent.message_ids
        return _encode(told)

    def _check_rate(self, scope: Scope, letter: Letter) -> None:
        """So many a minute for each person in a chat or on another machine; this machine's programs send any number."""
        client = scope["client"]
        if letter.channel not in CHAT_CHANNELS and (client is None or is_loopback(client[0])):
            return
        if wait := self._limit.take(f"{letter.channel}:{letter.sender_id or letter.sender}"):
            raise Refused(
                429,
                f"{letter.sender} sends too much; try again in {wait} s, see server.messages_per_minute.",
                {"retry-after": str(wait)},
            )


def _understood(body: bytes) -> Letter:
    try:
        return _decode(body)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"The body is not a message: {error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"The body is no JSON: {error}.") from None
    except RecursionError:
        raise InvalidInput("The body is nested too deeply.") from None


async def _body(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body"):
        message = await receive()
        body += message.get("body", b"")
    if message["type"] == "http.disconnect":
        raise Refused(400, "The caller went away before the body was complete.")
    return body
