"""The socket side: what comes too slowly is cut, what is complete is not, and answers do not wait for each other."""

import asyncio
import contextlib
import socket
from datetime import timedelta

import pytest

from tests.server.conftest import Premises
from tests.support.raw_http import request
from tinyagi.domain.errors import InvalidInput
from tinyagi.server import http
from tinyagi.server.http import bind


@pytest.mark.parametrize("part", [b"GET /api/st", b"POST /api/message HTTP/1.1\r\ncontent-length: 100\r\n\r\n{"])
async def test_a_request_that_does_not_end_is_cut(
    closed_premises: Premises, monkeypatch: pytest.MonkeyPatch, part: bytes
) -> None:
    monkeypatch.setattr(http, "REQUEST_TIME", timedelta(milliseconds=100))
    async with closed_premises.serve() as premises:
        reader, writer = await asyncio.open_connection("127.0.0.1", premises.port)
        writer.write(part)

        # A refusal may come first; the connection ends all the same, with or without a farewell.
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
        assert reader.at_eof() or reader.exception() is not None
        writer.close()


async def test_a_stream_that_is_being_answered_is_not_a_request_that_comes_slowly(
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


def test_answers_are_sent_at_once() -> None:
    with bind("127.0.0.1", 0) as listener:
        # asyncio looks at this number before it asks for it.
        assert listener.proto == socket.IPPROTO_TCP


def test_a_port_that_is_taken_is_named_with_the_remedy() -> None:
    with bind("127.0.0.1", 0) as taken, pytest.raises(InvalidInput, match=r"TINYAGI_API_PORT or server\.port"):
        bind("127.0.0.1", taken.getsockname()[1])
