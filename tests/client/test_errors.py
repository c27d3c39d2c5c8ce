"""Every error is one sentence with a remedy."""

import json

import pytest

from tests.client.conftest import Call, Reply, scripted
from tinyagi.api.messages import SendMessage
from tinyagi.client.client import AsyncClient
from tinyagi.client.errors import (
    ClientError,
    ConflictError,
    ConnectionLost,
    NotFoundError,
    NotRunning,
    NotTinyAGI,
    Rejected,
    ServerFault,
    TooManyRequests,
    Unauthorized,
)


def refusing(status: int, body: str | None = None, **headers: str) -> Reply:
    async def reply(call: Call) -> None:
        await call.answer(status, (body or json.dumps({"error": f"Reason {status}."})).encode(), **headers)

    return reply


async def dropping(call: Call) -> None:
    """The connection breaks before any answer."""


async def accepting(call: Call) -> None:
    sent = json.loads(call.body)["messageId"]
    await call.answer(200, json.dumps({"ok": True, "messageId": sent, "conversationId": sent}).encode())


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Rejected),
        (401, Unauthorized),
        (403, Rejected),
        (404, NotFoundError),
        (409, ConflictError),
        (413, Rejected),
        (415, Rejected),
        (429, TooManyRequests),
        (500, ServerFault),
        (503, ServerFault),
    ],
)
async def test_each_status_raises_its_error_with_the_servers_message(status: int, kind: type[ClientError]) -> None:
    async with scripted(refusing(status)) as server, AsyncClient(server.url) as client:
        with pytest.raises(kind, match=f"Reason {status}."):
            await client.queue.status()


async def test_a_rate_limit_error_has_the_time_to_wait() -> None:
    async with scripted(refusing(429, retry_after="17")) as server, AsyncClient(server.url) as client:
        with pytest.raises(TooManyRequests) as caught:
            await client.queue.status()

    assert caught.value.retry_after == 17


async def test_a_missing_token_is_reported_with_the_settings() -> None:
    async with scripted(refusing(401)) as server, AsyncClient(server.url) as client:
        with pytest.raises(Unauthorized, match=r"TINYAGI_API_TOKEN.*server\.token"):
            await client.status()


async def test_a_refused_connection_names_the_start_command() -> None:
    async with scripted(dropping) as server:
        url = server.url
    async with AsyncClient(url) as client:
        with pytest.raises(NotRunning, match=f"not running at {url}. Start it with: tinyagi start"):
            await client.status()


@pytest.mark.parametrize("body", ["<html>Welcome to nginx</html>", '{"hello": "world"}', "[]", ""])
@pytest.mark.parametrize("status", [200, 302, 404, 502])
async def test_another_program_on_the_port_is_recognised(status: int, body: str) -> None:
    async def reply(call: Call) -> None:
        await call.answer(status, body.encode())

    async with scripted(reply) as server, AsyncClient(server.url) as client:
        with pytest.raises(NotTinyAGI, match="TINYAGI_API_PORT"):
            await client.queue.status()


@pytest.mark.parametrize("url", ["ftp://127.0.0.1:1", "http://", "http://[", "nonsense"])
async def test_an_invalid_address_is_an_error(url: str) -> None:
    with pytest.raises(ClientError):
        async with AsyncClient(url) as client:
            await client.status()


async def test_a_read_is_repeated_when_a_kept_connection_was_closed() -> None:
    async with scripted(dropping, refusing(404)) as server, AsyncClient(server.url) as client:
        with pytest.raises(NotFoundError):
            await client.queue.status()


async def test_a_write_is_not_repeated() -> None:
    async with scripted(dropping) as server, AsyncClient(server.url) as client:
        with pytest.raises(ConnectionLost):
            await client.queue.pause("coder")

    assert len(server.calls) == 1


async def test_a_message_without_an_answer_is_sent_again_with_the_same_id() -> None:
    async with scripted(dropping, accepting) as server, AsyncClient(server.url) as client:
        sent = await client.send(SendMessage(message="hello", channel="cli"))

    assert {json.loads(call.body)["messageId"] for call in server.calls} == {sent.message_id}
    assert len(server.calls) == 2
    assert sent.message_id.startswith("cli_")


async def test_a_conflict_with_our_own_first_attempt_is_success() -> None:
    async with scripted(dropping, refusing(409)) as server, AsyncClient(server.url) as client:
        sent = await client.send(SendMessage(message="hello", message_id="mine"))

    assert (sent.message_id, sent.conversation_id) == ("mine", "mine")


async def test_a_conflict_on_the_first_attempt_is_an_error() -> None:
    async with scripted(refusing(409)) as server, AsyncClient(server.url) as client:
        with pytest.raises(ConflictError):
            await client.send(SendMessage(message="hello", message_id="taken"))


async def test_sending_gives_up_after_three_attempts() -> None:
    async with scripted(dropping) as server, AsyncClient(server.url) as client:
        with pytest.raises(ConnectionLost):
            await client.send(SendMessage(message="hello"))

    assert len(server.calls) == 3


async def test_every_request_carries_client_name_and_token() -> None:
    async with scripted(refusing(404)) as server, AsyncClient(server.url, "s3cret", client_name="probe") as client:
        with pytest.raises(NotFoundError):
            await client.queue.status()
        with pytest.raises(NotFoundError):
            await client.queue.pause("coder")

    assert {call.headers["authorization"] for call in server.calls} == {"Bearer s3cret"}
    assert {call.headers["x-tinyagi-client"] for call in server.calls} == {"probe"}


async def test_a_write_without_a_body_has_the_json_content_type() -> None:
    async with scripted(refusing(404)) as server, AsyncClient(server.url) as client:
        with pytest.raises(NotFoundError):
            await client.queue.delete(3)

    assert server.calls[0].headers["content-type"] == "application/json"


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")

    async with scripted(refusing(404)) as server, AsyncClient(server.url) as client:
        with pytest.raises(NotFoundError):
            await client.queue.status()


async def test_a_body_that_is_too_large_is_sent_once_and_names_the_limit() -> None:
    async with scripted(dropping) as server, AsyncClient(server.url) as client:
        with pytest.raises(Rejected, match=r"at most 1,048,576 bytes, unless server\.max_body_bytes"):
            await client.send(SendMessage(message="x" * 2_000_000))

        assert len(server.calls) == 1
