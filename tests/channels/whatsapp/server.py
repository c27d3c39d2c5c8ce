"""Meta's side of the Cloud API on loopback: the Graph API for one number, and signed posts repeated until 200.

Graph names its wait in minutes in X-Business-Use-Case-Usage; `limit_next` uses Retry-After, which can say seconds.
"""

import base64
import contextlib
import hashlib
import hmac
import itertools
import json
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.channels.loopback import serving
from tests.channels.outbox import Outbox
from tests.channels.platform import Delivered
from tests.support.ports import free_port
from tinyagi.channels.whatsapp.message_ids import MessageIds

NUMBER = "106540352242922"
TOKEN = "EAAtoken"
APP_SECRET = "app-secret"
VERIFY_TOKEN = "verify-me"
TEXT_LIMIT = 4_096

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer of Graph that refuses the next delivery."""

    status: int
    code: int
    message: str = "refused"
    headers: Mapping[str, str] | None = None

    def answer(self) -> Response:
        error = {
            "message": f"(#{self.code}) {self.message}",
            "code": self.code,
            "error_data": {"details": self.message},
        }
        return JSONResponse({"error": error}, self.status, dict(self.headers or {}))


def multipart(content_type: str, body: bytes) -> Mapping[str, tuple[str, bytes]]:
    """The fields of a form, each with the name of its file and its content."""
    boundary = content_type.partition("boundary=")[2].encode()
    fields = {}
    for piece in (b"\r\n" + body).split(b"\r\n--" + boundary)[1:-1]:
        head, _, content = piece.partition(b"\r\n\r\n")
        words = dict(re.findall(r'(name|filename)="([^"]*)"', head.decode()))
        fields[words["name"]] = (words.get("filename", ""), content)
    return fields


class GraphServer:
    """Implements `Platform`."""

    channel = "whatsapp"

    def __init__(self) -> None:
        self._port, self._listen_port = free_port(), free_port()
        self._numbers = itertools.count(1)
        self._outbox = Outbox(self._post)
        self._posts: dict[str, bytes] = {}
        self._ids = MessageIds()
        self._files: dict[str, tuple[str, str, bytes]] = {}
        self._calls = 0
        self._fail_every = 0
        self._refusals: list[Refusal] = []
        self._deliveries: list[Delivered] = []
        self._downloads = 0
        self._stack = contextlib.AsyncExitStack()
        self.announced_size: int | None = None
        """What Graph says about the size of files, when it is not the truth."""
        self.sent: list[Json] = []
        """The accepted bodies of messages, in order."""
        self.typing: list[str] = []
        """Messages that were marked as read with the sign of typing."""
        self.statuses: list[int] = []
        """The channel's answers to posts."""

    @property
    def settings(self) -> Mapping[str, str]:
        return {
            "mode": "cloud",
            "phone_number_id": NUMBER,
            "access_token": TOKEN,
            "app_secret": APP_SECRET,
            "verify_token": VERIFY_TOKEN,
            "listen_port": str(self._listen_port),
            "api_url": f"http://127.0.0.1:{self._port}/v23.0",
        }

    @property
    def webhook(self) -> str:
        return f"http://127.0.0.1:{self._listen_port}/whatsapp"

    async def start(self) -> None:
        routes = [
            Route("/v23.0/{number}", self._get, methods=["GET"]),
            Route("/v23.0/{number}/messages", self._message, methods=["POST"]),
            Route("/v23.0/{number}/media", self._upload, methods=["POST"]),
            Route("/files/{media}", self._download, methods=["GET"]),
        ]
        await self._stack.enter_async_context(serving(Starlette(routes=routes), self._port))
        self._client = await self._stack.enter_async_context(httpx.AsyncClient(trust_env=False, timeout=30))

    async def stop(self) -> None:
        await self._outbox.close()
        await self._stack.aclose()

    # People and Meta's posts

    async def write(
        self,
        text: str,
        *,
        person: str = "7",
        name: str = "Ada",
        place: str = "",
        files: Sequence[tuple[str, bytes]] = (),
    ) -> str:
        assert not place, "WhatsApp's Cloud API has direct chats only"
        if not files:
            return self.tell({"type": "text", "text": {"body": text}}, person=person, name=name)
        messages = []
        for file, content in files:
            document = {"id": self.keep(file, "application/octet-stream", content), "filename": file, "caption": text}
            messages.append(self.tell({"type": "document", "document": document}, person=person, name=name))
            text = ""
        return messages[0]

    def tell(self, message: Json, *, person: str = "7", name: str = "Ada") -> str:
        """Post any kind of message; return the id of the ChannelMessage."""
        wamid = self.new_wamid()
        return self.tell_all([{"from": person, "id": wamid, "timestamp": "1", **message}], [(person, name)])[0]

    def tell_all(self, messages: Sequence[Json], people: Sequence[tuple[str, str]], chat: str = "") -> Sequence[str]:
        """Post several messages at once."""
        contacts = [{"wa_id": person, "profile": {"name": name}} for person, name in people]
        body = self.post_of({"contacts": contacts, "messages": list(messages)})
        ids = [self._ids.encode(str(message["id"])) for message in messages]
        for message_id in ids:
            self._posts[message_id] = body
        self._outbox.put(chat or people[0][0], ids[0])
        return ids

    def post_of(self, value: Json, number: str = NUMBER) -> bytes:
        metadata = {"display_phone_number": "15550001", "phone_number_id": number}
        change = {"field": "messages", "value": {"messaging_product": "whatsapp", "metadata": metadata, **value}}
        entry = {"id": "9", "changes": [change]}
        return json.dumps({"object": "whatsapp_business_account", "entry": [entry]}).encode()

    def new_wamid(self) -> str:
        return "wamid." + base64.b64encode(f"{time.time_ns()} +/ {next(self._numbers)}".encode()).decode()

    def keep(self, name: str, media_type: str, content: bytes) -> str:
        """Store a file as Graph does; return its id."""
        media = str(1_000 + next(self._numbers))
        self._files[media] = (name, media_type, content)
        return media

    async def repeat(self, message: str) -> None:
        self._outbox.put(f"repeat {message}", message)

    async def _post(self, message: str) -> bool:
        return await self.post(self._posts[message]) == 200

    async def post(self, body: bytes, signature: str | None = None) -> int:
        """Post to the channel once; return its answer's status, or 0 when it is away."""
        signed = "sha256=" + hmac.new(APP_SECRET.encode(), body, hashlib.sha256).hexdigest()
        headers = {b"x-hub-signature-256": (signed if signature is None else signature).encode()}
        try:
            answer = await self._client.post(self.webhook, content=body, headers=headers)
        except httpx.HTTPError:
            return 0
        self.statuses.append(answer.status_code)
        return answer.status_code

    # The Graph API

    def _refused(self, request: Request) -> Response | None:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            given = request.headers.get("authorization", "").removeprefix("Bearer ")
            return Refusal(401, 190, f"Malformed access token {given}").answer()
        self._calls += 1
        if self._fail_every and self._calls % self._fail_every == 0:
            return Refusal(500, 131000, "Something went wrong").answer()
        return None

    async def _get(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        asked = request.path_params["number"]
        if asked == NUMBER:
            return JSONResponse({"display_phone_number": "+1 555 0001", "verified_name": "Nova", "id": NUMBER})
        if asked in self._files:
            _, media_type, content = self._files[asked]
            size = len(content) if self.announced_size is None else self.announced_size
            url = f"http://127.0.0.1:{self._port}/files/{asked}"
            return JSONResponse({"id": asked, "url": url, "mime_type": media_type, "file_size": size})
        return Refusal(400, 100, f"Object with ID '{asked}' does not exist").answer()

    async def _download(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        self._downloads += 1
        _, media_type, content = self._files[request.path_params["media"]]
        return Response(content, media_type=media_type)

    async def _upload(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        form = multipart(request.headers["content-type"], await request.body())
        assert form["messaging_product"][1] == b"whatsapp"
        name, content = form["file"]
        media = self.keep(name, form["type"][1].decode(), content)
        return JSONResponse({"id": media})

    async def _message(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        body = await request.json()
        if body.get("status") == "read":
            self.typing.append(body["message_id"])
            return JSONResponse({"success": True})
        if self._refusals:
            return self._refusals.pop().answer()
        if body["type"] == "text" and not 0 < len(body["text"]["body"]) <= TEXT_LIMIT:
            return Refusal(400, 100, "Param text['body'] must be at most 4096 characters long.").answer()
        person, wamid = body.get("to") or body["recipient"], self.new_wamid()
        self.sent.append(body)
        self._deliveries.append(Delivered(person, self._text_of(body), files=self._names_of(body), sent=wamid))
        return JSONResponse(
            {"messaging_product": "whatsapp", "contacts": [{"wa_id": person}], "messages": [{"id": wamid}]}
        )

    def _text_of(self, body: Json) -> str:
        text = body.get("text")
        return str(text["body"]) if isinstance(text, dict) else ""

    def _names_of(self, body: Json) -> tuple[str, ...]:
        media = body.get(str(body["type"]))
        return (self._files[media["id"]][0],) if isinstance(media, dict) and "id" in media else ()

    def content_of(self, media: str) -> tuple[str, str, bytes]:
        """Name, type and content of a stored file."""
        return self._files[media]

    @property
    def deliveries(self) -> Sequence[Delivered]:
        return tuple(self._deliveries)

    @property
    def downloads(self) -> int:
        return self._downloads

    def fail_every(self, number: int) -> None:
        self._calls, self._fail_every = 0, number

    def limit_next(self, seconds: float) -> None:
        self.refuse_next(Refusal(429, 130429, "Rate limit hit", {"retry-after": f"{seconds:g}"}))

    def refuse_next(self, refusal: Refusal) -> None:
        self._refusals.append(refusal)


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[GraphServer]:
    server = GraphServer()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
