"""Discord's gateway: sessions that outlive their sockets and replay what a resumed one missed."""

import asyncio
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from aiohttp import WSMsgType, web

from tests.channels.discord.payloads import Payload

DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT, INVALID, HELLO, ACK = 0, 1, 2, 6, 7, 9, 10, 11
_UNKNOWN, _TOKEN_REFUSED, _INTENT_REFUSED = 4000, 4004, 4014
_MESSAGE_CONTENT: Final = 1 << 15
_HEARTBEAT_MILLISECONDS: Final = 41_250


@dataclass
class _Session:
    id: str
    events: list[Payload] = field(default_factory=list)
    socket: web.WebSocketResponse | None = None

    async def dispatch(self, kind: str, data: object) -> None:
        event: Payload = {"op": DISPATCH, "t": kind, "s": len(self.events) + 1, "d": data}
        self.events.append(event)
        await self.send(event)

    async def send(self, payload: Payload) -> None:
        if self.socket is not None and not self.socket.closed:
            try:
                await self.socket.send_json(payload)
            except ConnectionError:
                self.socket = None


class Gateway:
    """The gateway's side of the test: it can cut connections, forget sessions and refuse new ones."""

    def __init__(self, token: str, hello: Callable[[], tuple[Payload, Iterable[Payload]]]) -> None:
        self.token = token
        self._hello = hello
        self._sessions: dict[str, _Session] = {}
        self._numbers = itertools.count(1)
        self._transports: set[asyncio.BaseTransport] = set()
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._begun = asyncio.Condition()
        self.address = ""
        self.allows_texts = True
        self.greets = True
        self.identified = 0
        self.resumed = 0
        self.heartbeats = 0

    async def until_identified(self, count: int) -> None:
        """Wait until this many sessions began."""
        async with asyncio.timeout(15), self._begun:
            await self._begun.wait_for(lambda: self.identified >= count)

    async def dispatch(self, kind: str, data: object) -> None:
        """Send an event to all sessions; those without a socket get it when they resume."""
        for session in list(self._sessions.values()):
            await session.dispatch(kind, data)

    def cut(self) -> None:
        """Break all connections without a word."""
        for transport in list(self._transports):
            if isinstance(transport, asyncio.Transport):
                transport.abort()

    def pause(self) -> None:
        """Cut, and let new connections wait."""
        self._is_open.clear()
        self.cut()

    def go_on(self) -> None:
        self._is_open.set()

    async def ask_to_reconnect(self) -> None:
        for session in list(self._sessions.values()):
            await session.send({"op": RECONNECT, "d": None})

    def forget_sessions(self) -> None:
        """No session can be resumed any more."""
        self._sessions.clear()

    async def close_all(self, code: int = 1001) -> None:
        for session in list(self._sessions.values()):
            if session.socket is not None:
                await session.socket.close(code=code)

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        await self._is_open.wait()
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        transport = request.transport
        if transport is None:
            return socket
        self._transports.add(transport)
        if not self.greets:
            return socket
        await socket.send_json({"op": HELLO, "d": {"heartbeat_interval": _HEARTBEAT_MILLISECONDS}})
        try:
            async for frame in socket:
                if frame.type is WSMsgType.TEXT:
                    await self._answer(socket, frame.json())
        finally:
            self._transports.discard(transport)
            for session in list(self._sessions.values()):
                if session.socket is socket:
                    session.socket = None
                    if socket.close_code == 1000:
                        del self._sessions[session.id]
        return socket

    async def _answer(self, socket: web.WebSocketResponse, frame: Payload) -> None:
        data = frame["d"]
        if frame["op"] == HEARTBEAT:
            self.heartbeats += 1
            await socket.send_json({"op": ACK, "d": None})
        elif frame["op"] == IDENTIFY and isinstance(data, dict):
            await self._identify(socket, data)
        elif frame["op"] == RESUME and isinstance(data, dict):
            await self._resume(socket, data)
        else:
            await socket.close(code=_UNKNOWN)

    async def _identify(self, socket: web.WebSocketResponse, data: Payload) -> None:
        if data["token"] != self.token:
            await socket.close(code=_TOKEN_REFUSED)
            return
        if int(str(data["intents"])) & _MESSAGE_CONTENT and not self.allows_texts:
            await socket.close(code=_INTENT_REFUSED)
            return
        async with self._begun:
            self.identified += 1
            self._begun.notify_all()
        session = _Session(f"session-{next(self._numbers)}", socket=socket)
        self._sessions[session.id] = session
        ready, guilds = self._hello()
        await session.dispatch("READY", {**ready, "session_id": session.id, "resume_gateway_url": self.address})
        for guild in guilds:
            await session.dispatch("GUILD_CREATE", guild)

    async def _resume(self, socket: web.WebSocketResponse, data: Payload) -> None:
        session = self._sessions.get(str(data["session_id"]))
        if session is None:
            await socket.send_json({"op": INVALID, "d": False})
            return
        self.resumed += 1
        session.socket = socket
        for event in session.events[int(str(data["seq"])) :]:
            await session.send(event)
        await session.dispatch("RESUMED", {})
