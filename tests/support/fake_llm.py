"""A language model on a loopback port that does what its prompt says, and remembers what it was asked.

`{{say TEXT}}` answers TEXT, `{{shell COMMAND}}` calls the shell tool and then repeats its output,
`{{status 429 30}}` refuses (here with Retry-After: 30), `{{wait 5}}` waits that many seconds, `{{nothing}}`
answers the empty text; without an order it answers `echo:` and the prompt.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.llm_wires import Asked, ChatCompletions, Messages, Responses, Say, Shell, WireFormat

WIRES: Final[Mapping[str, WireFormat]] = {
    "/v1/messages": Messages(),
    "/v1/responses": Responses(),
    "/v1/chat/completions": ChatCompletions(),
}
_ORDER: Final = re.compile(r"\{\{(say|shell|status|wait|nothing)\s*(.*?)\}\}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Seen:
    """One request, as it came in."""

    path: str
    headers: Mapping[str, str]
    asked: Asked | None
    """None for a request that asks no model."""


@dataclass(slots=True)
class FakeLlm:
    port: int = 0
    seen: list[Seen] = field(default_factory=list)
    key: str | None = None
    """The only accepted key; None accepts any key and no key."""
    models: tuple[str, ...] = ()
    """The known models, listed at /v1/models; empty accepts all and lists none."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def asked(self) -> list[Asked]:
        return [seen.asked for seen in self.seen if seen.asked is not None]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request and close: no client needs more than that."""
        try:
            path, headers = await _head(reader)
            raw = await _body(reader, headers)
            wire = WIRES.get(path)
            asked = wire.read(json.loads(raw)) if wire is not None else None
            self.seen.append(Seen(path, headers, asked))
            if self.key is not None and self.key not in {headers.get("x-api-key"), _bearer(headers)}:
                _send(writer, 401, {"error": {"type": "authentication_error", "message": "wrong key"}})
            elif path == "/v1/models" and self.models:
                _send(writer, 200, {"data": [{"id": model} for model in self.models]})
            elif asked is not None and self.models and asked.model not in self.models:
                _send(writer, 404, {"error": {"code": "model_not_found", "message": "no such model"}})
            elif wire is None or asked is None:
                _send(writer, 404, {"error": {"message": f"nothing at {path}"}})
            else:
                await _answer(writer, wire, asked)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def fake_llm() -> AsyncIterator[FakeLlm]:
    llm = FakeLlm()
    open_connections: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(llm.serve(reader, writer))
        open_connections.add(task)
        task.add_done_callback(open_connections.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    llm.port = server.sockets[0].getsockname()[1]
    try:
        yield llm
    finally:
        server.close()
        for task in open_connections:
            task.cancel()
        await asyncio.gather(*open_connections, return_exceptions=True)


async def _answer(writer: asyncio.StreamWriter, wire: WireFormat, asked: Asked) -> None:
    if asked.tool_output is not None:
        return await _stream(writer, wire, asked, Say(f"the tool printed: {asked.tool_output.strip()}"))
    found = list(_ORDER.finditer(asked.prompt))
    order, argument = found[-1].groups() if found else ("say", f"echo: {asked.prompt.strip()}")
    match order:
        case "status":
            status, _, wait = argument.partition(" ")
            headers = {"Retry-After": wait} if wait else {}
            return _send(writer, int(status), wire.refusal(int(status), "refused as asked"), headers)
        case "wait":
            await asyncio.sleep(float(argument))
            return await _stream(writer, wire, asked, Say("waited"))
        case "shell":
            return await _stream(writer, wire, asked, Shell(argument))
        case "nothing":
            return await _stream(writer, wire, asked, Say(""))
        case _:
            return await _stream(writer, wire, asked, Say(argument))


async def _stream(writer: asyncio.StreamWriter, wire: WireFormat, asked: Asked, answer: Say | Shell) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
    for piece in wire.stream(asked, answer):
        writer.write(piece.encode())
        await writer.drain()


def _send(
    writer: asyncio.StreamWriter, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> None:
    raw = json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Refused", "Content-Type: application/json", f"Content-Length: {len(raw)}"]
    lines += ["Connection: close", *(f"{name}: {value}" for name, value in (headers or {}).items())]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + raw)


def _bearer(headers: Mapping[str, str]) -> str | None:
    return headers.get("authorization", "").removeprefix("Bearer ") or None


async def _head(reader: asyncio.StreamReader) -> tuple[str, dict[str, str]]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines[1:] if line)
    return lines[0].split()[1].partition("?")[0], {name.lower(): value.strip() for name, _, value in pairs}


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    body = b""
    while size := int(await reader.readline(), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readline()
    return body
