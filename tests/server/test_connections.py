"""Messages on one connection: order, pieces, a caller that leaves, a server that stops."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.server.conftest import Premises
from tests.support.raw_http import ask, request, status_of

JSON = {"content_type": "application/json"}


def letter(port: int, text: str, **headers: str) -> bytes:
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


async def test_a_kept_connection_takes_messages_and_other_requests_in_turn(premises: Premises) -> None:
    async with connection(premises.port) as (reader, writer):
        for number in range(20):
            writer.write(letter(premises.port, f"m{number}"))
            status, told = await answer(reader)
            assert (status, told["messageId"]) == (200, f"m{number}")
            writer.write(request(premises.port))
            assert (await answer(reader))[1]["ok"] is True


async def test_what_is_sent_behind_a_request_is_answered_behind_it(premises: Premises) -> None:
    port = premises.port
    async with connection(port) as (reader, writer):
        writer.write(letter(port, "one") + letter(port, "two") + request(port) + letter(port, "three"))
        told = [(await answer(reader))[1] for _ in range(4)]

    assert [one.get("messageId") for one in told] == ["one", "two", None, "three"]
    assert told[2]["ok"] is True
    assert [message.message for message in await premises.messages()] == ["one", "two", "three"]


async def test_a_request_may_come_byte_by_byte(premises: Premises) -> None:
    async with connection(premises.port) as (reader, writer):
        for byte in letter(premises.port, "slowly"):
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

    told = await ask(premises.port, letter(premises.port, "hello", **named))
    # An answer to `Expect` comes before the one that counts.
    assert status_of(told.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")) == 200
    assert [message.message for message in await premises.messages()] == ["hello"]


async def test_a_text_that_comes_in_many_reads_is_stored_whole(premises: Premises) -> None:
    text = "long " * 20_000

    assert status_of(await ask(premises.port, letter(premises.port, text))) == 200
    assert (await premises.messages())[0].message == text


async def test_files_and_texts_that_name_their_agents_are_taken_too(premises: Premises) -> None:
    (premises.home.files / "plan.txt").write_text("plan")
    for body in ({"message": "look", "agent": "coder", "files": ["plan.txt"]}, {"message": "@dev [#dev: hello] hi"}):
        assert (await premises.http.post("/api/message", json=body)).status_code == 200

    assert len(await premises.store.history.of_agent()) >= 2


async def test_a_caller_who_leaves_before_the_answer_leaves_the_message_there(premises: Premises) -> None:
    async with connection(premises.port) as (_, writer):
        writer.write(letter(premises.port, "and gone"))
        await writer.drain()
    await premises.until(lambda: premises.has_event("message_received"))

    assert (await premises.http.get("/api/status")).status_code == 200


async def test_a_fault_of_ours_is_answered_too(premises: Premises, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(premises.store.queue, "enqueue_parts", broken)
    told = await premises.http.post("/api/message", json={"message": "hello", "agent": "coder"})

    assert told.status_code == 500
    assert "Internal error in TinyAGI" in told.json()["error"]


async def test_a_server_that_stops_waits_for_a_message_that_is_being_stored(
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
        writer.write(letter(premises.port, "at the last moment"))
        await asked.wait()
        asyncio.get_running_loop().call_later(0.1, held.set)
    # The server has stopped, and has answered before.
    told = await reader.read()
    writer.close()

    assert status_of(told) == 200
    assert b"connection: close" in told


async def test_messages_taken_and_refused_are_counted(premises: Premises) -> None:
    await premises.http.post("/api/message", json={"message": "hello", "agent": "coder"})
    await premises.http.post("/api/message", json={"message": ""})
    figures = (await premises.http.get("/metrics")).text

    for status in (200, 400):
        assert f'tinyagi_http_request_seconds_count{{route="/api/message",status="{status}"}} 1.0' in figures
