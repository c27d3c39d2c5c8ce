"""An HTTP server on a loopback port that sends exactly the given bytes in the given pieces."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Received:
    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


@dataclass(slots=True)
class Exchange:
    """One request's connection, for a reply to write to."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    server: "LlmServer"

    async def head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        self.writer.write("\r\n".join(lines).encode())
        await self.writer.drain()

    async def chunk(self, data: bytes) -> None:
        self.writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self.writer.drain()

    async def hang_until_the_client_leaves(self) -> None:
        self.server.stalled.set()
        with suppress(ConnectionError):
            await self.reader.read()
        self.server.left.set()


Reply = Callable[[Exchange], Awaitable[None]]


@dataclass(slots=True)
class LlmServer:
    """Gives its replies in order and repeats the last one."""

    replies: Sequence[Reply] = ()
    received: list[Received] = field(default_factory=list)
    url: str = ""
    stalled: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """The client closed a connection that hung."""
    connections: int = 0

    @property
    def last(self) -> Received:
        return self.received[-1]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while (received := await _read(reader)) is not None:
                self.received.append(received)
                reply = self.replies[min(len(self.received), len(self.replies)) - 1]
                await reply(Exchange(reader, writer, self))
                if writer.is_closing():
                    break
        except ConnectionError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(*replies: Reply) -> AsyncIterator[LlmServer]:
    llm = LlmServer(replies)
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.get_running_loop().create_task(llm.serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    llm.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield llm
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome


def streaming(data: bytes, *, size: int | None = None, hang: bool = False, cut: bool = False) -> Reply:
    """The bytes as an event stream in pieces of this size; it may hang after them, or be cut off."""

    async def reply(exchange: Exchange) -> None:
        await exchange.head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
        step = size or len(data)
        for start in range(0, len(data), max(1, step)):
            await exchange.chunk(data[start : start + step])
        if hang:
            await exchange.hang_until_the_client_leaves()
        elif not cut:
            await exchange.chunk(b"")
        if hang or cut:
            exchange.writer.close()

    return reply


def answering(status: int, body: Json | str, headers: Mapping[str, str] | None = None) -> Reply:
    """A plain answer with a length."""
    text = body if isinstance(body, str) else json.dumps(body)

    async def reply(exchange: Exchange) -> None:
        kind = "text/html" if isinstance(body, str) else "application/json"
        plain = {"content-type": kind, "content-length": str(len(text.encode()))}
        await exchange.head(status, {**plain, **(headers or {})})
        exchange.writer.write(text.encode())
        await exchange.writer.drain()

    return reply


async def dropping(exchange: Exchange) -> None:
    """Close the connection without an answer."""
    exchange.writer.close()


async def silent(exchange: Exchange) -> None:
    await exchange.hang_until_the_client_leaves()


def openai_events(
    *pieces: str, stop: str | None = "stop", usage: Json | None = None, model: str = "gpt-test", done: bool = True
) -> list[Json | str]:
    """The chunks of a Chat Completions stream, up to [DONE]."""
    events: list[Json | str] = [
        {"model": model, "choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}], "usage": None}
        for piece in pieces
    ]
    if stop is not None:
        events.append({"model": model, "choices": [{"index": 0, "delta": {}, "finish_reason": stop}], "usage": None})
    if usage is not None:
        events.append({"model": model, "choices": [], "usage": usage})
    return [*events, "[DONE]"] if done else events


def anthropic_events(
    *pieces: str, stop: str = "end_turn", usage: Json | None = None, model: str = "claude-test"
) -> list[Json | str]:
    """The events of a Messages stream."""
    start_usage = {"input_tokens": 11, "output_tokens": 1, **(usage or {})}
    text = [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": p}} for p in pieces]
    return [
        {"type": "message_start", "message": {"model": model, "content": [], "usage": start_usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        *text,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ]


def sse(events: Iterable[Json | str], *, ends: str = "\n", ascii_only: bool = False) -> bytes:
    """The events as bytes, with their types as names where they have one."""
    blocks = []
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=ascii_only)
        name = "" if isinstance(event, str) or "type" not in event else f"event: {event['type']}{ends}"
        blocks.append(f"{name}data: {data}{ends}{ends}")
    return "".join(blocks).encode()


async def _read(reader: asyncio.StreamReader) -> Received | None:
    """The next request; None when the client leaves instead."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = (line.partition(":") for line in head[1:] if line)
        headers = {name.lower(): value.strip() for name, _, value in fields}
        body = await reader.readexactly(int(headers["content-length"]))
    except asyncio.IncompleteReadError:
        return None
    return Received(head[0].split(" ")[1], headers, json.loads(body))
