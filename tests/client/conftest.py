"""Clients of a real server, and a server with scripted replies."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from tests.server.conftest import Premises, closed_premises, premises
from tinyagi.client.client import AsyncClient

__all__ = ["closed_premises", "premises"]

Reply = Callable[["Call"], Awaitable[None]]


@dataclass(slots=True)
class Call:
    """One request, and the connection to answer it on."""

    line: str
    headers: dict[str, str]
    body: bytes
    writer: asyncio.StreamWriter

    async def answer(self, status: int, body: bytes, kind: str = "application/json", **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} Whatever", f"content-type: {kind}", f"content-length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join([*lines, "", ""]).encode() + body)

    async def open_stream(self) -> None:
        """The head of an answer that ends with its connection."""
        await self.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()


@dataclass(slots=True)
class ScriptedServer:
    """Answers each request with the next reply, repeats the last one, and closes each connection."""

    replies: list[Reply]
    calls: list[Call] = field(default_factory=list)
    url: str = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            call = Call(head[0], headers, body, writer)
            self.calls.append(call)
            await self.replies[min(len(self.calls), len(self.replies)) - 1](call)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


@asynccontextmanager
async def scripted(*replies: Reply) -> AsyncIterator[ScriptedServer]:
    server = ScriptedServer(list(replies))
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with listening:
        yield server


@pytest.fixture
async def client(premises: Premises) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(str(premises.http.base_url), premises.token, client_name="test") as client:
        yield client
