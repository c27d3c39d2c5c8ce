"""Discord on loopback: REST v10, the gateway and a file server, for the real client library."""

import asyncio
import itertools
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from aiohttp import web

from tests.channels.discord import payloads
from tests.channels.discord.gateway import Gateway
from tests.channels.discord.payloads import Payload
from tests.channels.platform import Delivered

GUILD: Final = 900
CHANNEL: Final = 901
"""The server channel where mentions are answered."""
THREAD: Final = 902
OTHER_CHANNEL: Final = 903
BOT: Final = 1
BOT_ROLE: Final = 950_000_000_000_000_000
_EPOCH: Final = 1_420_070_400_000
_UNKNOWN_CHANNEL: Final = (404, 10003, "Unknown Channel")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class DiscordServer:
    """A bot's view of Discord, and the people who write to it."""

    channel = "discord"

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
    def settings(self) -> Mapping[str, str]:
        return {"bot_token": self.token, "guild_channels": str(CHANNEL), "api_url": f"{self._base}/api/v10"}

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

    # People

    async def write(
        self,
        text: str,
        *,
        person: str = "7",
        name: str = "Ada",
        place: str = "",
        files: Sequence[tuple[str, bytes]] = (),
    ) -> str:
        author = payloads.user(int(person), name)
        if place:
            return await self.post(int(place), author, f"<@{BOT}> {text}", files=files)
        return await self.post(self.direct_channel(int(person)), author, text, files=files)

    async def post(
        self,
        channel: int,
        author: Payload,
        content: str,
        *,
        files: Sequence[tuple[str, bytes]] = (),
        reply_to: str | None = None,
        is_live: bool = True,
        **more: object,
    ) -> str:
        """A message by anyone in any channel; without `is_live` the gateway does not announce it."""
        if channel not in self._persons and channel not in self.places:
            await self.add_thread(channel)
        message = payloads.message(next(self._numbers), channel, author, content, **more)
        message["mentions"] = [self._user(number) for number in map(int, re.findall(r"<@!?(\d+)>", content))]
        message["mention_roles"] = re.findall(r"<@&(\d+)>", content)
        message["attachments"] = [self._attachment(name, data) for name, data in files]
        if reply_to is not None:
            message |= {"type": 19, "referenced_message": self._find(reply_to)}
            message["message_reference"] = {"channel_id": str(channel), "message_id": reply_to.rpartition(".")[2]}
        if channel in self.places:
            message |= {"guild_id": str(GUILD), "member": payloads.member()}
            self.places[channel]["last_message_id"] = message["id"]
        self.stored.setdefault(channel, []).append(message)
        if is_live:
            await self.gateway.dispatch("MESSAGE_CREATE", message)
        return f"{channel}.{message['id']}"

    async def command(self, name: str, *values: str, person: str = "7", place: str = "") -> str:
        """A person chooses a command in Discord's menu."""
        number = next(self._numbers)
        author = payloads.user(int(person), "Ada")
        channel = int(place) if place else self.direct_channel(int(person))
        where: Payload = {"user": author, "channel": payloads.direct_channel(channel, author)}
        if place:
            whose = {**payloads.member(), "user": author, "permissions": "0"}
            where = {"member": whose, "guild_id": str(GUILD), "channel": self.places[channel]}
        options = [{"type": 3, "name": "agents", "value": value} for value in values]
        data = {"id": "1", "type": 1, "name": name, "options": options}
        head = {"id": str(number), "application_id": str(BOT), "type": 2, "token": "t", "version": 1}
        event = {
            **head,
            "data": data,
            "channel_id": str(channel),
            "attachment_size_limit": 1,
            "entitlements": [],
            **where,
        }
        await self.gateway.dispatch("INTERACTION_CREATE", event)
        return f"{channel}.c{number}"

    async def add_thread(self, number: int, parent: int = CHANNEL) -> None:
        self.places[number] = payloads.thread(number, GUILD, parent)
        await self.gateway.dispatch("THREAD_CREATE", {**self.places[number], "newly_created": True})

    async def repeat(self, message: str) -> None:
        await self.gateway.dispatch("MESSAGE_CREATE", self._find(message))

    def direct_channel(self, person: int) -> int:
        if person not in self._directs:
            channel = self._directs[person] = next(self._numbers)
            self._persons[channel] = person
        return self._directs[person]

    # What the tests see and break

    @property
    def deliveries(self) -> Sequence[Delivered]:
        return self._deliveries

    @property
    def downloads(self) -> int:
        return self._downloads

    async def until_called_matching(self, part: str) -> None:
        """Wait until the bot made a call whose path has this part."""
        async with asyncio.timeout(15), self._called:
            await self._called.wait_for(lambda: any(part in call for call in self.calls))

    async def until_called(self, call: str, *, count: int = 1) -> None:
        """Wait until the bot made this call, such as `GET /channels/5/messages`."""
        async with asyncio.timeout(15), self._called:
            await self._called.wait_for(lambda: self.calls.count(call) >= count)

    def fail_every(self, number: int) -> None:
        self._fail_every = number

    def refuse(
        self, channel: int, status: int, code: int, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Answer all calls about this channel with an error."""
        self.refusals[channel] = (status, code, message, headers or {})

    def limit_next(self, seconds: float) -> None:
        self._limit = seconds

    def fail_after_next(self, status: int) -> None:
        """Accept the next delivery, but answer it with this error."""
        self._fail_after = status

    def expire_files(self) -> None:
        """The addresses of all files change, as they do after a day."""
        moved = {f"new-{name}": data for name, data in self._files.items()}
        self._files = moved
        for messages in self.stored.values():
            for message in messages:
                for file in _list(message["attachments"]):
                    file["url"] = str(file["url"]).replace("/cdn/", "/cdn/new-")

    def remove_files(self) -> None:
        self._files.clear()

    def add_file(self, path: str, data: bytes) -> str:
        """A file that belongs to no message; return the address of the file server."""
        self._files[path] = data
        return f"{self._base}/cdn"

    # REST

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
        threads = [place for place in self.places.values() if place["type"] == payloads.THREAD]
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
        channels = [place for place in self.places.values() if place["type"] != payloads.THREAD]
        threads = [place for place in self.places.values() if place["type"] == payloads.THREAD]
        ready: Payload = {
            "v": 10,
            "user": self.bot,
            "guilds": [{"id": str(GUILD), "unavailable": True}],
            "application": {"id": str(BOT), "flags": 0},
            "private_channels": [],
        }
        return ready, [payloads.guild(GUILD, channels, threads, self.roles)]

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


def _list(value: object) -> list[Payload]:
    assert isinstance(value, list)
    return value


def _error(status: int, code: int, message: str) -> web.Response:
    return _json({"message": message, "code": code}, status=status)


def _json(data: object, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """The library takes only an answer without a character set as JSON."""
    body = json.dumps(data).encode()
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")
