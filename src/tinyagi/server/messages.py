"""POST /api/message: takes a message in and answers once it is durable."""

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Final

import msgspec
from starlette.types import Receive, Scope, Send

from tinyagi.domain.batching import CHAT_CHANNELS
from tinyagi.domain.errors import InvalidInput, TinyAGIError
from tinyagi.engine.inbox import Inbox, Incoming, Submitted
from tinyagi.server.errors import NO_HEADERS, Refused, fault, parts_of, send_json
from tinyagi.server.limits import RateLimit
from tinyagi.settings.server import is_loopback

log = logging.getLogger(__name__)

PATH: Final = "/api/message"
NO_DELAY: Final = timedelta()

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
    """A plain ASGI application: a framework's routing and validation cost more than the group commit behind them."""

    def __init__(self, inbox: Inbox, limit: RateLimit, observe: Observe) -> None:
        self._inbox = inbox
        self._limit = limit
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        try:
            sent = await self._inbox.submit(self._understood(scope, await _body(receive)))
            status, body, headers = 200, _told(sent), NO_HEADERS
        except TinyAGIError as error:
            status, body, headers = parts_of(error)
        except Exception:
            log.exception("a message could not be stored")
            status, body, headers = parts_of(fault())
        await send_json(send, status, body, headers)
        self._observe(PATH, status, time.perf_counter() - began)

    def _understood(self, scope: Scope, body: bytes) -> Incoming:
        letter = _decoded(body)
        self._check_rate(scope, letter)
        return Incoming(
            letter.message,
            letter.agent or None,
            letter.channel,
            letter.sender,
            letter.sender_id,
            letter.message_id,
            letter.files,
            letter.priority,
            timedelta(seconds=letter.delay_seconds) if letter.delay_seconds else NO_DELAY,
        )

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


def _told(sent: Submitted) -> bytes:
    told = {"ok": True, "messageId": sent.message_id, "conversationId": sent.conversation_id}
    if len(sent.message_ids) > 1:
        told["messageIds"] = sent.message_ids
    return _encode(told)


def _decoded(body: bytes) -> Letter:
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
