"""A stream that reconnects and resumes at its position."""

from contextlib import aclosing
from datetime import timedelta

import pytest

from tests.client.conftest import Call, Reply, scripted
from tinyagi.client.client import AsyncClient
from tinyagi.client.errors import ClientError, ConnectionLost, NotRunning, NotTinyAGI, Unauthorized
from tinyagi.client.event_stream import Pauses, StreamEvent, follow
from tinyagi.client.transport import Transport

AT_ONCE = Pauses(timedelta(), timedelta())
CONNECTED = b"event: connected\ndata: {}\n\n"


def saying(*pieces: bytes) -> Reply:
    async def reply(call: Call) -> None:
        await call.open_stream()
        for piece in pieces:
            await call.send(piece)

    return reply


def refusing(status: int, sentence: str, **headers: str) -> Reply:
    async def reply(call: Call) -> None:
        await call.answer(status, f'{{"error":"{sentence}"}}'.encode(), **headers)

    return reply


async def dropping(call: Call) -> None:
    """The connection breaks before any answer."""


async def first(
    count: int, url: str, *, after: int | None = None, patience: timedelta | None = None
) -> list[StreamEvent]:
    found: list[StreamEvent] = []
    async with (
        AsyncClient(url) as client,
        aclosing(client.events(after=after, pauses=AT_ONCE, patience=patience)) as events,
    ):
        async for event in events:
            found.append(event)
            if len(found) == count:
                break
    return found


def event(number: int) -> bytes:
    return b'id: %d\nevent: lane_paused\ndata: {"type":"lane_paused","agentId":"coder","n":%d}\n\n' % (number, number)


async def test_the_stream_resumes_after_the_last_event() -> None:
    async with scripted(saying(CONNECTED, event(5), event(6)[:20]), saying(CONNECTED, event(6))) as server:
        events = await first(4, server.url)

    assert [one.id for one in events if one.type == "lane_paused"] == [5, 6]
    assert "last-event-id" not in server.calls[0].headers
    assert server.calls[1].headers["last-event-id"] == "5"


async def test_a_keep_alive_moves_the_resume_position() -> None:
    async with scripted(saying(CONNECTED, event(5), b"id: 90\n\n"), saying(CONNECTED)) as server:
        await first(3, server.url)

    assert server.calls[1].headers["last-event-id"] == "90"


async def test_the_stream_starts_after_the_given_id() -> None:
    async with scripted(saying(CONNECTED)) as server:
        await first(1, server.url, after=12)

    assert server.calls[0].headers["last-event-id"] == "12"


async def test_the_stream_requests_canonical_names() -> None:
    async with scripted(saying(CONNECTED)) as server:
        await first(1, server.url)

    assert "names=canonical" in server.calls[0].line


async def test_a_reset_is_passed_on() -> None:
    async with scripted(saying(CONNECTED, b'id: 3\nevent: reset\ndata: {"oldest":3}\n\n')) as server:
        events = await first(2, server.url)

    assert events[1] == StreamEvent(3, "reset", {"oldest": 3})


async def test_malformed_data_is_skipped() -> None:
    async with scripted(saying(CONNECTED, b"data: [1]\n\n", b"data: {\n\n", event(5))) as server:
        events = await first(2, server.url)

    assert [one.type for one in events] == ["connected", "lane_paused"]


async def test_the_stream_waits_for_a_restarting_daemon() -> None:
    replies = (saying(CONNECTED, event(5)), dropping, refusing(503, "not yet"), refusing(429, "wait", retry_after="0"))
    async with scripted(*replies, saying(CONNECTED, event(6))) as server:
        events = await first(4, server.url)

    assert [one.id for one in events] == [None, 5, None, 6]


async def test_the_stream_gives_up_after_its_patience() -> None:
    async with scripted(saying(CONNECTED), dropping) as server:
        with pytest.raises(ConnectionLost):
            await first(2, server.url, patience=timedelta())


async def test_a_refusal_is_final() -> None:
    async with scripted(saying(CONNECTED), refusing(401, "The token is wrong.")) as server:
        with pytest.raises(Unauthorized):
            await first(2, server.url)


async def test_the_first_connection_has_to_work() -> None:
    async with scripted(dropping) as server:
        url = server.url
    with pytest.raises(NotRunning):
        await first(1, url)


async def test_a_html_page_is_refused_as_a_stream() -> None:
    async def page(call: Call) -> None:
        await call.answer(200, b"<html>", "text/html")

    async with scripted(page) as server:
        with pytest.raises(NotTinyAGI):
            await first(1, server.url)


async def test_silence_is_a_lost_connection() -> None:

    async def silent(call: Call) -> None:
        await call.open_stream()
        await call.send(CONNECTED)
        await call.writer.wait_closed()

    async with scripted(silent, refusing(401, "enough")) as server:
        transport = Transport(server.url, None, "")
        try:
            events = follow(transport, {}, after=None, patience=None, pauses=AT_ONCE, silence=timedelta(seconds=1))
            async with aclosing(events):
                assert (await anext(events)).type == "connected"
                with pytest.raises(ClientError, match="enough"):
                    await anext(events)
        finally:
            await transport.close()


@pytest.mark.parametrize(("failures", "seconds"), [(0, 0.25), (1, 0.5), (3, 2), (5, 5), (10_000, 5)])
def test_pauses_grow_up_to_a_limit(failures: int, seconds: float) -> None:
    assert Pauses().after(failures) == timedelta(seconds=seconds)
