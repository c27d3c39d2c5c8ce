"""The provider `api`: one call to an HTTP endpoint with a streamed answer. Wire formats are in `api_formats`."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import Final

import httpx
import msgspec

from tinyagi.domain.event_stream import EventReader, EventTooLong, ServerEvent
from tinyagi.domain.models import DEFAULT_MODELS
from tinyagi.domain.responses import Role
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.runs import Turn, Wire
from tinyagi.domain.texts import clean
from tinyagi.providers.api_formats import AnthropicFormat, Call, OpenAIFormat, StreamedAnswer, StreamError, WireFormat
from tinyagi.providers.base import Deadline, OnProgress, RunFailed, RunRequest, RunResult
from tinyagi.providers.failures import (
    EndpointInfo,
    EndpointRefused,
    endpoint_failure,
    refusal_of_body,
    refusal_of_error,
    retry_after,
)
from tinyagi.providers.json_fields import NotJson, json_at, parse_json

FORMATS: Final[Mapping[Wire, WireFormat]] = MappingProxyType(
    {Wire.OPENAI: OpenAIFormat(), Wire.ANTHROPIC: AnthropicFormat()}
)

LONGEST_WAIT_IN_RUN: Final = timedelta(seconds=5)
"""The longest Retry-After that the run itself waits; for a longer one the lane waits."""
_PAUSES: Final = (timedelta(milliseconds=500), timedelta(seconds=2))
_CONNECT: Final = timedelta(seconds=20)
_MAX_ERROR_BODY: Final = 65_536
_REPORT_EVERY: Final = 0.25
_WITHHELD: Final = frozenset({"refusal", "content_filter", "error"})

_SHORTEST_SECRET: Final = 4
"""A shorter key is a placeholder such as `x`; masking it would only garble the reason."""

_HIGHEST_PORT: Final = 65_535


class Api:
    """Calls endpoints through one pool of connections; `aclose` closes it.

    Until text has arrived, a call to an unreachable or busy endpoint is repeated after each of the pauses. Longer waits
    are left to the queue, which holds the lane.
    """

    keeps_sessions: Final = False

    def __init__(
        self,
        *,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        pauses: tuple[timedelta, ...] = _PAUSES,
    ) -> None:
        self._now_ms = now_ms
        self._pauses = pauses
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(None, connect=_CONNECT.total_seconds()),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            trust_env=False,
        )

    async def aclose(self) -> None:
        await self._client.aclose()

    async def run(self, request: RunRequest, progress: OnProgress) -> RunResult:
        answer, target = await self._answer(request, progress)
        text = _text_of(answer, target)
        turns = (Turn(Role.USER, clean(request.prompt)), Turn(Role.ASSISTANT, text))
        return RunResult(text, answer.usage, turns=turns)

    async def probe(self, request: RunRequest) -> None:
        """Call the endpoint as a run does and accept any complete answer, even an empty one; raise RunFailed."""
        await self._answer(request, lambda _: None)

    async def _answer(self, request: RunRequest, progress: OnProgress) -> tuple[StreamedAnswer, EndpointInfo]:
        form = FORMATS[request.endpoint.wire]
        call, target = call_of(request, form)
        async with Deadline(request.limits) as deadline:
            reader = _StreamReader(form, deadline, progress)
            return await self._ask(call, target, reader, request.limits.max_answer), target

    async def _ask(self, call: Call, target: EndpointInfo, reader: "_StreamReader", longest: int) -> StreamedAnswer:
        pauses = iter(self._pauses)
        while True:
            answer = StreamedAnswer(longest, target.model)
            try:
                await self._stream(call, target, reader, answer)
            except EndpointRefused as error:
                if error.refusal.is_about_the_request and (plainer := call.without_fields_named_in(error.refusal.body)):
                    call = plainer
                    continue
                failure = endpoint_failure(error.refusal, target)
            except httpx.RequestError as error:
                if answer.finished:
                    return answer
                failure = _lost(error, target, has_text=answer.has_text)
            else:
                return answer
            wait = None if answer.has_text else _quick_wait(failure, next(pauses, None))
            if wait is None:
                raise RunFailed(replace(failure, usage=answer.spent))
            await asyncio.sleep(wait.total_seconds())

    async def _stream(self, call: Call, target: EndpointInfo, reader: "_StreamReader", answer: StreamedAnswer) -> None:
        payload = msgspec.json.encode(call.body)
        async with self._client.stream("POST", call.url, headers=call.headers, content=payload) as response:
            reader.deadline.touch()
            if response.status_code != httpx.codes.OK:
                wait = retry_after(response.headers.get("retry-after"), self._now_ms())
                raise EndpointRefused(refusal_of_body(response.status_code, await _head_of(response), wait))
            if "json" in response.headers.get("content-type", ""):
                _reject_plain_json(await _head_of(response), target)
            try:
                await reader.read(response, answer)
            except StreamError as error:
                raise EndpointRefused(refusal_of_error(error.error)) from None
            except (NotJson, EventTooLong) as error:
                raise _bad_answer(f"{target.address} sent {error} instead of an event", answer) from None
        if not answer.finished:
            raise _bad_answer(f"{target.address} ended its answer before it was complete", answer)


class _StreamReader:
    """Reads the events of a stream into an answer and reports new text as it arrives."""

    def __init__(self, form: WireFormat, deadline: Deadline, progress: OnProgress) -> None:
        self.deadline = deadline
        self._form = form
        self._progress = progress
        self._clock = asyncio.get_running_loop().time
        self._report_at = 0.0

    async def read(self, response: httpx.Response, answer: StreamedAnswer) -> None:
        events = EventReader()
        try:
            async for chunk in response.aiter_bytes():
                self.deadline.touch()
                if self._read(events.feed(chunk), answer):
                    return
                if self._clock() >= self._report_at:
                    self._report(answer)
            self._read(events.finish(), answer)
        finally:
            self._report(answer)

    def _read(self, events: Iterable[ServerEvent], answer: StreamedAnswer) -> bool:
        return any(self._form.read(event, answer) for event in events)

    def _report(self, answer: StreamedAnswer) -> None:
        """Report the new text; pieces that arrive close together become one report."""
        if new_text := answer.new_text():
            self._report_at = self._clock() + _REPORT_EVERY
            self._progress(new_text)


async def _head_of(response: httpx.Response) -> str:
    """Return the start of a body that is not a stream."""
    head = bytearray()
    async for chunk in response.aiter_bytes():
        head += chunk
        if len(head) >= _MAX_ERROR_BODY:
            break
    return head[:_MAX_ERROR_BODY].decode("utf-8", "replace")


def _reject_plain_json(body: str, target: EndpointInfo) -> None:
    """Raise for JSON in place of a stream: some endpoints send an error with status 200."""
    try:
        error = json_at(parse_json(body), "error")
    except NotJson:
        error = None
    if error:
        raise EndpointRefused(refusal_of_error(error))
    raise RunFailed(
        Failure(FailureKind.MESSAGE, f"{target.address} answered without a stream, but streaming is required")
    )


def _lost(error: httpx.RequestError, target: EndpointInfo, *, has_text: bool) -> Failure:
    detail = target.masked(str(error)) or type(error).__name__
    if has_text:
        return Failure(FailureKind.MESSAGE, f"the connection to {target.address} broke during the answer ({detail})")
    return Failure(FailureKind.UNAVAILABLE, f"{target.address} cannot be reached ({detail})")


def _quick_wait(failure: Failure, pause: timedelta | None) -> timedelta | None:
    """How long to wait within the run; None leaves the failure to the queue."""
    if pause is None or failure.kind is not FailureKind.UNAVAILABLE or failure.needs_person:
        return None
    wait = max(pause, failure.retry_after or timedelta())
    return wait if wait <= LONGEST_WAIT_IN_RUN else None


def _text_of(answer: StreamedAnswer, target: EndpointInfo) -> str:
    """Return the whole text; raise RunFailed when there is none. A text cut at the token limit is an answer."""
    text = answer.text
    if answer.stop in _WITHHELD:
        raise _bad_answer(f"{target.address} withheld the answer ({answer.stop})", answer)
    if not text:
        raise _bad_answer(f"{target.address} gave an empty answer ({answer.stop or 'no reason given'})", answer)
    return text


def _bad_answer(reason: str, answer: StreamedAnswer) -> RunFailed:
    return RunFailed(Failure(FailureKind.MESSAGE, reason, usage=answer.spent))


def call_of(request: RunRequest, form: WireFormat) -> tuple[Call, EndpointInfo]:
    """Return the call and how reasons name its endpoint; raise RunFailed when a setting is missing or wrong."""
    base = _base(request.endpoint.base_url or form.official)
    official = base.host == httpx.URL(form.official).host
    variable = request.environment.get(form.key_variable, "") if official else ""
    key = (request.endpoint.api_key or variable).strip()
    key_name = form.key_name if official else "the api_key of this custom provider"
    model = request.model or (DEFAULT_MODELS[request.endpoint.wire] if official else "")
    target = EndpointInfo(
        _display(base), f"{key_name} in settings.json", model, (key,) if len(key) >= _SHORTEST_SECRET else ()
    )
    if official and not key:
        raise _setting_failure(f"there is no key for {target.address}. Set {target.key_name}, or {form.key_variable}")
    if not (key.isascii() and key.isprintable()):
        raise _setting_failure(
            f"the key for {target.address} contains characters that cannot be sent. Check {target.key_name}"
        )
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream",
        # Compressed answers arrive in large pieces, and their decompressed size has no bound.
        "accept-encoding": "identity",
        "user-agent": "tinyagi",
        **form.headers(key, official=official),
    }
    url = base.copy_with(path=form.path(base.path))
    return Call(url, headers, form.body(request, model, official=official), form.optional()), target


def _base(address: str) -> httpx.URL:
    try:
        url = httpx.URL(address.strip())
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in {"http", "https"} or not url.host or (url.port or 0) > _HIGHEST_PORT:
        raise _setting_failure("base_url is not an http or https address. Correct it in settings.json")
    # Such an address would appear in logs, and its name and password would replace the key.
    if url.userinfo:
        raise _setting_failure("base_url contains a name or a password. Remove them, and put the key into api_key")
    return url


def _display(base: httpx.URL) -> str:
    return str(base.copy_with(query=None, fragment=None)).rstrip("/")


def _setting_failure(reason: str) -> RunFailed:
    return RunFailed(Failure(FailureKind.UNAVAILABLE, reason, needs_person=True))
