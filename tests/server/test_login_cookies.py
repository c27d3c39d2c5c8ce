"""The cookie of a login: its lifetime, logout, and the Secure flag."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.server.conftest import TOKEN, Premises
from tests.support.raw_http import ask, request, status_of
from tinyagi.server.access import COOKIE, LIFETIME, LoginCookies

SECRET = b"correct-horse-battery-staple"
MONTH = int(LIFETIME.total_seconds() * 1_000)


class Clock:
    now = 1_000_000_000_000

    def __call__(self) -> int:
        return self.now


async def log_in(premises: Premises) -> str:
    answer = await premises.http.post("/api/login", json={"token": TOKEN})
    premises.http.cookies.clear()
    return answer.cookies[COOKIE]


async def status_with(premises: Premises, cookie: str) -> int:
    call = request(premises.port, cookie=f"{COOKIE}={cookie}")
    return status_of(await ask(premises.port, call))


async def test_a_logout_ends_every_cookie(closed_premises: Premises) -> None:
    closed_premises.token = TOKEN
    async with closed_premises.serve() as premises:
        first, second = await log_in(premises), await log_in(premises)
        assert await status_with(premises, first) == 200
        async with httpx.AsyncClient(base_url=premises.http.base_url, trust_env=False) as office:
            assert (await office.post("/api/logout", headers={"cookie": f"{COOKIE}={first}"})).status_code == 200

        assert await status_with(premises, first) == 401
        assert await status_with(premises, second) == 401
        assert (await premises.http.get("/api/status")).status_code == 200
        third = await log_in(premises)
        assert await status_with(premises, third) == 200

    async with closed_premises.serve() as premises:
        assert await status_with(premises, first) == 401
        assert await status_with(premises, third) == 200


async def test_a_logout_needs_a_login(closed_premises: Premises) -> None:
    closed_premises.token = TOKEN
    async with closed_premises.serve() as premises:
        cookie = await log_in(premises)
        assert status_of(await ask(premises.port, request(premises.port, "POST", "/api/logout"))) == 401
        assert await status_with(premises, cookie) == 200


@pytest.mark.parametrize(
    ("origin", "is_secure"), [("https://office.example", True), ("http://office.example", False), (None, False)]
)
async def test_a_cookie_set_over_https_is_secure(
    closed_premises: Premises, origin: str | None, is_secure: bool
) -> None:
    closed_premises.token = TOKEN
    closed_premises.settings["server"] = {"allowed_hosts": ["office.example"]}
    async with closed_premises.serve() as premises:
        headers = {"host": "office.example", **({} if origin is None else {"origin": origin})}
        answer = await premises.http.post("/api/login", json={"token": TOKEN}, headers=headers)

    assert answer.status_code == 200
    assert ("; Secure" in answer.headers["set-cookie"]) == is_secure


def test_a_cookie_expires_after_a_month() -> None:
    clock = Clock()
    cookies = LoginCookies(SECRET, clock=clock)
    cookie = cookies.issue().encode()

    clock.now += MONTH
    assert cookies.is_valid(cookie)
    clock.now += 1
    assert not cookies.is_valid(cookie)


def test_a_login_in_the_same_millisecond_as_a_logout_is_valid() -> None:
    cookies = LoginCookies(SECRET, clock=Clock())
    before = cookies.issue().encode()
    cookies.end_all()

    assert not cookies.is_valid(before)
    assert cookies.is_valid(cookies.issue().encode())


def test_a_clock_set_back_does_not_revive_a_cookie(tmp_path: Path) -> None:
    clock = Clock()
    cookies = LoginCookies(SECRET, tmp_path / "logout", clock=clock)
    old = cookies.issue().encode()
    cookies.end_all()
    clock.now -= 60_000
    reopened = LoginCookies(SECRET, tmp_path / "logout", clock=clock)

    assert not reopened.is_valid(old)
    assert reopened.is_valid(reopened.issue().encode())


def test_a_damaged_logout_file_ends_all_cookies(tmp_path: Path) -> None:
    clock = Clock()
    old = LoginCookies(SECRET, clock=clock).issue().encode()
    (tmp_path / "logout").write_text("soon")

    assert not LoginCookies(SECRET, tmp_path / "logout", clock=clock).is_valid(old)


@pytest.mark.parametrize("forged", [b"", b".", b"1.", b"x.y", b"9" * 5_000 + b".00", b"\xff.\xff", b"1000000000000"])
def test_a_forged_cookie_is_invalid(forged: bytes) -> None:
    assert not LoginCookies(SECRET, clock=Clock()).is_valid(forged)


def test_the_time_of_a_cookie_cannot_be_changed() -> None:
    cookies = LoginCookies(SECRET, clock=Clock())
    issued, _, mark = cookies.issue().partition(".")

    assert cookies.is_valid(f"{issued}.{mark}".encode())
    assert not cookies.is_valid(f"{int(issued) + 1}.{mark}".encode())


def test_concurrent_logouts_all_succeed(tmp_path: Path) -> None:
    cookies = LoginCookies(b"secret", tmp_path / "logout")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: cookies.end_all(), range(200)))

    assert int((tmp_path / "logout").read_text()) == cookies._ended_at
