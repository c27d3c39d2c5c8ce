"""Token, cookie and login: which requests are authenticated, and how wrong credentials are limited."""

from collections.abc import AsyncIterator
from functools import partial

import httpx
import pytest

from tests.server.conftest import TOKEN, Premises
from tinyagi.server import guard
from tinyagi.server.access import RateLimit
from tinyagi.server.guard import WRONG_TOKENS_PER_MINUTE

MESSAGE = b'{"message": "hello", "agent": "coder"}'


@pytest.fixture
async def locked(closed_premises: Premises, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Premises]:
    """A server with a token. Its rate limit has a frozen clock, so wrong tokens do not expire during a test."""
    monkeypatch.setattr(guard, "RateLimit", partial(RateLimit, clock=lambda: 0.0))
    closed_premises.token = TOKEN
    async with closed_premises.serve() as served:
        yield served


async def received(premises: Premises) -> int:
    return len(await premises.events("message_received"))


async def test_every_route_and_the_stream_need_the_token(locked: Premises) -> None:
    paths = (await locked.http.get("/openapi.json")).json()["paths"]
    routes = [(method.upper(), path) for path, operations in paths.items() for method in operations]
    pages = [("GET", path) for path in ("/", "/docs", "/openapi.json", "/metrics", "/docs/start.js", "/nowhere")]
    assert len(routes) > 60
    assert {("GET", "/api/events/stream"), ("POST", "/api/message"), ("GET", "/metrics")} <= {*routes, *pages}

    async with httpx.AsyncClient(base_url=locked.http.base_url, trust_env=False, timeout=30) as stranger:
        for method, path in {*routes, *pages} - {("POST", "/api/login")}:
            filled = path.replace("{", "").replace("}", "")
            for headers in ({}, {"authorization": f"Bearer {TOKEN[:-1]}"}, {"cookie": "tinyagi=guess"}):
                # A few wrong tokens per address are answered with 401, further ones with 429: neither does anything.
                answer = await stranger.request(method, filled, headers={**headers, "content-type": "application/json"})
                assert answer.status_code in {401, 429}, (method, path)
                assert set(answer.json()) == {"error"}
    assert await received(locked) == 0


async def test_a_token_in_the_query_is_ignored(locked: Premises) -> None:
    async with httpx.AsyncClient(base_url=locked.http.base_url, trust_env=False, timeout=30) as stranger:
        assert (await stranger.get(f"/api/status?token={TOKEN}&access_token={TOKEN}")).status_code == 401
        assert (await stranger.get("/api/status", headers={"authorization": f"Bearer {TOKEN}"})).status_code == 200


async def test_a_login_sets_an_http_only_cookie(locked: Premises) -> None:
    async with httpx.AsyncClient(base_url=locked.http.base_url, trust_env=False, timeout=30) as office:
        wrong = await office.post("/api/login", json={"token": "something-else-altogether"})
        right = await office.post("/api/login", json={"token": TOKEN})
        cookie = right.headers["set-cookie"]

        assert wrong.status_code == 401
        assert right.status_code == 200
        assert "httponly" in cookie.lower()
        assert "samesite=strict" in cookie.lower()
        assert TOKEN not in cookie
        assert (await office.get("/api/status")).status_code == 200
        await office.post("/api/logout", json={})
        assert (await office.get("/api/status")).status_code == 401


GUESSES = {
    "bearer": lambda number: {"authorization": f"Bearer guess-{number}"},
    "other scheme": lambda number: {"authorization": f"Basic guess-{number}"},
    "cookie": lambda number: {"cookie": f"tinyagi=guess-{number}"},
}


@pytest.fixture
async def stranger(locked: Premises) -> AsyncIterator[httpx.AsyncClient]:
    """A client from the same address, without a credential."""
    async with httpx.AsyncClient(base_url=locked.http.base_url, trust_env=False, timeout=30) as client:
        yield client


async def lock_out(stranger: httpx.AsyncClient) -> None:
    for number in range(WRONG_TOKENS_PER_MINUTE):
        await stranger.get("/api/status", headers={"authorization": f"Bearer guess-{number}"})


@pytest.mark.parametrize("kind", GUESSES)
@pytest.mark.parametrize("path", ["/api/status", "/api/events/stream", "/metrics", "/nowhere"])
async def test_every_wrong_credential_is_counted(stranger: httpx.AsyncClient, kind: str, path: str) -> None:
    answers = [await stranger.get(path, headers=GUESSES[kind](number)) for number in range(WRONG_TOKENS_PER_MINUTE + 5)]

    assert [answer.status_code for answer in answers] == [401] * WRONG_TOKENS_PER_MINUTE + [429] * 5
    assert int(answers[-1].headers["retry-after"]) > 0


async def test_wrong_logins_are_counted(stranger: httpx.AsyncClient) -> None:
    answers = [
        await stranger.post("/api/login", json={"token": f"guess-{number}"})
        for number in range(WRONG_TOKENS_PER_MINUTE + 5)
    ]

    assert [answer.status_code for answer in answers] == [401] * WRONG_TOKENS_PER_MINUTE + [429] * 5


async def test_a_request_without_a_credential_is_not_counted(stranger: httpx.AsyncClient) -> None:
    for headers in ({}, {"cookie": "theme=dark"}):
        for _ in range(WRONG_TOKENS_PER_MINUTE):
            assert (await stranger.get("/api/status", headers=headers)).status_code == 401

    assert (await stranger.get("/api/status", headers={"authorization": "Bearer guess"})).status_code == 401


async def test_a_locked_out_address_is_refused_everywhere(locked: Premises, stranger: httpx.AsyncClient) -> None:
    await lock_out(stranger)
    wrong = {"authorization": "Bearer guess", "content-type": "application/json"}

    assert (await stranger.post("/api/message", content=MESSAGE, headers=wrong)).status_code == 429
    assert (await stranger.get("/api/events/stream", headers=wrong)).status_code == 429
    assert (await stranger.post("/api/login", json={"token": "guess"})).status_code == 429
    assert (await stranger.get("/api/status", headers={"cookie": "tinyagi=guess"})).status_code == 429
    assert (await stranger.get("/api/status")).status_code == 429
    assert await received(locked) == 0


async def test_the_right_token_works_from_a_locked_out_address(locked: Premises, stranger: httpx.AsyncClient) -> None:
    await lock_out(stranger)

    assert (await locked.http.get("/api/status")).status_code == 200
    assert (await locked.http.post("/api/message", content=MESSAGE)).status_code == 200
    assert (await stranger.post("/api/login", json={"token": TOKEN})).status_code == 200
    # The login has set the cookie.
    assert (await stranger.get("/api/status")).status_code == 200
