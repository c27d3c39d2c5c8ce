"""Limits on unfinished requests, trailers, idle connections and unread answers."""

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import psutil
import pytest
from starlette.types import Receive, Scope, Send

from tests.engine.conftest import settled
from tests.server.conftest import TOKEN, Premises
from tests.support.raw_http import ask, request, status_of
from tinyagi.server import http
from tinyagi.server.http import bind, http_server
from tinyagi.server.http_protocol import BoundedProtocol, Connections

JSON = {"content_type": "application/json"}
MESSAGE = b'{"message": "hello", "agent": "coder"}'
MEGABYTE = 1 << 20
Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def connection(port: int) -> AsyncIterator[Pair]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    """All bytes until the server closes the connection."""
    with contextlib.suppress(ConnectionError):
        return await reader.read()
    return b""


def chunked(body: bytes, *trailers: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n%s\r\n" % (len(body), body, b"".join(line + b"\r\n" for line in trailers))


def post(port: int, body: bytes, **headers: str) -> bytes:
    return request(port, "POST", "/api/message", body, transfer_encoding="chunked", **JSON, **headers)


async def received(premises: Premises) -> int:
    return len(await premises.events("message_received"))


@pytest.fixture
async def locked(closed_premises: Premises) -> AsyncIterator[Premises]:
    closed_premises.token = TOKEN
    async with closed_premises.serve() as served:
        yield served


async def test_a_trailer_is_refused_and_the_connection_closed(premises: Premises) -> None:
    for call in (post(premises.port, chunked(MESSAGE, b"x: y")), post(premises.port, b"0\r\nx: y\r\n\r\n")):
        async with connection(premises.port) as (reader, writer):
            writer.write(call)
            answer = await until_closed(reader)
        assert status_of(answer) == 400
        assert b'{"error":"Trailers are not accepted.' in answer
    assert await received(premises) == 0


async def test_a_token_in_a_trailer_is_ignored(locked: Premises) -> None:
    trailer = f"authorization: Bearer {TOKEN}".encode()

    assert status_of(await ask(locked.port, post(locked.port, chunked(MESSAGE, trailer)))) in {400, 401}
    assert await received(locked) == 0


@pytest.mark.parametrize("piece", [b"x: " + b"y" * 1021, b"y" * 1024], ids=["many trailers", "one trailer"])
async def test_fifty_megabytes_of_trailers_take_no_memory(locked: Premises, piece: bytes) -> None:
    ending = b"\r\n" if piece.startswith(b"x") else b""
    block = (piece + ending) * 64
    process = psutil.Process()
    before = process.memory_info().rss
    async with connection(locked.port) as (_, writer):
        writer.write(post(locked.port, b"0\r\nx: "))
        with contextlib.suppress(ConnectionError):
            for _ in range(50 * MEGABYTE // len(block)):
                writer.write(block)
                await writer.drain()
                if writer.transport.is_closing():
                    break
    grown = process.memory_info().rss - before

    assert grown < 20 * MEGABYTE
    assert (await locked.http.get("/api/status")).status_code == 200


async def test_an_endless_chunk_extension_is_refused(premises: Premises) -> None:
    call = post(premises.port, b"5;" + b"x" * 400_000)

    assert status_of(await ask(premises.port, call)) in {400, 0}


@pytest.mark.parametrize(("padding", "status"), [(60_000, 200), (66_000, 400)])
async def test_the_head_limit_holds_for_one_read_and_for_many(premises: Premises, padding: int, status: int) -> None:
    call = request(premises.port, x_padding="y" * padding)
    for size in (len(call), 1_000):
        async with connection(premises.port) as (reader, writer):
            for start in range(0, len(call), size):
                writer.write(call[start : start + size])
                await asyncio.sleep(0)
            assert status_of(await reader.read(1_000)) == status


async def test_a_large_body_does_not_count_towards_the_next_head(premises: Premises) -> None:
    body = b'{"agent": "coder", "message": "' + b"x" * 100_000 + b'"}'
    first = request(premises.port, "POST", "/api/message", body, **JSON)
    second = request(premises.port)
    async with connection(premises.port) as (reader, writer):
        writer.write(first + second[:20])
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(second[20:])
        answers = head + await reader.readuntil(b"\r\n\r\n")

    assert answers.count(b"HTTP/1.1 200") == 2


async def test_an_incomplete_request_is_refused_and_the_connection_closed(locked: Premises) -> None:
    call = request(locked.port, "POST", "/api/message", b"{", content_length="1000", **JSON)
    async with connection(locked.port) as (reader, writer):
        writer.write(call)
        answer = await until_closed(reader)

    assert status_of(answer) == 401
    assert b"connection: close" in answer


async def test_a_client_gets_the_refusal_while_it_is_still_sending(premises: Premises) -> None:
    body = b'{"message": "' + b"x" * 3_000_000 + b'"}'
    for _ in range(5):
        async with connection(premises.port) as (reader, writer):
            writer.write(request(premises.port, "POST", "/api/message", body, **JSON))
            await writer.drain()
            assert status_of(await reader.read(1_000)) == 413


async def test_garbage_behind_a_request_does_not_corrupt_its_answer(premises: Premises) -> None:
    async with connection(premises.port) as (reader, writer):
        writer.write(request(premises.port, path="/api/events/stream"))
        await reader.readuntil(b"event: connected")
        writer.write(b"garbage\r\n\r\n")
        assert b"HTTP/1.1 400" not in await until_closed(reader)


async def test_a_pipelined_stream_is_not_cut(closed_premises: Premises, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "REQUEST_TIME", timedelta(milliseconds=200))
    loop = asyncio.get_running_loop()
    async with closed_premises.serve() as premises, connection(premises.port) as (reader, writer):
        writer.write(request(premises.port) + request(premises.port, path="/api/events/stream"))
        await reader.readuntil(b"event: connected")
        ends_at = loop.time() + 0.8
        while loop.time() < ends_at:
            await premises.send("@coder hello")
            await reader.readuntil(b"event: response_ready")


@pytest.mark.parametrize("sent", [b"", b"\r\n" * 10])
async def test_a_connection_without_a_request_is_closed(
    closed_premises: Premises, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(http, "REQUEST_TIME", timedelta(milliseconds=100))
    async with closed_premises.serve() as premises, connection(premises.port) as (reader, writer):
        writer.write(sent)
        assert await until_closed(reader) == b""


async def test_an_idle_keep_alive_connection_is_closed(
    closed_premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "REQUEST_TIME", timedelta(milliseconds=100))
    async with closed_premises.serve() as premises, connection(premises.port) as (reader, writer):
        writer.write(request(premises.port))
        assert status_of(await reader.readuntil(b"\r\n\r\n")) == 200
        # A line break starts no request, but ends the library's own wait for one.
        writer.write(b"\r\n")
        await until_closed(reader)


async def test_idle_connections_make_room_for_new_ones(
    closed_premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "connection_limit", lambda _: 10)
    async with closed_premises.serve() as premises, contextlib.AsyncExitStack() as stack:
        idle = [await stack.enter_async_context(connection(premises.port)) for _ in range(30)]
        assert status_of(await ask(premises.port, request(premises.port))) == 200
        for reader, _ in idle[:20]:
            assert await until_closed(reader) == b""


async def test_a_server_full_of_streams_answers_503(closed_premises: Premises, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "connection_limit", lambda _: 3)
    async with closed_premises.serve() as premises, contextlib.AsyncExitStack() as stack:
        for _ in range(3):
            reader, writer = await stack.enter_async_context(connection(premises.port))
            writer.write(request(premises.port, path="/api/events/stream"))
            await reader.readuntil(b"event: connected")
        reader, _ = await stack.enter_async_context(connection(premises.port))
        answer = await until_closed(reader)

    assert status_of(answer) == 503
    assert b"too many connections" in answer


class ExhaustedListener(socket.socket):
    """A listener whose process has no file descriptor left for the next `failures` connections."""

    failures = 100

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


async def test_a_process_without_file_descriptors_logs_it_once_and_recovers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http, "ACCEPT_PAUSE", timedelta(milliseconds=1))
    caplog.set_level(logging.WARNING)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    with bind("127.0.0.1", 0) as opened, ExhaustedListener(fileno=opened.detach()) as listener:
        listener.setblocking(False)
        port = listener.getsockname()[1]
        async with http_server(app, listener), connection(port) as (reader, writer):
            writer.write(request(port))
            assert status_of(await reader.readuntil(b"\r\n\r\n")) == 204

    (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "ulimit -n" in line.getMessage()
    assert line.exc_info is None


async def test_a_client_that_does_not_read_its_answer_is_cut(
    closed_premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "WRITE_TIME", timedelta(milliseconds=100))
    monkeypatch.setattr(http, "REQUEST_TIME", timedelta(milliseconds=100))
    async with closed_premises.serve() as premises:
        with socket.socket() as stuck:
            stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stuck.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(stuck, ("127.0.0.1", premises.port))
            # Many answers on one connection: more than the buffers of both sockets hold.
            asked = request(premises.port, path="/docs/swagger-ui-bundle.js") * 10
            await loop.sock_sendall(stuck, asked)
            own = psutil.Process()

            def is_cut() -> bool:
                return not any(
                    one.status == psutil.CONN_ESTABLISHED and one.laddr.port == premises.port
                    for one in own.net_connections("tcp")
                )

            await settled(is_cut)


class Transport:
    """The transport of a client that reads when the test says so."""

    def __init__(self) -> None:
        self.unread = 0
        self.is_cut = False

    def get_write_buffer_size(self) -> int:
        return self.unread

    def abort(self) -> None:
        self.is_cut = True


class Client(BoundedProtocol):
    def __init__(self, opened: Connections) -> None:
        self.transport: Any = Transport()
        opened.add(self)
        opened.wait_for_request(self)


class Clock:
    now = 0.0

    def time(self) -> float:
        return self.now


def test_a_slow_reader_is_cut_only_when_it_stops_reading() -> None:
    clock = Clock()
    opened = Connections(clock.time)
    client = Client(opened)
    client.transport.unread = 1_000
    opened.wait_for_reader(client)
    for _ in range(10):
        clock.now += 50
        client.transport.unread -= 10
        opened.close_late(60, 60)
    assert not client.transport.is_cut

    clock.now += 61
    opened.close_late(60, 60)
    assert client.transport.is_cut


def test_the_request_timeout_starts_after_the_answer_was_read() -> None:
    clock = Clock()
    opened = Connections(clock.time)
    client = Client(opened)
    opened.wait_for_reader(client)
    clock.now += 100
    opened.resume(client)
    opened.close_late(60, 60)
    assert not client.transport.is_cut

    clock.now += 61
    opened.close_late(60, 60)
    assert client.transport.is_cut


def test_the_longest_idle_connection_is_closed_first() -> None:
    clock = Clock()
    opened = Connections(clock.time)
    busy, reading, older, newer = (Client(opened) for _ in range(4))
    opened.answer_request(busy)
    opened.wait_for_reader(reading)

    assert opened.close_oldest()
    assert [client.transport.is_cut for client in (busy, reading, older, newer)] == [False, False, True, False]
    assert opened.close_oldest()
    assert not opened.close_oldest()


def test_a_closed_connection_is_forgotten() -> None:
    opened = Connections(Clock().time)
    client = Client(opened)
    opened.remove(client)
    # Its answer ends later.
    opened.wait_for_request(client)

    assert opened.count == 0
    assert not opened.close_oldest()
