"""The socket side: slow requests are cut, streams are not, and answers do not wait for each other."""

import asyncio
import contextlib
import socket
from datetime import timedelta

import pytest

from tests.server.conftest import Premises
from tests.support.raw_http import request, status_of
from tinyagi.domain.errors import InvalidInput
from tinyagi.server import http
from tinyagi.server.http import bind
from tinyagi.server.http_protocol import RequestTransport


@pytest.mark.parametrize("part", [b"GET /api/st", b"POST /api/message HTTP/1.1\r\ncontent-length: 100\r\n\r\n{"])
async def test_an_unfinished_request_is_cut(
    closed_premises: Premises, monkeypatch: pytest.MonkeyPatch, part: bytes
) -> None:
    monkeypatch.setattr(http, "REQUEST_TIME", timedelta(milliseconds=100))
    async with closed_premises.serve() as premises:
        reader, writer = await asyncio.open_connection("127.0.0.1", premises.port)
        writer.write(part)

        # A refusal may come first; then the connection is closed or reset.
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
        assert reader.at_eof() or reader.exception() is not None
        writer.close()


async def test_a_running_stream_does_not_hit_the_request_timeout(
    closed_premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "REQUEST_TIME", timedelta(milliseconds=20))
    async with closed_premises.serve() as premises:
        reader, writer = await asyncio.open_connection("127.0.0.1", premises.port)
        writer.write(request(premises.port, path="/api/events/stream"))
        await reader.readuntil(b"event: connected")
        for _ in range(5):
            answer = await premises.http.post("/api/message", json={"message": "hello", "agent": "coder"})
            assert answer.status_code == 200
            await reader.readuntil(b"event: response_ready")
        writer.close()


class Recorder(asyncio.Transport):
    """A transport that records the bytes to send."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent.append(bytes(data))

    def close(self) -> None:
        self.sent.append(b"<closed>")


HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


async def test_a_head_is_sent_together_with_the_first_body_chunk() -> None:
    recorder = Recorder()
    joined = RequestTransport(recorder, asyncio.get_running_loop())
    for piece in (HEAD, b"first", b"second"):
        joined.write(piece)

    assert recorder.sent == [HEAD + b"first", b"second"]


async def test_a_head_without_a_body_is_sent() -> None:
    recorder = Recorder()
    joined = RequestTransport(recorder, asyncio.get_running_loop())
    joined.write(HEAD)
    await asyncio.sleep(0)

    assert recorder.sent == [HEAD]


async def test_a_head_is_sent_before_the_connection_is_closed() -> None:
    recorder = Recorder()
    joined = RequestTransport(recorder, asyncio.get_running_loop())
    joined.write(HEAD)
    joined.close()
    await asyncio.sleep(0)

    assert recorder.sent == [HEAD, b"<closed>"]


async def test_answers_without_a_body_keep_their_order(premises: Premises) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", premises.port)
    asked = request(premises.port, "HEAD", "/docs/start.js") + request(premises.port)
    writer.write(asked)
    heads = [await reader.readuntil(b"\r\n\r\n") for _ in range(2)]
    writer.close()

    assert [status_of(head) for head in heads] == [405, 200]


def test_small_answers_are_not_delayed_by_nagle() -> None:
    with bind("127.0.0.1", 0) as listener:
        # asyncio sets TCP_NODELAY only for sockets with this protocol number.
        assert listener.proto == socket.IPPROTO_TCP


def test_a_taken_port_is_reported_with_the_remedy() -> None:
    with bind("127.0.0.1", 0) as taken, pytest.raises(InvalidInput, match=r"TINYAGI_API_PORT or server\.port"):
        bind("127.0.0.1", taken.getsockname()[1])
