"""Messages on one connection: order, partial reads, early disconnects and shutdown."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.server.conftest import Premises
from tests.support.raw_http import ask, request, status_of

JSON = {"content_type": "application/json"}


def post_message(port: int, text: str, **headers: str) -> bytes:
    body = json.dumps({"message": text, "agent": "coder", "messageId": text[:50]}).encode()
    return request(port, "POST", "/api/message", body, **JSON, **headers)


@asynccontextmanager
async def connection(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def answer(reader: asyncio.StreamReader) -> tuple[int, Any]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
    return status_of(head), json.loads(await reader.readexactly(length))


async def test_a_keep_alive_connection_takes_messages_and_other_requests(premises: Premises) -> None:
    async with connection(premises.port) as (reader, writer):
        for number in range(20):
            writer.write(post_message(premises.port, f"m{number}"))
            status, reply = await answer(reader)
            assert (status, reply["messageId"]) == (200, f"m{number}")
            writer.write(request(premises.port))
            assert (await answer(reader))[1]["ok"] is True


async def test_pipelined_requests_are_answered_in_order(premises: Premises) -> None:
    port = premises.port
    async with connection(port) as (reader, writer):
        writer.write(
            post_message(port, "one") + post_message(port, "two") + request(port) + post_message(port, "three")
        )
        replies = [(await answer(reader))[1] for _ in range(4)]

    assert [one.get("messageId") for one in replies] == ["one", "two", None, "three"]
    assert replies[2]["ok"] is True
    assert [message.message for message in await premises.messages()] == ["one", "two", "three"]


async def test_a_request_may_arrive_byte_by_byte(premises: Premises) -> None:
    async with connection(premises.port) as (reader, writer):
        for byte in post_message(premises.port, "slowly"):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        status, _ = await answer(reader)

    assert status == 200
    assert [message.message for message in await premises.messages()] == ["slowly"]


@pytest.mark.parametrize(
    "headers",
    [
        {"connection": "close"},
        {"expect": "100-continue"},
        {"origin": "http://127.0.0.1:{port}"},
        {"x_padding": "y" * 5_000},
    ],
)
async def test_a_message_with_unusual_headers_is_stored_and_answered(
    premises: Premises, headers: dict[str, str]
) -> None:
    named = {name: value.format(port=premises.port) for name, value in headers.items()}

    reply = await ask(premises.port, post_message(premises.port, "hello", **named))
    # The answer to `Expect` comes before the final one.
    assert status_of(reply.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")) == 200
    assert [message.message for message in await premises.messages()] == ["hello"]


async def test_a_long_text_is_stored_whole(premises: Premises) -> None:
    text = "long " * 20_000

    assert status_of(await ask(premises.port, post_message(premises.port, text))) == 200
    assert (await premises.messages())[0].message == text


async def test_messages_with_files_or_room_tags_are_accepted(premises: Premises) -> None:
    (premises.home.files / "plan.txt").write_text("plan")
    for body in ({"message": "look", "agent": "coder", "files": ["plan.txt"]}, {"message": "@dev [#dev: hello] hi"}):
        assert (await premises.http.post("/api/message", json=body)).status_code == 200

    assert len(await premises.store.history.of_agent()) >= 2


async def test_a_message_is_stored_when_the_caller_disconnects_early(premises: Premises) -> None:
    async with connection(premises.port) as (_, writer):
        writer.write(post_message(premises.port, "and gone"))
        await writer.drain()
    await premises.until(lambda: premises.has_event("message_received"))

    assert (await premises.http.get("/api/status")).status_code == 200


async def test_an_internal_error_is_answered_with_500(premises: Premises, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(premises.store.queue, "enqueue_parts", broken)
    reply = await premises.http.post("/api/message", json={"message": "hello", "agent": "coder"})

    assert reply.status_code == 500
    assert "Internal error in TinyAGI" in reply.json()["error"]


async def test_shutdown_waits_for_a_message_being_stored(
    closed_premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with closed_premises.serve() as premises:
        enqueue, asked, held = premises.store.queue.enqueue_parts, asyncio.Event(), asyncio.Event()

        async def later(*parts: Any, **options: Any) -> Any:
            asked.set()
            await held.wait()
            return await enqueue(*parts, **options)

        monkeypatch.setattr(premises.store.queue, "enqueue_parts", later)
        reader, writer = await asyncio.open_connection("127.0.0.1", premises.port)
        writer.write(post_message(premises.port, "at the last moment"))
        await asked.wait()
        asyncio.get_running_loop().call_later(0.1, held.set)
    # The server has stopped, and answered before it stopped.
    reply = await reader.read()
    writer.close()

    assert status_of(reply) == 200
    assert b"connection: close" in reply


async def test_accepted_and_refused_messages_are_counted(premises: Premises) -> None:
    await premises.http.post("/api/message", json={"message": "hello", "agent": "coder"})
    await premises.http.post("/api/message", json={"message": ""})
    figures = (await premises.http.get("/metrics")).text

    for status in (200, 400):
        assert f'tinyagi_http_request_seconds_count{{route="/api/message",status="{status}"}} 1.0' in figures
