"""The short way for plain messages: the same answers as the long way, whatever comes before, behind and in between."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.engine.conftest import settled
from tests.server.conftest import Premises
from tests.support.raw_http import ask, request, status_of
from tinyagi.server.express import MOST_BYTES

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


@pytest.fixture
def express_ways(premises: Premises, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of messages that went the short way."""
    taken: list[str] = []
    begin = premises.engine.inbox.begin

    def counted(incoming: Any) -> Any:
        taken.append(incoming.message)
        return begin(incoming)

    monkeypatch.setattr(premises.engine.inbox, "begin", counted)
    return taken


async def test_a_connection_that_is_kept_goes_both_ways_in_turn(premises: Premises, express_ways: list[str]) -> None:
    async with connection(premises.port) as (reader, writer):
        for number in range(20):
            writer.write(letter(premises.port, f"m{number}"))
            status, told = await answer(reader)
            assert (status, told["messageId"]) == (200, f"m{number}")
            writer.write(request(premises.port))
            assert (await answer(reader))[1]["ok"] is True

    assert len(express_ways) == 20


async def test_what_is_sent_behind_a_request_is_answered_behind_it(premises: Premises) -> None:
    port = premises.port
    async with connection(port) as (reader, writer):
        writer.write(letter(port, "one") + letter(port, "two") + request(port) + letter(port, "three"))
        told = [(await answer(reader))[1] for _ in range(4)]

    assert [one.get("messageId") for one in told] == ["one", "two", None, "three"]
    assert told[2]["ok"] is True
    assert [message.message for message in await premises.messages()] == ["one", "two", "three"]


async def test_a_request_may_come_byte_by_byte(premises: Premises, express_ways: list[str]) -> None:
    async with connection(premises.port) as (reader, writer):
        for byte in letter(premises.port, "slowly"):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        status, _ = await answer(reader)

    assert status == 200
    assert express_ways == ["slowly"]


@pytest.mark.parametrize(
    "headers",
    [
        {"connection": "close"},
        {"expect": "100-continue"},
        {"origin": "http://127.0.0.1:{port}"},
        {"x_padding": "y" * 5_000},
    ],
)
async def test_what_is_not_plain_is_answered_all_the_same(premises: Premises, headers: dict[str, str]) -> None:
    named = {name: value.format(port=premises.port) for name, value in headers.items()}

    told = await ask(premises.port, letter(premises.port, "hello", **named))
    # An answer to `Expect` comes before the one that counts.
    assert status_of(told.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")) == 200
    assert [message.message for message in await premises.messages()] == ["hello"]


async def test_a_large_text_takes_the_long_way(premises: Premises, express_ways: list[str]) -> None:
    text = "long " * (MOST_BYTES // 4)

    assert status_of(await ask(premises.port, letter(premises.port, text))) == 200
    assert express_ways == []
    assert (await premises.messages())[0].message == text


async def test_files_and_texts_that_decide_who_gets_them_are_stored_in_a_task(premises: Premises) -> None:
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
    def broken(_: object) -> asyncio.Future[Any]:
        future = asyncio.get_running_loop().create_future()
        future.set_exception(ZeroDivisionError("a bug"))
        return future

    monkeypatch.setattr(premises.store.queue, "begin_enqueue", broken)
    told = await premises.http.post("/api/message", json={"message": "hello", "agent": "coder"})

    assert told.status_code == 500
    assert "fault of TinyAGI" in told.json()["error"]


async def test_who_stops_the_server_waits_for_what_is_being_stored(
    closed_premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with closed_premises.serve() as premises:
        begin, held = premises.store.queue.begin_enqueue, asyncio.Event()

        async def later(parts: Any) -> Any:
            await held.wait()
            return await begin(parts)

        storing: list[asyncio.Task[Any]] = []

        def delayed(parts: Any) -> asyncio.Task[Any]:
            storing.append(asyncio.create_task(later(parts)))
            return storing[0]

        monkeypatch.setattr(premises.store.queue, "begin_enqueue", delayed)
        reader, writer = await asyncio.open_connection("127.0.0.1", premises.port)
        writer.write(letter(premises.port, "at the last moment"))
        await settled(lambda: bool(storing))
        asyncio.get_running_loop().call_later(0.1, held.set)
    # The server has stopped, and has answered before.
    told = await reader.read()
    writer.close()

    assert status_of(told) == 200
    assert b"connection: close" in told


async def test_requests_of_both_ways_are_counted(premises: Premises) -> None:
    await premises.http.post("/api/message", json={"message": "hello", "agent": "coder"})
    await premises.http.post("/api/message", json={"message": ""})
    figures = (await premises.http.get("/metrics")).text

    for status in (200, 400):
        assert f'tinyagi_http_request_seconds_count{{route="/api/message",status="{status}"}} 1.0' in figures
