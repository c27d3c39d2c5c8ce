"""A reader of the event stream on a bare socket: it sees every raw frame and can stop reading."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Seen:
    """A frame: a keep-alive has an id and nothing else."""

    id: int | None
    event: str | None
    data: dict[str, Any]


class EventSource:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, last_id: int | None) -> None:
        self.last_id = last_id
        self.status = 0
        self.headers: dict[str, str] = {}
        self.has_ended = False
        self._reader = reader
        self._writer = writer
        self._text = bytearray()

    async def read_head(self) -> None:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        self.status = int(head[0].split()[1])
        self.headers = dict(line.split(": ", 1) for line in head[1:] if line)

    async def body(self) -> dict[str, Any]:
        """The body of an answer that is not a stream."""
        body: dict[str, Any] = json.loads(await self._reader.readexactly(int(self.headers["content-length"])))
        return body

    async def next(self) -> Seen:
        """The next frame; raise EOFError at the end of the answer."""
        while b"\n\n" not in self._text:
            self._text += await self._chunk()
        raw, _, rest = bytes(self._text).partition(b"\n\n")
        self._text = bytearray(rest)
        return self._seen(raw)

    async def frames(self) -> AsyncIterator[Seen]:
        """Every frame until the answer ends."""
        buffered = b""
        while True:
            *whole, buffered = (buffered + await self._chunk()).split(b"\n\n")
            for raw in whole:
                yield self._seen(raw)

    async def until(self, event: str) -> Seen:
        while (seen := await self.next()).event != event:
            pass
        return seen

    async def canonical(self, count: int) -> list[Seen]:
        """The next `count` frames with an id and an event."""
        found: list[Seen] = []
        while len(found) < count:
            seen = await self.next()
            if seen.event not in {None, "connected"} and seen.id is not None:
                found.append(seen)
        return found

    def close(self) -> None:
        self._writer.transport.abort()

    def _seen(self, raw: bytes) -> Seen:
        fields = dict(line.split(b": ", 1) for line in raw.split(b"\n"))
        number = int(fields[b"id"]) if b"id" in fields else None
        if number is not None:
            self.last_id = number
        event = fields[b"event"].decode() if b"event" in fields else None
        return Seen(number, event, json.loads(fields.get(b"data", b"{}")))

    async def _chunk(self) -> bytes:
        size = int(await self._reader.readuntil(b"\r\n"), 16)
        chunk = (await self._reader.readexactly(size + 2))[:-2]
        if not size:
            self.has_ended = True
            raise EOFError
        return chunk


@asynccontextmanager
async def listening(
    port: int, query: str = "", *, last_id: int | str | None = None, window: int | None = None
) -> AsyncIterator[EventSource]:
    """A connection with its head read; `window` bounds the read-ahead."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=window or 2**20)
    header = "" if last_id is None else f"Last-Event-ID: {last_id}\r\n"
    writer.write(f"GET /api/events/stream?{query} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{header}\r\n".encode())
    source = EventSource(reader, writer, last_id if isinstance(last_id, int) else None)
    try:
        await source.read_head()
        yield source
    finally:
        source.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)
