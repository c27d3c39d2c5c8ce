"""Writes without a body, and calls from pages of other sites."""

import logging

import pytest

from tests.server.conftest import TOKEN, Premises
from tests.server.test_queue_routes import a_dead_message
from tests.support.raw_http import ask, request, status_of
from tinyagi.server import guard

OFFICE = "https://office.example"
NODE_FETCH = {
    "connection": "keep-alive",
    "accept": "*/*",
    "accept_language": "*",
    "sec_fetch_mode": "cors",
    "user_agent": "node",
    "accept_encoding": "gzip, deflate",
    "content_length": "0",
}
CURL = {"user_agent": "curl/8.5.0", "accept": "*/*"}
OWN_PAGE = {"sec_fetch_site": "same-origin", "sec_fetch_mode": "cors", "content_length": "0"}
TYPED = {"sec_fetch_site": "none", "sec_fetch_mode": "navigate"}
PAUSE = "/api/queue/agents/coder/pause"


async def is_paused(premises: Premises) -> bool:
    lanes = (await premises.http.get("/api/queue/agents")).json()
    return any(lane["agent"] == "coder" and lane["paused"] for lane in lanes)


@pytest.mark.parametrize("headers", [CURL, NODE_FETCH, OWN_PAGE, {}], ids=["curl", "node", "own page", "bare"])
async def test_a_write_without_a_body_needs_no_content_type(premises: Premises, headers: dict[str, str]) -> None:
    answer = await ask(premises.port, request(premises.port, "POST", PAUSE, b"", **headers))

    assert status_of(answer) == 200, answer
    assert await is_paused(premises)


async def test_a_channel_acknowledges_without_a_body_and_gets_each_response_once(premises: Premises) -> None:
    new = {"channel": "telegram", "sender": "Ada", "message": "hello"}
    await premises.http.post("/api/responses", json=new)
    pending = "/api/responses/pending?channel=telegram"
    (response,) = (await premises.http.get(pending)).json()

    answer = await ask(
        premises.port, request(premises.port, "POST", f"/api/responses/{response['id']}/ack", b"", **NODE_FETCH)
    )

    assert status_of(answer) == 200, answer
    assert (await premises.http.get(pending)).json() == []


async def test_a_dead_message_is_retried_without_a_body(premises: Premises) -> None:
    dead = await a_dead_message(premises)
    premises.puppet.plays["coder"] = lambda _: "better now"

    answer = await ask(
        premises.port, request(premises.port, "POST", f"/api/queue/dead/{dead['id']}/retry", b"", **CURL)
    )

    assert status_of(answer) == 200, answer
    await premises.until_event("response_ready")


async def test_a_put_without_a_body_reaches_its_route(premises: Premises) -> None:
    answer = await ask(premises.port, request(premises.port, "PUT", "/api/settings", b"", **CURL))

    assert status_of(answer) == 400
    assert b"A JSON body is missing" in answer


async def test_a_same_origin_or_allowed_page_may_write_without_a_body(closed_premises: Premises) -> None:
    closed_premises.settings["server"] = {"allowed_origins": [OFFICE]}
    async with closed_premises.serve() as premises:
        for origin, site in ((f"http://127.0.0.1:{premises.port}", "same-origin"), (OFFICE, "cross-site")):
            call = request(premises.port, "POST", PAUSE, origin=origin, sec_fetch_site=site, content_length="0")
            assert status_of(await ask(premises.port, call)) == 200


@pytest.mark.parametrize("body", [b"{}", b"hello"])
@pytest.mark.parametrize("headers", [CURL, {"transfer_encoding": "chunked"}, {"content_type": "text/plain"}])
async def test_a_write_with_a_body_needs_the_content_type(
    premises: Premises, body: bytes, headers: dict[str, str]
) -> None:
    sent = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if "transfer_encoding" in headers else body
    answer = await ask(premises.port, request(premises.port, "POST", PAUSE, sent, **headers))

    assert status_of(answer) == 415
    assert not await is_paused(premises)


async def test_an_empty_form_is_refused(premises: Premises) -> None:
    form = {"content_type": "application/x-www-form-urlencoded", "content_length": "0"}

    assert status_of(await ask(premises.port, request(premises.port, "POST", PAUSE, b"", **form))) == 415
    assert not await is_paused(premises)


FOREIGN = {
    "fetch of another site": {"origin": "https://evil.example", "sec_fetch_site": "cross-site"},
    "sandboxed frame": {"origin": "null", "sec_fetch_site": "cross-site"},
    "without an origin": {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"},
    "another port of this host": {"origin": "http://127.0.0.1:1", "sec_fetch_site": "same-site"},
    "same site without an origin": {"sec_fetch_site": "same-site", "sec_fetch_mode": "no-cors"},
    "navigation": {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"},
    "unknown site": {"sec_fetch_site": "cross-site, same-origin"},
}


@pytest.mark.parametrize("headers", FOREIGN.values(), ids=FOREIGN.keys())
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_a_page_of_another_origin_cannot_write_without_a_body(
    premises: Premises, headers: dict[str, str], method: str
) -> None:
    for json in ({}, {"content_type": "application/json"}):
        call = request(premises.port, method, PAUSE, b"", content_length="0", **headers, **json)
        assert status_of(await ask(premises.port, call)) == 403
    assert not await is_paused(premises)


@pytest.mark.parametrize("headers", FOREIGN.values(), ids=FOREIGN.keys())
@pytest.mark.parametrize("path", ["/api/status", "/api/events/stream", "/metrics", "/openapi.json", "/docs/start.js"])
async def test_a_page_of_another_origin_cannot_read(premises: Premises, headers: dict[str, str], path: str) -> None:
    answer = await ask(premises.port, request(premises.port, "GET", path, b"", **headers), most=1)

    assert status_of(answer) == 403
    assert b"access-control-allow-origin" not in answer.lower()


@pytest.mark.parametrize(("path", "status"), [("/", 307), ("/docs", 200)])
async def test_a_link_on_another_site_opens_the_documentation(premises: Premises, path: str, status: int) -> None:
    link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}

    assert status_of(await ask(premises.port, request(premises.port, "GET", path, b"", **link))) == status
    assert status_of(await ask(premises.port, request(premises.port, "POST", path, b"", **link))) == 403
    embedded = {**link, "sec_fetch_mode": "no-cors"}
    assert status_of(await ask(premises.port, request(premises.port, "GET", path, b"", **embedded))) == 403


async def test_a_typed_address_is_answered(premises: Premises) -> None:
    assert status_of(await ask(premises.port, request(premises.port, "GET", "/api/status", b"", **TYPED))) == 200


async def test_an_allowed_page_can_read_why_it_was_refused(closed_premises: Premises) -> None:
    closed_premises.settings["server"] = {"allowed_origins": [OFFICE]}
    closed_premises.token = TOKEN
    async with closed_premises.serve() as premises:
        right = {"authorization": f"Bearer {TOKEN}"}
        for status, call in (
            (401, request(premises.port, origin=OFFICE)),
            (415, request(premises.port, "POST", PAUSE, b"{}", origin=OFFICE, content_type="text/plain", **right)),
            (413, request(premises.port, "POST", PAUSE, b"", origin=OFFICE, content_length="5000000",
                          content_type="application/json", **right)),
        ):  # fmt: skip
            answer = (await ask(premises.port, call)).lower()
            assert status_of(answer) == status
            assert answer.count(b"access-control-allow-origin: https://office.example\r\n") == 1


async def test_a_preflight_names_the_origin_once(closed_premises: Premises) -> None:
    closed_premises.settings["server"] = {"allowed_origins": [OFFICE]}
    async with closed_premises.serve() as premises:
        call = request(premises.port, "OPTIONS", PAUSE, origin=OFFICE, access_control_request_method="POST")
        answer = (await ask(premises.port, call)).lower()

    assert status_of(answer) == 204
    assert answer.count(b"access-control-allow-origin:") == 1
    assert b"access-control-allow-methods: get, post, put, delete\r\n" in answer


async def test_a_refused_origin_is_logged_once_with_the_setting(
    premises: Premises, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, guard.__name__)
    for origin in ("https://one.example", "https://two.example", "https://one.example"):
        await ask(premises.port, request(premises.port, origin=origin))

    lines = [record.getMessage() for record in caplog.records if record.name == guard.__name__]
    assert ["one.example" in line for line in lines] == [True, False]
    assert all("server.allowed_origins" in line for line in lines)


async def test_the_log_of_refused_origins_is_bounded(premises: Premises, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, guard.__name__)
    for number in range(guard.LOGGED_ORIGINS + 5):
        await ask(premises.port, request(premises.port, origin=f"https://site-{number}.example"))

    assert len([record for record in caplog.records if record.name == guard.__name__]) == guard.LOGGED_ORIGINS
