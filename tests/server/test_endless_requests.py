"""Endless requests and lines are refused whether or not the daemon has a token."""

import contextlib

import psutil
import pytest

from tests.server.conftest import Premises
from tests.server.test_connection_limits import connection, until_closed
from tinyagi.server.http_protocol import MAX_PIPELINED

STATUS = b"GET /api/status HTTP/1.1\r\nhost: 127.0.0.1:%d\r\n\r\n"
CHUNKED = b"POST /api/message HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"


async def test_pipelined_requests_up_to_the_limit_are_answered(premises: Premises) -> None:
    async with connection(premises.port) as (reader, writer):
        writer.write(STATUS % premises.port * MAX_PIPELINED)
        answers = b""
        while answers.count(b"HTTP/1.1 200") < MAX_PIPELINED:
            answers += await reader.read(65_536)


async def test_pipelined_requests_beyond_the_limit_take_no_memory(premises: Premises) -> None:
    before = psutil.Process().memory_info().rss
    async with connection(premises.port) as (reader, writer):
        with contextlib.suppress(ConnectionError):
            writer.write(b"GET / HTTP/1.1\r\n\r\n" * 60_000)
            await writer.drain()
        await until_closed(reader)

    assert psutil.Process().memory_info().rss - before < 30_000_000


@pytest.mark.parametrize("start", [b"GET /api/status HTTP/1.1\r\n", CHUNKED], ids=["head", "trailer"])
async def test_an_endless_line_closes_the_connection(premises: Premises, start: bytes) -> None:
    async with connection(premises.port) as (reader, writer):
        with contextlib.suppress(ConnectionError):
            writer.write(start + b"x: ")
            for _ in range(100):
                writer.write(b"y" * 10_000)
                await writer.drain()
        await until_closed(reader)
