"""POST /api/message and /api/messages: parse messages, enqueue them, and answer once they are durable."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Final

import msgspec
from pydantic import ValidationError
from starlette.types import Receive, Scope, Send

from tinyagi.api.messages import MessageResult, SendMessage
from tinyagi.domain.chats import person_of
from tinyagi.domain.errors import TinyAGIError
from tinyagi.domain.messages import CHAT_CHANNELS
from tinyagi.engine.inbox import Inbox, Incoming, Submitted
from tinyagi.server.access import RateLimit
from tinyagi.server.agent_scope import caller_of, check_channel
from tinyagi.server.errors import NO_HEADERS, HttpRefusal, internal_error, malformed, parts_of, send_json
from tinyagi.settings.environment import is_loopback
from tinyagi.store.pairing import PairingStore

log = logging.getLogger(__name__)

PATH: Final = "/api/message"
NO_DELAY: Final = timedelta()

Observe = Callable[[str, int, float], None]
"""Called with the route, the status and the seconds that the request took."""

_encode = msgspec.json.Encoder().encode


class MessageEndpoint:
    """A plain ASGI endpoint: FastAPI's routing and validation cost more than the group commit behind them."""

    def __init__(self, inbox: Inbox, pairing: PairingStore, limit: RateLimit, observe: Observe) -> None:
        self._inbox = inbox
        self._pairing = pairing
        self._limit = limit
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        try:
            sent = await self._submit(scope, _validate(await _read_body(receive)))
            status, body, headers = 200, _accepted(sent), NO_HEADERS
        except TinyAGIError as error:
            status, body, headers = parts_of(error)
        except Exception:
            log.exception("could not store a message")
            status, body, headers = parts_of(internal_error())
        await send_json(send, status, body, headers)
        self._observe(PATH, status, time.perf_counter() - began)

    async def submit_all(self, scope: Scope, requests: Iterable[SendMessage]) -> list[MessageResult]:
        """Store several messages; the result of each tells whether it was stored."""
        return list(await asyncio.gather(*(self._result(scope, request) for request in requests)))

    async def _result(self, scope: Scope, request: SendMessage) -> MessageResult:
        try:
            sent = await self._submit(scope, request)
        except TinyAGIError as error:
            status, body, headers = parts_of(error)
            fields: dict[str, Any] = msgspec.json.decode(body)
            wait = dict(headers).get(b"retry-after")
            return MessageResult(status=status, retry_after=None if wait is None else int(wait), **fields)
        return MessageResult(status=200, **msgspec.json.decode(_accepted(sent)))

    async def _submit(self, scope: Scope, request: SendMessage) -> Submitted:
        request = self._checked(scope, request)
        if request.paired_only:
            await self._require_pairing(request)
        return await self._inbox.submit(_incoming(request))

    def _checked(self, scope: Scope, request: SendMessage) -> SendMessage:
        agent = caller_of(scope)
        if agent is not None:
            check_channel(scope, request.channel)
            request = request.model_copy(update={"sender": agent, "sender_id": None})
        self._check_rate(scope, request)
        return request

    async def _require_pairing(self, request: SendMessage) -> None:
        """Raise HttpRefusal with a code unless the person may write."""
        person = person_of(request.channel, request.sender_id) or request.sender
        if await self._pairing.is_approved(request.channel, person, request.sender):
            return
        asked = await self._pairing.ask(request.channel, person, request.sender)
        code, is_new = (None, False) if asked is None else (asked[0].code, asked[1])
        raise HttpRefusal(
            403,
            f"{request.sender} may not write on {request.channel} yet. Approve the code: tinyagi pairing approve",
            fields={"code": code, "isNew": is_new},
        )

    def _check_rate(self, scope: Scope, request: SendMessage) -> None:
        """Limit each sender's messages per minute; programs on this machine are exempt."""
        client = scope["client"]
        if request.channel not in CHAT_CHANNELS and (client is None or is_loopback(client[0])):
            return
        if wait := self._limit.take(f"{request.channel}:{request.sender_id or request.sender}"):
            raise HttpRefusal(
                429,
                f"{request.sender} sends too many messages; try again in {wait} s or raise server.messages_per_minute.",
                {"retry-after": str(wait)},
            )


def _incoming(request: SendMessage) -> Incoming:
    return Incoming(
        request.message,
        request.agent or None,
        request.channel,
        request.sender,
        request.sender_id,
        request.message_id,
        request.files,
        request.priority,
        timedelta(seconds=request.delay_seconds) if request.delay_seconds else NO_DELAY,
    )


def _accepted(sent: Submitted) -> bytes:
    answer = {"ok": True, "messageId": sent.message_id, "conversationId": sent.conversation_id}
    if len(sent.message_ids) > 1:
        answer["messageIds"] = sent.message_ids
    if sent.warning is not None:
        answer["warning"] = sent.warning
    return _encode(answer)


def _validate(body: bytes) -> SendMessage:
    try:
        return SendMessage.model_validate_json(body, strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        raise malformed(error.errors(include_url=False)) from None


async def _read_body(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body"):
        message = await receive()
        body += message.get("body", b"")
    if message["type"] == "http.disconnect":
        raise HttpRefusal(400, "The client disconnected before the body was complete.")
    return body
