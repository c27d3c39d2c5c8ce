"""Failures of the provider `api`: classified, with a reason that names the remedy and no key."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from tests.support.clock import START, FakeClock
from tests.support.llm_server import (
    Exchange,
    Json,
    Reply,
    answering,
    anthropic_events,
    dropping,
    openai_events,
    serving,
    sse,
    streaming,
)
from tests.support.runs import AT_ONCE, RecordedProgress, a_request, failure_of
from tinyagi.domain.event_stream import MAX_EVENT
from tinyagi.domain.limits import Usage
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.runs import Endpoint, RunLimits, Wire
from tinyagi.providers.api import Api
from tinyagi.providers.base import RunRequest

KEY = "sk-very-secret"


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    provider = Api(pauses=AT_ONCE, now_ms=FakeClock())
    yield provider
    await provider.aclose()


def to(url: str, wire: Wire = Wire.OPENAI) -> RunRequest:
    return a_request(endpoint=Endpoint(url, KEY, wire=wire), model="some-model")


async def failure_and_calls(api: Api, reply: Reply, wire: Wire = Wire.OPENAI) -> tuple[Failure, int]:
    """The failure, and the number of requests to the endpoint."""
    async with serving(reply) as llm:
        failure = await failure_of(api, to(llm.url, wire))
        return failure, len(llm.received)


def error(kind: str, message: str = "no", **more: object) -> Json:
    return {"error": {"type": kind, "message": message, **more}}


@pytest.mark.parametrize(
    ("status", "body", "word"),
    [
        (401, error("authentication_error", "invalid x-api-key"), "api_key"),
        (403, error("permission_error"), "api_key"),
        (400, error("invalid_request_error", code="invalid_api_key"), "api_key"),
        (402, error("billing_error"), "Top up"),
        (429, error("insufficient_quota", "You exceeded your current quota"), "Top up"),
        (429, error("insufficient_quota", code="credit_balance_exhausted"), "Top up"),
        (429, error("rate_limit_error", details={"error_code": "enforced_spend_limit_reached"}), "Top up"),
        (400, error("invalid_request_error", "Your credit balance is too low to access the API"), "Top up"),
        (400, error("invalid_request_error", "You have reached your specified API usage limits."), "Top up"),
        (404, error("not_found_error", "model: some-model"), "some-model"),
        (400, error("invalid_request_error", code="model_not_found"), "some-model"),
        (405, "", "base_url"),
        (308, "", "base_url"),
    ],
)
async def test_a_failure_that_needs_the_owner_is_not_retried(
    api: Api, status: int, body: Json | str, word: str
) -> None:
    failure, asked = await failure_and_calls(api, answering(status, body, {"location": "http://elsewhere.invalid"}))
    assert (failure.kind, failure.needs_person, asked) == (FailureKind.UNAVAILABLE, True, 1)
    assert word in failure.reason
    assert "127.0.0.1" in failure.reason


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_a_temporary_failure_is_retried_and_then_unavailable(api: Api, status: int) -> None:
    failure, asked = await failure_and_calls(api, answering(status, "<html><body>Bad Gateway</body></html>"))
    assert (failure.kind, failure.needs_person, failure.retry_after) == (FailureKind.UNAVAILABLE, False, None)
    assert asked == 1 + len(AT_ONCE)
    assert str(status) in failure.reason
    assert "<" not in failure.reason


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        ("30", timedelta(seconds=30)),
        ("7.5", timedelta(seconds=7.5)),
        ("999999999", timedelta(days=1)),
        (format_datetime(datetime.fromtimestamp(START / 1000 + 90, UTC), usegmt=True), timedelta(seconds=90)),
        (format_datetime(datetime.fromtimestamp(START / 1000 + 10**7, UTC), usegmt=True), timedelta(days=1)),
    ],
)
async def test_a_long_retry_after_is_left_to_the_lane(api: Api, header: str, wait: timedelta) -> None:
    failure, asked = await failure_and_calls(api, answering(429, error("rate_limit_error"), {"Retry-After": header}))
    assert failure.retry_after == wait
    assert asked == 1


@pytest.mark.parametrize("header", ["soon", "-5", "", "1e9", "Mon, 99 Foo 2026 99:99:99 GMT", "9" * 400, "²"])
async def test_an_invalid_retry_after_is_ignored(api: Api, header: str) -> None:
    failure, _ = await failure_and_calls(
        api, answering(503, error("api_error"), {"Retry-After": header.encode().decode("latin-1")})
    )
    assert failure.retry_after is None


async def test_a_past_retry_after_means_no_wait(api: Api) -> None:
    past = format_datetime(datetime.fromtimestamp(START / 1000 - 90, UTC), usegmt=True)
    failure, asked = await failure_and_calls(api, answering(503, error("api_error"), {"Retry-After": past}))
    assert failure.retry_after == timedelta()
    assert asked == 3


@pytest.mark.parametrize(
    "body",
    [
        error("invalid_request_error", "messages: too long"),
        {"message": "messages: too long"},
        {"error": "messages: too long"},
        {"detail": "messages: too long"},
        {"detail": [{"loc": ["body"], "msg": "messages: too long"}]},
        "messages: too long",
    ],
)
@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_bad_request_is_a_message_failure_with_the_endpoints_text(
    api: Api, status: int, body: Json | str
) -> None:
    failure, asked = await failure_and_calls(api, answering(status, body))
    assert (failure.kind, asked) == (FailureKind.MESSAGE, 1)
    assert f"({status}: messages: too long)" in failure.reason


async def test_an_unreachable_endpoint_is_unavailable(api: Api) -> None:
    async with serving(dropping) as llm:
        url = llm.url
    failure = await failure_of(api, to(url))
    assert (failure.kind, failure.needs_person) == (FailureKind.UNAVAILABLE, False)
    assert "cannot be reached" in failure.reason


async def test_an_endpoint_that_drops_connections_is_unavailable_after_retries(api: Api) -> None:
    failure, asked = await failure_and_calls(api, dropping)
    assert (failure.kind, asked) == (FailureKind.UNAVAILABLE, 3)


async def test_a_stream_that_breaks_off_is_a_message_failure(api: Api) -> None:
    failure, asked = await failure_and_calls(
        api, streaming(sse(anthropic_events("half")[:4]), cut=True), Wire.ANTHROPIC
    )
    assert (failure.kind, asked) == (FailureKind.MESSAGE, 1)
    assert failure.usage == Usage(11, 1, None, None, "api", "claude-test")


@pytest.mark.parametrize(
    ("wire", "data"),
    [
        (Wire.OPENAI, sse(openai_events("half", stop=None, done=False))),
        (Wire.ANTHROPIC, sse(anthropic_events("half")[:4])),
        (Wire.OPENAI, b"<html>Welcome</html>\n"),
        (Wire.OPENAI, b"data: {not json}\n\n"),
        (Wire.OPENAI, b"data: " + b"[" * 200_000 + b"\n\n"),
        (Wire.ANTHROPIC, b"event: message_start\ndata: {\n\n"),
        (Wire.OPENAI, b"data: " + b"x" * (MAX_EVENT + 1)),
        (Wire.OPENAI, sse(openai_events())),
        (Wire.OPENAI, sse(openai_events("  \n"))),
        (Wire.OPENAI, sse(openai_events("I must", stop="content_filter"))),
        (Wire.ANTHROPIC, sse(anthropic_events("I must", stop="refusal"))),
        (Wire.ANTHROPIC, sse(anthropic_events(stop="max_tokens"))),
        (Wire.OPENAI, b"data: [1, 2]\n\ndata: null\n\ndata: 3\n\n"),
        (Wire.OPENAI, b'data: {"choices": {"0": 1}, "model": 5, "usage": []}\n\n'),
    ],
)
async def test_an_invalid_stream_is_a_message_failure(api: Api, wire: Wire, data: bytes) -> None:
    failure, asked = await failure_and_calls(api, streaming(data, size=65_536), wire)
    assert (failure.kind, asked) == (FailureKind.MESSAGE, 1)
    assert "127.0.0.1" in failure.reason


async def test_an_answer_without_a_stream_is_a_message_failure(api: Api) -> None:
    failure, _ = await failure_and_calls(
        api, answering(200, {"type": "message", "content": [{"type": "text", "text": "hi"}]})
    )
    assert (failure.kind, "without a stream" in failure.reason) == (FailureKind.MESSAGE, True)


@pytest.mark.parametrize(
    ("wire", "event", "kind", "needs_person"),
    [
        (Wire.ANTHROPIC, {"type": "error", **error("overloaded_error")}, FailureKind.UNAVAILABLE, False),
        (Wire.ANTHROPIC, {"type": "error", **error("authentication_error")}, FailureKind.UNAVAILABLE, True),
        (Wire.ANTHROPIC, {"type": "error", **error("invalid_request_error")}, FailureKind.MESSAGE, False),
        (Wire.ANTHROPIC, {"type": "error", **error("of_tomorrow")}, FailureKind.MESSAGE, False),
        (Wire.OPENAI, error("server_error"), FailureKind.UNAVAILABLE, False),
        (Wire.OPENAI, error("", code="insufficient_quota"), FailureKind.UNAVAILABLE, True),
        (Wire.OPENAI, error("", code=502), FailureKind.UNAVAILABLE, False),
        (Wire.OPENAI, {"error": "it broke"}, FailureKind.MESSAGE, False),
        (Wire.OPENAI, {"type": "error", "message": "it broke"}, FailureKind.MESSAGE, False),
    ],
)
@pytest.mark.parametrize("text", [(), ("half",)])
async def test_an_error_in_the_stream_is_classified_like_a_status(
    api: Api, wire: Wire, event: Json, kind: FailureKind, needs_person: bool, text: tuple[str, ...]
) -> None:
    begun = anthropic_events(*text)[: 3 + len(text)] if wire is Wire.ANTHROPIC else openai_events(*text, stop=None)[:-1]
    failure, asked = await failure_and_calls(api, streaming(sse([*begun, event])), wire)
    assert (failure.kind, failure.needs_person) == (kind, needs_person)
    assert asked == (3 if kind is FailureKind.UNAVAILABLE and not needs_person and not text else 1)


async def test_an_error_with_status_200_is_classified(api: Api) -> None:
    failure, _ = await failure_and_calls(api, answering(200, error("rate_limit_error", "slow down")))
    assert failure.kind is FailureKind.UNAVAILABLE


@pytest.mark.parametrize("status", [400, 401, 404, 500])
@pytest.mark.parametrize("pad", [0, 290])
async def test_a_key_in_an_error_body_is_masked(api: Api, status: int, pad: int) -> None:
    message = "." * pad + f" Bearer {KEY} is {KEY}\nno key"
    for body in (error("x", message), message):
        failure, _ = await failure_and_calls(api, answering(status, body))
        assert "secret" not in failure.reason
        assert "sk-v" not in failure.reason
        assert "\n" not in failure.reason
        assert len(failure.reason) < 600


async def test_a_key_in_a_stream_error_is_masked(api: Api) -> None:
    failure, _ = await failure_and_calls(api, streaming(sse([error("invalid_request_error", f"what is {KEY}?")])))
    assert "what is ***?" in failure.reason


@pytest.mark.parametrize(
    ("wire", "setting", "variable"),
    [
        (Wire.OPENAI, "models.openai.api_key", "OPENAI_API_KEY"),
        (Wire.ANTHROPIC, "models.anthropic.api_key", "ANTHROPIC_API_KEY"),
    ],
)
async def test_a_missing_key_for_an_official_endpoint_names_the_setting(
    api: Api, wire: Wire, setting: str, variable: str
) -> None:
    for key in (None, "", " "):
        failure = await failure_of(api, a_request(endpoint=Endpoint(None, key, wire=wire)))
        assert (failure.kind, failure.needs_person) == (FailureKind.UNAVAILABLE, True)
        assert setting in failure.reason
        assert variable in failure.reason


@pytest.mark.parametrize("key", ["sk-a\r\nhost: evil", "sk-ключ", "sk-\x00"])
async def test_an_unsendable_key_is_refused_and_not_shown(api: Api, key: str) -> None:
    failure = await failure_of(api, a_request(endpoint=Endpoint("http://127.0.0.1:9", key)))
    assert failure.needs_person
    assert "sk-" not in failure.reason


@pytest.mark.parametrize(
    "address",
    [
        "api.example.com",
        "ftp://example.com",
        "http://",
        "http://host:port",
        "http://127.0.0.1:99999999",
        "http://me:secret@127.0.0.1:9",
        "file:///etc/passwd",
    ],
)
async def test_an_invalid_base_url_needs_the_owner(api: Api, address: str) -> None:
    failure = await failure_of(api, a_request(endpoint=Endpoint(address, KEY)))
    assert (failure.kind, failure.needs_person) == (FailureKind.UNAVAILABLE, True)
    assert "base_url" in failure.reason
    assert "secret" not in failure.reason


async def test_an_answer_over_the_limit_is_aborted(api: Api) -> None:
    async with serving(streaming(sse(openai_events(*["0123456789"] * 11)))) as llm:
        failure = await failure_of(api, a_request(endpoint=Endpoint(llm.url), limits=RunLimits(max_answer=100)))
    assert failure.kind is FailureKind.MESSAGE
    assert "longer than 100 characters" in failure.reason


async def test_an_endless_error_body_is_read_only_in_part(api: Api) -> None:
    async def endless(exchange: Exchange) -> None:
        await exchange.head(400, {"transfer-encoding": "chunked"})
        while True:
            await exchange.chunk(b"no " * 10_000)

    failure, asked = await failure_and_calls(api, endless)
    assert (failure.kind, asked) == (FailureKind.MESSAGE, 1)
    assert len(failure.reason) < 600


async def test_the_provider_works_after_every_failure(api: Api) -> None:
    async with serving(answering(400, error("x")), dropping, streaming(sse(openai_events("ok")))) as llm:
        await failure_of(api, to(llm.url))
        assert (await api.run(to(llm.url), RecordedProgress())).text == "ok"
