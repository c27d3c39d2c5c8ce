"""Telegram's Bot API on loopback, as the real client library calls it: long polling, files, limits and faults."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from aiohttp import BodyPartReader, web

from tests.channels.platform import Delivered
from tests.channels.telegram.entities import MarkupRefused, visible
from tests.support.ports import free_port

Json = dict[str, Any]

TOKEN: Final = "42:AAloopback-token_of-the-tests"
BOT: Final = {"id": 42, "is_bot": True, "first_name": "Office", "username": "office_bot"}
_TEXT_LIMIT: Final = 4_096
_HELD_BACK: Final = 20_000_000
"""Bytes of the largest file that getFile hands over."""


@dataclass
class Refusal(Exception):
    """An answer with an error."""

    status: int
    description: str
    parameters: Mapping[str, object] = field(default_factory=dict)

    @property
    def response(self) -> web.Response:
        body: Json = {"ok": False, "error_code": self.status, "description": self.description}
        if self.parameters:
            body["parameters"] = dict(self.parameters)
        return web.json_response(body, status=self.status)


@dataclass(slots=True)
class Upload:
    name: str
    content: bytes


class BotApi:
    """The API of one bot. Unconfirmed updates stay until a poll with a higher offset."""

    def __init__(self) -> None:
        self.token = TOKEN
        self.calls: list[tuple[str, Json]] = []
        """Every call that was not answered with a fault: its method and parameters."""
        self.webhook = ""
        self.refuses_markup = False
        self.refusals: dict[str, list[Refusal]] = {}
        """The next answers to a method."""
        self.lost_answers: set[str] = set()
        """Methods that take effect, but whose answer never arrives."""
        self.migrated: dict[int, int] = {}
        self.deleted_topics: set[int] = set()
        self.files: dict[str, bytes] = {}
        self.local_paths: dict[str, str] = {}
        """Files that the server names by their path on its disk, as a server with `--local` does."""
        self.lost_files: set[str] = set()
        self.uploads: list[Upload] = []
        self._port = free_port()
        self._runner: web.AppRunner | None = None
        self._updates: list[Json] = []
        self._messages: dict[str, Json] = {}
        self._delivered: list[Delivered] = []
        self._downloads = 0
        self._update_ids = itertools.count(700_001)
        self._message_ids = itertools.count(1)
        self._changed = asyncio.Condition()
        self._poll = 0
        self._fail_every = 0
        self._calls_until_failure = 0
        self._failures = itertools.count()
        self._limit: float | None = None

    # Its life

    async def start(self) -> None:
        application = web.Application(client_max_size=64 * 1024 * 1024)
        application.router.add_post("/bot{token}/{method}", self._answer)
        application.router.add_get("/file/bot{token}/{path:.+}", self._download)
        self._runner = web.AppRunner(application, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    # Its methods

    async def push_update(self, fields: Json) -> None:
        """Hand an update of any kind to the bot."""
        update_id = next(self._update_ids)
        async with self._changed:
            self._updates.append({"update_id": update_id, **fields})
            self._changed.notify_all()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["token"] != self.token:
            return Refusal(401, "Unauthorized").response
        method = request.match_info["method"]
        parameters, uploads = await _parameters(request)
        if (failure := self._failure()) is not None:
            return failure
        async with self._changed:
            self.calls.append((method, parameters))
            self._changed.notify_all()
        try:
            if self.refusals.get(method):
                raise self.refusals[method].pop(0)
            result = await self._methods.get(method, self._unknown)(parameters, uploads)
        except Refusal as refusal:
            return refusal.response
        if method in self.lost_answers and request.transport is not None:
            request.transport.abort()
        return web.json_response({"ok": True, "result": result})

    def _failure(self) -> web.Response | None:
        """In turn what Telegram's proxy and what the Bot API itself answer when they are broken."""
        if not self._fail_every:
            return None
        self._calls_until_failure -= 1
        if self._calls_until_failure:
            return None
        self._calls_until_failure = self._fail_every
        if next(self._failures) % 2:
            return web.Response(text="<html><h1>502 Bad Gateway</h1></html>", status=502, content_type="text/html")
        return Refusal(500, "Internal Server Error").response

    @property
    def _methods(self) -> Mapping[str, Callable[[Json, list[Upload]], Awaitable[object]]]:
        return {
            "getMe": self._get_me,
            "getWebhookInfo": self._get_webhook,
            "deleteWebhook": self._delete_webhook,
            "setMyCommands": self._accept,
            "sendChatAction": self._accept,
            "getUpdates": self._get_updates,
            "getFile": self._get_file,
            "sendMessage": self._send_message,
            "sendDocument": self._send_file,
            "sendAudio": self._send_file,
            "editMessageText": self._edit,
            "deleteMessage": self._delete,
        }

    async def _unknown(self, parameters: Json, uploads: list[Upload]) -> object:
        raise Refusal(404, "Not Found")

    async def _accept(self, parameters: Json, uploads: list[Upload]) -> object:
        return True

    async def _get_me(self, parameters: Json, uploads: list[Upload]) -> object:
        return BOT | {"can_join_groups": True, "can_read_all_group_messages": True}

    async def _get_webhook(self, parameters: Json, uploads: list[Upload]) -> object:
        return {"url": self.webhook, "has_custom_certificate": False, "pending_update_count": len(self._updates)}

    async def _delete_webhook(self, parameters: Json, uploads: list[Upload]) -> object:
        self.webhook = ""
        if parameters.get("drop_pending_updates") == "true":
            self._updates.clear()
        return True

    async def _get_updates(self, parameters: Json, uploads: list[Upload]) -> object:
        """A poll ends the poll before it, and confirms the updates below its offset."""
        if self.webhook:
            raise Refusal(409, "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook")
        offset = int(parameters.get("offset", 0))
        async with self._changed:
            self._poll += 1
            own_poll = self._poll
            self._updates = [update for update in self._updates if update["update_id"] >= offset]
            self._changed.notify_all()
            try:
                async with asyncio.timeout(float(parameters.get("timeout", 0))):
                    await self._changed.wait_for(lambda: self._updates or self._poll != own_poll)
            except TimeoutError:
                return []
            if self._poll != own_poll:
                raise Refusal(
                    409,
                    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
                )
            return self._updates[:100]

    async def _get_file(self, parameters: Json, uploads: list[Upload]) -> object:
        file_id = parameters["file_id"]
        if len(self.files[file_id]) > _HELD_BACK:
            raise Refusal(400, "Bad Request: file is too big")
        path = self.local_paths.get(file_id, f"documents/{file_id} ü.bin")
        return {"file_id": file_id, "file_unique_id": f"u{file_id}", "file_path": path}

    async def _download(self, request: web.Request) -> web.StreamResponse:
        file_id = request.match_info["path"].removeprefix("documents/").removesuffix(" ü.bin")
        if request.match_info["token"] != self.token or file_id in self.lost_files:
            return Refusal(404, "Not Found").response
        if (failure := self._failure()) is not None:
            return failure
        self._downloads += 1
        return web.Response(body=self.files[file_id])

    async def _send_message(self, parameters: Json, uploads: list[Upload]) -> object:
        return self._deliver(parameters, self._shown(parameters))

    async def _send_file(self, parameters: Json, uploads: list[Upload]) -> object:
        if not uploads or not uploads[0].content:
            raise Refusal(400, "Bad Request: file must be non-empty")
        result = self._deliver(parameters, "", (uploads[0].name,))
        self.uploads.extend(uploads)
        return result

    def _shown(self, parameters: Json) -> str:
        text = str(parameters.get("text", ""))
        if parameters.get("parse_mode") == "HTML":
            if self.refuses_markup:
                raise Refusal(400, "Bad Request: can't parse entities: Unsupported start tag")
            try:
                text = visible(text)
            except MarkupRefused as error:
                raise Refusal(400, f"Bad Request: can't parse entities: {error}") from None
        if not text.strip():
            raise Refusal(400, "Bad Request: text must be non-empty")
        if len(text.encode("utf-16-le")) // 2 > _TEXT_LIMIT:
            raise Refusal(400, "Bad Request: message is too long")
        return text

    def _deliver(self, parameters: Json, text: str, files: tuple[str, ...] = ()) -> Json:
        self._check_limit()
        chat_id, topic = int(parameters["chat_id"]), int(parameters.get("message_thread_id", 0))
        if chat_id in self.migrated:
            raise Refusal(
                400,
                "Bad Request: group chat was upgraded to a supergroup chat",
                {"migrate_to_chat_id": self.migrated[chat_id]},
            )
        if topic in self.deleted_topics:
            raise Refusal(400, "Bad Request: message thread not found")
        number = next(self._message_ids)
        place = "" if chat_id > 0 else f"{chat_id}/{topic}" if topic else str(chat_id)
        person = str(chat_id) if chat_id > 0 else ""
        self._delivered.append(Delivered(person, text, place, files, f"{chat_id}.{number}"))
        chat = {"id": chat_id, "type": "private" if chat_id > 0 else "supergroup"}
        return {"message_id": number, "date": 1_700_000_000, "chat": chat, "from": BOT, "text": text}

    def _check_limit(self) -> None:
        seconds, self._limit = self._limit, None
        if seconds is not None:
            raise Refusal(429, f"Too Many Requests: retry after {seconds:g}", {"retry_after": seconds})

    def _place_of(self, parameters: Json) -> int:
        sent = f"{parameters['chat_id']}.{parameters['message_id']}"
        for place, delivered in enumerate(self._delivered):
            if delivered.sent == sent:
                return place
        raise Refusal(400, "Bad Request: message to delete not found")

    async def _edit(self, parameters: Json, uploads: list[Upload]) -> object:
        self._check_limit()
        text, place = self._shown(parameters), self._place_of(parameters)
        if text == self._delivered[place].text:
            raise Refusal(400, "Bad Request: message is not modified: specified new message content is the same")
        self._delivered[place] = replace(self._delivered[place], text=text)
        return True

    async def _delete(self, parameters: Json, uploads: list[Upload]) -> object:
        self._check_limit()
        del self._delivered[self._place_of(parameters)]
        return True


async def _parameters(request: web.Request) -> tuple[Json, list[Upload]]:
    if not request.content_type.startswith("multipart/"):
        return dict(await request.post()), []
    parameters: Json = {}
    uploads: list[Upload] = []
    async for part in await request.multipart():
        if not isinstance(part, BodyPartReader):
            continue
        if part.filename is not None:
            uploads.append(Upload(part.filename, bytes(await part.read())))
        elif part.name:
            parameters[part.name] = await part.text()
    return parameters, uploads
