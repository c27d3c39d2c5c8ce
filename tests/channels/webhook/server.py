"""A system behind the webhook channel: it signs messages, repeats them until they are taken, and checks answers."""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import itertools
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.channels.loopback import serving
from tests.channels.outbox import Outbox
from tests.channels.platform import Delivered
from tests.support.ports import free_port

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()


def signature(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    """Written after the specification, not with the channel's code."""
    signed = message_id.encode() + b"." + timestamp.encode() + b"." + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


class WebhookSystem:
    """Implements `Platform`."""

    channel = "webhook"

    def __init__(self) -> None:
        self._listen_port = free_port()
        self._port = free_port()
        self._outbox = Outbox(self._post)
        self._posts: dict[str, bytes] = {}
        self._numbers = itertools.count(1)
        self._delivered: dict[str, Delivered] = {}
        self._calls = 0
        self._fail_every = 0
        self._limit: float | None = None
        self._stack = contextlib.AsyncExitStack()
        self.taken = asyncio.Condition()
        """Notified after each message that the channel took and each answer that it delivered."""
        self.answers: dict[str, int] = {}
        """Statuses of the channel's answers by message."""
        self.posts: list[Mapping[str, object]] = []
        """Everything that the channel posted and this system accepted."""
        self.refuse_with: tuple[int, Mapping[str, str]] | None = None

    @property
    def settings(self) -> Mapping[str, str]:
        return {
            "secret": SECRET,
            "url": f"http://127.0.0.1:{self._port}/answers",
            "listen_host": "127.0.0.1",
            "listen_port": str(self._listen_port),
        }

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._listen_port}/messages"

    async def start(self) -> None:
        app = Starlette(routes=[Route("/answers", self._answer, methods=["POST"])])
        await self._stack.enter_async_context(serving(app, self._port))
        self._client = await self._stack.enter_async_context(httpx.AsyncClient(trust_env=False, timeout=30))

    async def stop(self) -> None:
        await self._outbox.close()
        await self._stack.aclose()

    async def write(
        self,
        text: str,
        *,
        person: str = "7",
        name: str = "Ada",
        place: str = "",
        files: Sequence[tuple[str, bytes]] = (),
    ) -> str:
        message = f"msg_{next(self._numbers)}"
        post = {
            "sender_id": person,
            "sender": name,
            "text": text,
            "place": place,
            "files": [{"name": file, "base64": base64.b64encode(content).decode()} for file, content in files],
        }
        self._posts[message] = json.dumps(post).encode()
        self._outbox.put(f"{person}#{place}", message)
        return message

    async def repeat(self, message: str) -> None:
        self._outbox.put(f"repeat {message}", message)

    async def _post(self, message: str) -> bool:
        body, timestamp = self._posts[message], str(int(time.time()))
        headers = {
            "webhook-id": message,
            "webhook-timestamp": timestamp,
            "webhook-signature": signature(KEY, message, timestamp, body),
            "content-type": "application/json",
        }
        try:
            answer = await self._client.post(self.address, content=body, headers=headers)
        except httpx.HTTPError:
            return False
        async with self.taken:
            self.answers[message] = answer.status_code
            self.taken.notify_all()
        return answer.status_code == 200

    async def _answer(self, request: Request) -> Response:
        body = await request.body()
        key, timestamp = request.headers["webhook-id"], request.headers["webhook-timestamp"]
        if signature(KEY, key, timestamp, body) not in request.headers["webhook-signature"].split():
            return Response(status_code=401)
        self._calls += 1
        if self.refuse_with is not None:
            return Response(status_code=self.refuse_with[0], headers=self.refuse_with[1])
        if self._fail_every and self._calls % self._fail_every == 0:
            return Response(status_code=500)
        if self._limit is not None:
            wait, self._limit = self._limit, None
            return Response(status_code=429, headers={"retry-after": f"{wait:g}"})
        post = json.loads(body)
        if key not in self._delivered:
            self.posts.append(post)
            self._delivered[key] = Delivered(
                person="" if post["place"] else post["sender_id"],
                text=post["text"],
                place=post["place"],
                files=tuple(file["name"] for file in post["files"]),
                sent=key,
            )
        async with self.taken:
            self.taken.notify_all()
        return Response(status_code=204)

    @property
    def deliveries(self) -> Sequence[Delivered]:
        return tuple(self._delivered.values())

    @property
    def downloads(self) -> int:
        """Files come inside the message, so nothing is downloaded."""
        return 0

    def fail_every(self, number: int) -> None:
        self._calls, self._fail_every = 0, number

    def limit_next(self, seconds: float) -> None:
        self._limit = seconds


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[WebhookSystem]:
    system = WebhookSystem()
    await system.start()
    try:
        yield system
    finally:
        await system.stop()
