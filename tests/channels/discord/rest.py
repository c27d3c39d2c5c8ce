"""Discord's REST v10 and file server."""

import asyncio
import itertools
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aiohttp import web

from tests.channels.discord import payloads
from tests.channels.discord.gateway import Gateway
from tests.channels.discord.payloads import BOT, BOT_ROLE, CHANNEL, GUILD, OTHER_CHANNEL, THREAD, Payload
from tests.channels.platform import Delivered

_EPOCH: Final = 1_420_070_400_000
_UNKNOWN_CHANNEL: Final = (404, 10003, "Unknown Channel")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Rest:
    """What is stored in Discord, and how a bot reads and changes it."""

    def __init__(self) -> None:
        self.token = "bot.secret.token"
        self.bot = payloads.user(BOT, "Office", is_bot=True)
        self.gateway = Gateway(self.token, self._hello)
        self.places: dict[int, Payload] = {
            CHANNEL: payloads.channel(CHANNEL, GUILD),
            OTHER_CHANNEL: payloads.channel(OTHER_CHANNEL, GUILD),
            THREAD: payloads.thread(THREAD, GUILD, CHANNEL),
        }
        self.roles = [payloads.role(GUILD, "@everyone"), payloads.role(BOT_ROLE, "Office", tags={"bot_id": str(BOT)})]
        self.stored: dict[int, list[Payload]] = {}
        self.menu: list[Payload] = []
        self.menu_writes = 0
        self.answers: list[Payload] = []
        """To commands."""
        self.typing: list[int] = []
        self.edits: list[tuple[str, str]] = []
        self.removed: list[str] = []
        self.sent: list[Payload] = []
        """Bodies of deliveries, as the bot wrote them."""
        self.calls: list[str] = []
        self.uploads: list[bytes] = []
        self.allows_replies = True
        self.takes_menu = True
        self.refusals: dict[int, tuple[int, int, str, Mapping[str, str]]] = {}
        """For a channel: what answers all calls about it."""
        self._called = asyncio.Condition()
        self._directs: dict[int, int] = {}
        self._persons: dict[int, int] = {}
        self._files: dict[str, bytes] = {}
        self._by_nonce: dict[str, Payload] = {}
        self._deliveries: list[Delivered] = []
        self._downloads = 0
        self._numbers = itertools.count((int(time.time() * 1000) - _EPOCH) << 22)
        self._fail_every = 0
        self._counted = 0
        self._limit = 0.0
        self._fail_after: int | None = None
        self._runner: web.AppRunner | None = None
        self._port = 0

    @property
    def _base(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._guard(request, handler)

        app = web.Application(middlewares=[guard], client_max_size=64_000_000)
        app.add_routes(self._routes())
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self.gateway.address = f"ws://127.0.0.1:{self._port}/gateway"

    async def stop(self) -> None:
        await self.gateway.close_all()
        if self._runner:
            await self._runner.cleanup()
            self._runner = None

    def _routes(self) -> list[web.RouteDef]:
        api, channels = "/api/v10", "/api/v10/channels/{channel}"
        one = channels + "/messages/{message}"
        return [
            web.get("/gateway", self.gateway.handle),
            web.get("/cdn/{file:.+}", self._download),
            web.get(f"{api}/users/@me", self._me),
            web.get(f"{api}/oauth2/applications/@me", self._application),
            web.get(f"{api}/gateway/bot", self._gateway_address),
            web.post(f"{api}/users/@me/channels", self._open_direct),
            web.get(f"{api}/applications/1/commands", self._commands),
            web.put(f"{api}/applications/1/commands", self._replace_commands),
            web.post(api + "/interactions/{id}/{token}/callback", self._answer_command),
            web.get(api + "/guilds/{guild}/threads/active", self._threads),
            web.get(api + "/guilds/{guild}/roles", self._roles),
            web.get(channels, self._channel),
            web.get(f"{channels}/messages", self._history),
            web.post(f"{channels}/messages", self._deliver),
            web.post(f"{channels}/typing", self._type),
            web.get(one, self._message),
            web.patch(one, self._edit),
            web.delete(one, self._remove),
        ]

    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not request.path.startswith("/api/"):
            return await handler(request)
        answer = self._refusal(request) or await handler(request)
        async with self._called:
            self.calls.append(f"{request.method} {request.path.removeprefix('/api/v10')}")
            self._called.notify_all()
        return answer

    def _refusal(self, request: web.Request) -> web.Response | None:
        self._counted += 1
        if self._fail_every and self._counted % self._fail_every == 0:
            return _error(503, 0, "upstream connect error")
        # The answer to a command carries its own token in the path.
        if "/interactions/" not in request.path and request.headers.get("Authorization") != f"Bot {self.token}":
            return _error(401, 0, "401: Unauthorized")
        channel = request.match_info.get("channel")
        if channel and int(channel) in self.refusals:
            status, code, message, headers = self.refusals[int(channel)]
            return _json({"message": message, "code": code}, status, headers)
        return None

    async def _me(self, _: web.Request) -> web.Response:
        return _json(self.bot)

    async def _application(self, _: web.Request) -> web.Response:
        return _json(payloads.application(self.bot))

    async def _gateway_address(self, _: web.Request) -> web.Response:
        limit = {"total": 1000, "remaining": 999, "reset_after": 0, "max_concurrency": 1}
        return _json({"url": self.gateway.address, "shards": 1, "session_start_limit": limit})

    async def _open_direct(self, request: web.Request) -> web.Response:
        person = int((await request.json())["recipient_id"])
        return _json(payloads.direct_channel(self.direct_channel(person), self._user(person)))

    async def _commands(self, _: web.Request) -> web.Response:
        return _json(self.menu)

    async def _replace_commands(self, request: web.Request) -> web.Response:
        if not self.takes_menu:
            return _error(403, 30034, "Max number of daily application command creates has been reached")
        ids = {"application_id": str(BOT), "version": "1", "nsfw": False}
        self.menu = [{"id": str(next(self._numbers)), **ids, **command} for command in await request.json()]
        self.menu_writes += 1
        return _json(self.menu)

    async def _answer_command(self, request: web.Request) -> web.Response:
        self.answers.append(await request.json())
        return _json({"interaction": {"id": request.match_info["id"], "type": 2}})

    async def _threads(self, _: web.Request) -> web.Response:
        threads = [place for place in self.places.values() if place["type"] == payloads.PUBLIC_THREAD]
        return _json({"threads": threads, "members": [], "has_more": False})

    async def _roles(self, _: web.Request) -> web.Response:
        return _json(self.roles)

    async def _channel(self, request: web.Request) -> web.Response:
        place = self.places.get(_channel(request))
        return _json(place) if place else _error(*_UNKNOWN_CHANNEL)

    async def _history(self, request: web.Request) -> web.Response:
        after, limit = int(request.query.get("after", "0")), int(request.query["limit"])
        newer = [message for message in self.stored.get(_channel(request), []) if int(str(message["id"])) > after]
        return _json(newer[:limit][::-1])

    async def _deliver(self, request: web.Request) -> web.Response:
        channel = _channel(request)
        if channel not in self._persons and channel not in self.places:
            return _error(*_UNKNOWN_CHANNEL)
        if self._limit:
            seconds, self._limit = self._limit, 0.0
            body = {"message": "You are being rate limited.", "retry_after": seconds, "global": False}
            return _json(body, status=429, headers={"Via": "1.1 google", "Retry-After": str(seconds)})
        body, files = await self._body(request)
        content = str(body.get("content") or "")
        if not content and not files:
            return _error(400, 50006, "Cannot send an empty message")
        if len(content) > 2000:
            return _error(400, 50035, "Invalid Form Body")
        if "message_reference" in body and not self.allows_replies:
            return _error(403, 160002, "Cannot reply without permission to read message history")
        nonce = str(body["nonce"])
        assert body["enforce_nonce"] is True
        assert len(nonce) <= 25
        if nonce not in self._by_nonce:
            message = payloads.message(next(self._numbers), channel, self.bot, content, nonce=nonce)
            self._by_nonce[nonce] = message
            self.sent.append(body)
            self.stored.setdefault(channel, []).append(message)
            person = self._persons.get(channel)
            where = "" if person else str(channel)
            sent = f"{channel}.{message['id']}"
            self._deliveries.append(Delivered(str(person or ""), content, where, tuple(files), sent))
            await self.gateway.dispatch("MESSAGE_CREATE", message if person else {**message, "guild_id": str(GUILD)})
        if self._fail_after:
            status, self._fail_after = self._fail_after, None
            return _error(status, 0, "the answer was lost")
        return _json(self._by_nonce[nonce])

    async def _type(self, request: web.Request) -> web.Response:
        self.typing.append(_channel(request))
        return web.Response(status=204)

    async def _message(self, request: web.Request) -> web.Response:
        return _json(self._find(_id(request)))

    async def _edit(self, request: web.Request) -> web.Response:
        message = self._find(_id(request))
        body = await request.json()
        self.sent.append(body)
        message["content"] = body["content"]
        self.edits.append((_id(request), str(message["content"])))
        return _json(message)

    async def _remove(self, request: web.Request) -> web.Response:
        if _id(request) in self.removed:
            return _error(404, 10008, "Unknown Message")
        self.removed.append(_id(request))
        return web.Response(status=204)

    async def _download(self, request: web.Request) -> web.Response:
        data = self._files.get(request.match_info["file"])
        if data is None:
            return web.Response(status=404)
        self._downloads += 1
        return web.Response(body=data)

    async def _body(self, request: web.Request) -> tuple[Payload, list[str]]:
        """The body of a delivery, and the names of its files."""
        if request.content_type == "application/json":
            body: Payload = await request.json()
            return body, []
        form = await request.post()
        files = [part for part in form.values() if isinstance(part, web.FileField)]
        self.uploads += [part.file.read() for part in files]
        body = json.loads(str(form["payload_json"]))
        return body, [part.filename for part in files]

    # Payloads

    def _hello(self) -> tuple[Payload, list[Payload]]:
        channels = [place for place in self.places.values() if place["type"] != payloads.PUBLIC_THREAD]
        threads = [place for place in self.places.values() if place["type"] == payloads.PUBLIC_THREAD]
        ready: Payload = {
            "v": 10,
            "user": self.bot,
            "guilds": [{"id": str(GUILD), "unavailable": True}],
            "application": {"id": str(BOT), "flags": 0},
            "private_channels": [],
        }
        return ready, [payloads.guild(GUILD, channels, threads, self.roles)]

    def direct_channel(self, person: int) -> int:
        if person not in self._directs:
            channel = self._directs[person] = next(self._numbers)
            self._persons[channel] = person
        return self._directs[person]

    def _user(self, number: int) -> Payload:
        return self.bot if number == BOT else payloads.user(number, f"Person {number}")

    def _attachment(self, name: str, data: bytes) -> Payload:
        number = next(self._numbers)
        self._files[str(number)] = data
        return payloads.attachment(number, name, len(data), f"{self._base}/cdn/{number}")

    def _find(self, sent: str) -> Payload:
        channel, _, number = sent.partition(".")
        return next(message for message in self.stored[int(channel)] if message["id"] == number)


def _channel(request: web.Request) -> int:
    return int(request.match_info["channel"])


def _id(request: web.Request) -> str:
    return f"{request.match_info['channel']}.{request.match_info['message']}"


def _error(status: int, code: int, message: str) -> web.Response:
    return _json({"message": message, "code": code}, status=status)


def _json(data: object, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """The library takes only an answer without a character set as JSON."""
    body = json.dumps(data).encode()
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")
