"""The provider `api` against a real HTTP server: requests, streams and live text."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.support.llm_server import (
    Json,
    Reply,
    answering,
    anthropic_events,
    dropping,
    openai_events,
    serving,
    silent,
    sse,
    streaming,
)
from tests.support.runs import AT_ONCE, RecordedProgress, a_request, failure_of
from tinyagi.domain.limits import Usage
from tinyagi.domain.responses import Role
from tinyagi.domain.retry import FailureKind
from tinyagi.domain.runs import Endpoint, RunLimits, Turn, Wire
from tinyagi.providers.api import Api
from tinyagi.providers.base import Deadline, RunRequest

TEXT = "Grüße, 世界 😀\nand a second line"
KEY = "sk-very-secret"


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    provider = Api(pauses=AT_ONCE)
    yield provider
    await provider.aclose()


def openai(url: str) -> Endpoint:
    return Endpoint(f"{url}/v1", KEY)


def anthropic(url: str) -> Endpoint:
    return Endpoint(url, KEY, wire=Wire.ANTHROPIC)


def events_of(wire: Wire, *pieces: str) -> bytes:
    return sse(openai_events(*pieces) if wire is Wire.OPENAI else anthropic_events(*pieces))


def to(url: str, wire: Wire) -> RunRequest:
    return a_request(endpoint=openai(url) if wire is Wire.OPENAI else anthropic(url))


@pytest.mark.parametrize("wire", Wire)
@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
async def test_chunk_boundaries_do_not_change_the_answer(api: Api, wire: Wire, size: int, ends: str) -> None:
    pieces = (TEXT[:5], TEXT[5:9], TEXT[9:])
    events = openai_events(*pieces) if wire is Wire.OPENAI else anthropic_events(*pieces)
    progress = RecordedProgress()
    async with serving(streaming(b": hi\n\n" + sse(events, ends=ends), size=size)) as llm:
        result = await api.run(to(llm.url, wire), progress)
    assert result.text == TEXT
    assert "".join(progress.pieces) == TEXT
    assert result.turns == (Turn(Role.USER, "hello"), Turn(Role.ASSISTANT, TEXT))
    assert result.session_id is None


async def test_a_chat_completion_request_follows_the_format(api: Api) -> None:
    turns = (Turn(Role.USER, "one"), Turn(Role.ASSISTANT, "two"))
    async with serving(streaming(sse(openai_events("ok")))) as llm:
        request = a_request(endpoint=openai(llm.url), system_prompt="Be kind.", prompt="three", turns=turns, model="m")
        await api.run(request, RecordedProgress())
    assert llm.last.path == "/v1/chat/completions"
    assert llm.last.headers["authorization"] == f"Bearer {KEY}"
    assert llm.last.body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "two"},
            {"role": "user", "content": "three"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 8_192,
    }


async def test_a_messages_request_follows_the_format(api: Api) -> None:
    async with serving(streaming(sse(anthropic_events("ok")))) as llm:
        await api.run(a_request(endpoint=anthropic(llm.url), system_prompt="Be kind.", model="m"), RecordedProgress())
    assert llm.last.path == "/v1/messages"
    assert llm.last.headers["x-api-key"] == KEY
    assert llm.last.headers["anthropic-version"] == "2023-06-01"
    assert llm.last.body == {
        "model": "m",
        "system": "Be kind.",
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 8_192,
        "stream": True,
    }


@pytest.mark.parametrize(
    ("wire", "base", "path"),
    [
        (Wire.ANTHROPIC, "", "/v1/messages"),
        (Wire.ANTHROPIC, "/v1/", "/v1/messages"),
        (Wire.ANTHROPIC, "/proxy", "/proxy/v1/messages"),
        (Wire.ANTHROPIC, "/proxy/v1/messages", "/proxy/v1/messages"),
        (Wire.OPENAI, "", "/v1/chat/completions"),
        (Wire.OPENAI, "/api/v3/", "/api/v3/chat/completions"),
        (Wire.OPENAI, "/v1/chat/completions?version=2", "/v1/chat/completions?version=2"),
    ],
)
async def test_a_base_url_is_accepted_in_every_common_form(api: Api, wire: Wire, base: str, path: str) -> None:
    async with serving(streaming(events_of(wire, "ok"))) as llm:
        await api.run(a_request(endpoint=Endpoint(llm.url + base, wire=wire)), RecordedProgress())
    assert llm.last.path == path


async def test_only_the_history_that_fits_is_sent(api: Api) -> None:
    turns = tuple(Turn(role, f"{role} {n} " * 40) for n in range(20) for role in (Role.USER, Role.ASSISTANT))
    async with serving(streaming(sse(anthropic_events("ok")))) as llm:
        await api.run(
            a_request(endpoint=anthropic(llm.url), turns=turns, limits=RunLimits(history_tokens=500)),
            RecordedProgress(),
        )
    roles = [message["role"] for message in llm.last.body["messages"]]
    assert roles == ["user", "assistant"] * 2 + ["user"]
    assert "assistant 19" in llm.last.body["messages"][-2]["content"]


async def test_lone_surrogates_are_replaced_in_requests_and_answers(api: Api) -> None:
    events = openai_events("a \ud83d", "\ude00 b", "\udc00 c")
    async with serving(streaming(sse(events, ascii_only=True))) as llm:
        result = await api.run(
            a_request(endpoint=openai(llm.url), prompt="x\ud800\0", system_prompt="\udfff"), RecordedProgress()
        )
    assert result.text == "a 😀 b\ufffd c"
    assert [message["content"] for message in llm.last.body["messages"]] == ["\ufffd", "x\ufffd\ufffd"]
    assert result.turns[0].content == "x\ufffd\ufffd"


async def test_usage_and_model_come_from_the_endpoint(api: Api) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 60}}
    async with serving(streaming(sse(openai_events("ok", usage=usage, model="gpt-9")))) as llm:
        result = await api.run(a_request(endpoint=openai(llm.url), model="gpt"), RecordedProgress())
    assert result.usage == Usage(40, 20, 60, None, "api", "gpt-9")


async def test_usage_of_a_message_counts_the_cache_separately(api: Api) -> None:
    usage = {"cache_creation_input_tokens": 5, "cache_read_input_tokens": 30}
    async with serving(streaming(sse(anthropic_events("ok", usage=usage)))) as llm:
        result = await api.run(to(llm.url, Wire.ANTHROPIC), RecordedProgress())
    assert result.usage == Usage(11, 7, 35, None, "api", "claude-test")


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": "many"}, {"prompt_tokens": -1}, {"prompt_tokens": 1e99}])
async def test_an_answer_without_valid_usage_is_accepted(api: Api, usage: dict[str, object] | None) -> None:
    async with serving(streaming(sse(openai_events("ok", usage=usage, model="")))) as llm:
        result = await api.run(a_request(endpoint=openai(llm.url), model="m"), RecordedProgress())
    assert result.usage == Usage(provider="api", model="m")


@pytest.mark.parametrize(
    "complaint",
    [
        answering(400, {"error": {"message": "Unknown parameter: stream_options"}}),
        answering(422, {"detail": [{"loc": ["body", "max_tokens"], "msg": "Extra inputs are not permitted"}]}),
    ],
)
async def test_fields_refused_by_an_endpoint_are_left_out(api: Api, complaint: Reply) -> None:
    async with serving(complaint, streaming(sse(openai_events("ok")))) as llm:
        result = await api.run(to(llm.url, Wire.OPENAI), RecordedProgress())
    assert result.text == "ok"
    assert set(llm.last.body) == {"messages", "stream"}
    assert len(llm.received) == 2


async def test_a_request_with_refused_fields_is_repeated_once(api: Api) -> None:
    async with serving(answering(400, {"error": {"message": "max_tokens is all I can say"}})) as llm:
        failure = await failure_of(api, to(llm.url, Wire.OPENAI))
    assert failure.kind is FailureKind.MESSAGE
    assert len(llm.received) == 2


async def test_thinking_and_unknown_events_are_not_part_of_the_answer(api: Api) -> None:
    events = anthropic_events("ok")
    extra: list[Json] = [
        {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{}"}},
        {"type": "of_tomorrow", "text": "no"},
    ]
    async with serving(streaming(sse([*events[:3], *extra, *events[3:]]))) as llm:
        assert (await api.run(to(llm.url, Wire.ANTHROPIC), RecordedProgress())).text == "ok"


@pytest.mark.parametrize("stop", ["length", "stop", "of_tomorrow"])
async def test_an_answer_cut_at_the_token_limit_is_accepted(api: Api, stop: str) -> None:
    async with serving(streaming(sse(openai_events("half of it", stop=stop)))) as llm:
        assert (await api.run(to(llm.url, Wire.OPENAI), RecordedProgress())).text == "half of it"


async def test_a_stream_ends_with_done_or_with_a_finish_reason(api: Api) -> None:
    for events in (openai_events("ok", stop=None), openai_events("ok", done=False)):
        async with serving(streaming(sse(events))) as llm:
            assert (await api.run(to(llm.url, Wire.OPENAI), RecordedProgress())).text == "ok"


async def test_a_stream_that_stays_open_after_its_end_is_closed(api: Api) -> None:
    async with serving(streaming(sse(openai_events("ok")), hang=True)) as llm:
        assert (await api.run(to(llm.url, Wire.OPENAI), RecordedProgress())).text == "ok"
        await llm.left.wait()


async def test_a_connection_lost_after_the_end_keeps_the_answer(api: Api) -> None:
    async with serving(streaming(sse(openai_events("ok", done=False)), cut=True)) as llm:
        assert (await api.run(to(llm.url, Wire.OPENAI), RecordedProgress())).text == "ok"
    assert len(llm.received) == 1


async def test_pieces_that_arrive_together_are_reported_together(api: Api) -> None:
    progress = RecordedProgress()
    async with serving(streaming(sse(openai_events(*["word "] * 1000)))) as llm:
        await api.run(to(llm.url, Wire.OPENAI), progress)
    assert "".join(progress.pieces) == "word " * 1000
    assert len(progress.pieces) < 100


async def test_progress_is_reported_during_the_answer(api: Api) -> None:
    progress: asyncio.Queue[str] = asyncio.Queue()
    begun = sse(openai_events("first", stop=None, done=False))
    async with serving(streaming(begun, hang=True)) as llm:
        task = asyncio.create_task(api.run(to(llm.url, Wire.OPENAI), progress.put_nowait))
        assert await progress.get() == "first"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("reply", [silent, streaming(sse(openai_events("a", stop=None, done=False)), hang=True)])
async def test_a_cancelled_run_closes_its_connection(api: Api, reply: Reply) -> None:
    async with serving(reply) as llm:
        task = asyncio.create_task(api.run(to(llm.url, Wire.OPENAI), RecordedProgress()))
        await llm.stalled.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await llm.left.wait()
    assert api._client._transport._pool.connections == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("reply", [silent, streaming(sse(openai_events("a", stop=None, done=False)), hang=True)])
async def test_a_stalled_endpoint_is_ended_by_the_idle_timeout(api: Api, reply: Reply) -> None:
    limits = RunLimits(idle=timedelta(milliseconds=50))
    async with serving(reply) as llm:
        failure = await failure_of(api, a_request(endpoint=openai(llm.url), limits=limits))
    assert failure.kind is FailureKind.TIMEOUT
    assert "idle_timeout_seconds" in failure.reason


async def test_the_run_timeout_ends_an_endpoint_that_only_keeps_alive(api: Api) -> None:
    async with serving(streaming(b": ping\n\n" * 5, size=8, hang=True)) as llm:
        limits = RunLimits(run=timedelta(milliseconds=50), idle=timedelta(minutes=1))
        failure = await failure_of(api, a_request(endpoint=openai(llm.url), limits=limits))
    assert "(timeout_seconds)" in failure.reason


async def test_every_piece_resets_the_idle_timeout(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    touches: list[Deadline] = []
    monkeypatch.setattr(Deadline, "touch", lambda deadline: touches.append(deadline))  # noqa: PLW0108 a method is bound
    async with serving(streaming(b": ping\n\n" * 5 + sse(openai_events("ok")), size=8)) as llm:
        await api.run(to(llm.url, Wire.OPENAI), RecordedProgress())
    assert len(touches) > len(sse(openai_events("ok"))) // 8


async def test_a_short_wait_is_spent_in_the_run(api: Api) -> None:
    busy = answering(529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    slow = answering(429, {"error": {"message": "Slow down"}}, {"retry-after": "0"})
    async with serving(busy, slow, streaming(sse(anthropic_events("ok")))) as llm:
        assert (await api.run(to(llm.url, Wire.ANTHROPIC), RecordedProgress())).text == "ok"
    assert len(llm.received) == 3


async def test_a_connection_dropped_before_any_text_is_retried(api: Api) -> None:
    async with serving(dropping, streaming(sse(openai_events("ok")))) as llm:
        assert (await api.run(to(llm.url, Wire.OPENAI), RecordedProgress())).text == "ok"
    assert len(llm.received) == 2


async def test_concurrent_runs_share_the_provider(api: Api) -> None:
    async with serving(streaming(sse(openai_events("ok")), size=5)) as llm:
        results = await asyncio.gather(*(api.run(to(llm.url, Wire.OPENAI), RecordedProgress()) for _ in range(30)))
    assert {result.text for result in results} == {"ok"}
    assert api._client._transport._pool._requests == []  # type: ignore[attr-defined]


async def test_a_custom_endpoint_gets_no_proxy_and_no_key_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    api = Api(pauses=())
    environment = {"OPENAI_API_KEY": "sk-of-the-daemon", "HTTP_PROXY": "http://127.0.0.1:9"}
    async with serving(streaming(sse(openai_events("ok")))) as llm:
        await api.run(a_request(endpoint=Endpoint(f"{llm.url}/v1"), environment=environment), RecordedProgress())
    await api.aclose()
    assert "authorization" not in llm.last.headers
    assert "sk-of-the-daemon" not in json.dumps([dict(llm.last.headers), llm.last.body])
