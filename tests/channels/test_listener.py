"""The listener's routes, limits and end."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import timedelta

import httpx
import pytest

from tests.support.ports import free_port
from tinyagi.channels import listener as listener_module
from tinyagi.channels.listener import Answer, ListenAddress, Request, listener
from tinyagi.channels.port import ChannelError, NotSetUp
from tinyagi.channels.turns import Turns


async def echo(request: Request) -> Answer:
    return Answer(200, f"{request.query.get('q')} {request.headers['x-name']} {request.body.decode()}")


async def broken(request: Request) -> Answer:
    raise RuntimeError("secret detail")


@pytest.fixture
def place() -> ListenAddress:
    return ListenAddress("127.0.0.1", free_port())


def client(place: ListenAddress) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=f"http://{place.host}:{place.port}", trust_env=False, headers={"X-Name": "ada"})


async def test_a_route_gets_headers_query_and_body(place: ListenAddress) -> None:
    async with listener(place, {("POST", "/a"): echo}), client(place) as caller:
        answer = await caller.post("/a?q=x%20y", content=b"body")

    assert (answer.status_code, answer.text) == (200, "x y ada body")


async def test_unknown_paths_and_methods_are_refused(place: ListenAddress) -> None:
    async with listener(place, {("POST", "/a"): echo, ("GET", "/a"): echo}), client(place) as caller:
        missing = await caller.get("/b")
        wrong = await caller.delete("/a")

    assert missing.status_code == 404
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST, GET")


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_large_body_is_refused(place: ListenAddress, is_chunked: bool) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(11):
            yield b"x" * 10_000

    content = pieces() if is_chunked else b"x" * 110_000
    async with listener(place, {("POST", "/a"): echo}, body_limit=100_000), client(place) as caller:
        answer = await caller.post("/a", content=content)

    assert (answer.status_code, answer.text) == (413, "A body may have 100000 bytes.")


async def test_all_bodies_together_are_limited(place: ListenAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "BUFFER_LIMIT", 1_000)
    async with listener(place, {("POST", "/a"): echo}), client(place) as caller:
        refused = await caller.post("/a", content=b"x" * 1_001)
        accepted = await caller.post("/a", content=b"x" * 999)

    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert accepted.status_code == 200


async def test_a_failing_handler_tells_nothing_but_is_logged(
    place: ListenAddress, caplog: pytest.LogCaptureFixture
) -> None:
    async with listener(place, {("POST", "/a"): broken}), client(place) as caller:
        answer = await caller.post("/a")

    assert answer.status_code == 500
    assert "secret detail" not in answer.text
    assert "secret detail" in caplog.text


async def test_a_slow_handler_and_a_slow_body_get_a_503(place: ListenAddress) -> None:
    is_cancelled = asyncio.Event()

    async def slow(request: Request) -> Answer:
        try:
            await asyncio.get_running_loop().create_future()
            return Answer(200)
        finally:
            is_cancelled.set()

    async with (
        listener(place, {("POST", "/a"): slow}, request_time=timedelta(milliseconds=50)),
        client(place) as caller,
    ):
        assert (await caller.post("/a")).status_code == 503
        assert is_cancelled.is_set()

        reader, writer = await asyncio.open_connection(place.host, place.port)
        writer.write(b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n12")
        assert (await reader.readline()) == b"HTTP/1.1 503 Service Unavailable\r\n"
        writer.close()
        await writer.wait_closed()


async def test_a_connection_without_a_request_is_closed(place: ListenAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "REQUEST_TIME", timedelta(milliseconds=20))
    async with listener(place, {("POST", "/a"): echo}):
        reader, writer = await asyncio.open_connection(place.host, place.port)
        writer.write(b"POST /a HT")
        with contextlib.suppress(ConnectionResetError):
            async with asyncio.timeout(10):
                assert await reader.read() == b""
        writer.close()
        with contextlib.suppress(ConnectionResetError):
            await writer.wait_closed()


async def test_a_waiting_caller_gets_a_503_at_the_end(place: ListenAddress, caplog: pytest.LogCaptureFixture) -> None:
    has_begun = asyncio.Event()

    async def wait(request: Request) -> Answer:
        has_begun.set()
        await asyncio.get_running_loop().create_future()
        return Answer(200)

    async with client(place) as caller:
        async with listener(place, {("POST", "/a"): wait}):
            call = asyncio.create_task(caller.post("/a"))
            await has_begun.wait()
        assert (await call).status_code == 503

    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_busy_port_names_the_remedy_and_is_free_afterwards(place: ListenAddress) -> None:
    async with listener(place, {}):
        with pytest.raises(ChannelError, match="choose another with listen_host and listen_port"):
            async with listener(place, {}):
                pass
    async with listener(place, {}):
        pass


async def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ChannelError, match=r"192\.0\.2\.1"):
        async with listener(ListenAddress("192.0.2.1", free_port()), {}):
            pass


def test_the_place_comes_from_the_settings() -> None:
    assert ListenAddress.of({}, 3780) == ListenAddress("127.0.0.1", 3780)
    assert ListenAddress.of({"listen_host": "0.0.0.0", "listen_port": "1"}, 3780) == ListenAddress("0.0.0.0", 1)  # noqa: S104
    for port in ("0", "-1", "x", "65536", "²"):
        with pytest.raises(NotSetUp):
            ListenAddress.of({"listen_port": port}, 3780)


async def test_turns_keep_the_order_of_a_key_and_forget_it() -> None:
    turns, done, gate = Turns(), list[str](), asyncio.Event()

    async def work(key: str, name: str) -> None:
        async with turns.of(key):
            if name == "a1":
                await gate.wait()
            done.append(name)

    async with asyncio.TaskGroup() as group:
        first = group.create_task(work("a", "a1"))
        group.create_task(work("a", "a2"))
        group.create_task(work("a", "a3"))
        await group.create_task(work("b", "b1"))
        gate.set()
        await first

    assert done == ["b1", "a1", "a2", "a3"]
    assert turns._locks == {}
