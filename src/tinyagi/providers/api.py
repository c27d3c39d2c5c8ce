"""The provider `api`: one question to an HTTP endpoint, its answer streamed back. Knows no wire format."""

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
from tinyagi.domain.responses import Role
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.sessions import Turn
from tinyagi.domain.texts import clean
from tinyagi.providers.base import Progress, RunFailed, RunRequest, RunResult, Wire
from tinyagi.providers.deadline import Deadline
from tinyagi.providers.wires.anthropic import AnthropicFormat
from tinyagi.providers.wires.calls import call_of
from tinyagi.providers.wires.fields import NotJson, at, parse
from tinyagi.providers.wires.format import Answer, Call, Format, StreamError
from tinyagi.providers.wires.openai import OpenAIFormat
from tinyagi.providers.wires.refusals import (
    Refused,
    Target,
    failure_of,
    refusal_of_body,
    refusal_of_error,
    retry_after,
)

FORMATS: Final[Mapping[Wire, Format]] = MappingProxyType(
    {Wire.OPENAI: OpenAIFormat(), Wire.ANTHROPIC: AnthropicFormat()}
)

QUICK: Final = timedelta(seconds=5)
"""The longest Retry-After that is waited for within the run; a longer one is the lane's to wait for."""
_PAUSES: Final = (timedelta(milliseconds=500), timedelta(seconds=2))
_CONNECT: Final = timedelta(seconds=20)
_MAX_ERROR_BODY: Final = 65_536
_TELL_EVERY: Final = 0.25
_WITHHELD: Final = frozenset({"refusal", "content_filter", "error"})


class Api:
    """Asks endpoints through one pool of connections; `aclose` ends it.

    Before any text has arrived, an endpoint that is out of reach or busy is asked again after each of the pauses.
    Everything slower is left to the queue, which holds the lane.
    """

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

    async def run(self, request: RunRequest, progress: Progress) -> RunResult:
        form = FORMATS[request.endpoint.wire]
        call, target = call_of(request, form)
        async with Deadline(request.limits) as deadline:
            listener = _Listener(form, deadline, progress)
            answer = await self._ask(call, target, listener, request.limits.max_answer)
        text = _text_of(answer, target)
        turns = (Turn(Role.USER, clean(request.prompt)), Turn(Role.ASSISTANT, text))
        return RunResult(text, answer.usage, turns=turns)

    async def _ask(self, call: Call, target: Target, listener: "_Listener", longest: int) -> Answer:
        pauses = iter(self._pauses)
        while True:
            answer = Answer(longest, target.model)
            try:
                await self._stream(call, target, listener, answer)
            except Refused as error:
                if error.refusal.is_about_the_request and (plainer := call.without_fields_named_in(error.refusal.body)):
                    call = plainer
                    continue
                failure = failure_of(error.refusal, target)
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

    async def _stream(self, call: Call, target: Target, listener: "_Listener", answer: Answer) -> None:
        payload = msgspec.json.encode(call.body)
        async with self._client.stream("POST", call.url, headers=call.headers, content=payload) as response:
            listener.deadline.touch()
            if response.status_code != httpx.codes.OK:
                wait = retry_after(response.headers.get("retry-after"), self._now_ms())
                raise Refused(refusal_of_body(response.status_code, await _head_of(response), wait))
            if "json" in response.headers.get("content-type", ""):
                _reject_plain_json(await _head_of(response), target)
            try:
                await listener.listen(response, answer)
            except StreamError as error:
                raise Refused(refusal_of_error(error.error)) from None
            except (NotJson, EventTooLong) as error:
                raise _bad_answer(f"{target.address} sent {error} where an event was due", answer) from None
        if not answer.finished:
            raise _bad_answer(f"{target.address} ended its answer before it was complete", answer)


class _Listener:
    """Reads the events of a stream into an answer, and passes on what is said while it is said."""

    def __init__(self, form: Format, deadline: Deadline, progress: Progress) -> None:
        self.deadline = deadline
        self._form = form
        self._progress = progress
        self._clock = asyncio.get_running_loop().time
        self._tell_at = 0.0

    async def listen(self, response: httpx.Response, answer: Answer) -> None:
        reader = EventReader()
        try:
            async for chunk in response.aiter_bytes():
                self.deadline.touch()
                if self._take(reader.feed(chunk), answer):
                    return
                if self._clock() >= self._tell_at:
                    self._tell(answer)
            self._take(reader.finish(), answer)
        finally:
            self._tell(answer)

    def _take(self, events: Iterable[ServerEvent], answer: Answer) -> bool:
        return any(self._form.read(event, answer) for event in events)

    def _tell(self, answer: Answer) -> None:
        """Pieces that come close together are told as one."""
        if news := answer.news():
            self._tell_at = self._clock() + _TELL_EVERY
            self._progress(news)


async def _head_of(response: httpx.Response) -> str:
    """Return the beginning of a body that is no stream."""
    head = bytearray()
    async for chunk in response.aiter_bytes():
        head += chunk
        if len(head) >= _MAX_ERROR_BODY:
            break
    return head[:_MAX_ERROR_BODY].decode("utf-8", "replace")


def _reject_plain_json(body: str, target: Target) -> None:
    """Some endpoints tell an error with status 200; anything else is no answer to a request for a stream."""
    try:
        error = at(parse(body), "error")
    except NotJson:
        error = None
    if error:
        raise Refused(refusal_of_error(error))
    raise RunFailed(Failure(FailureKind.MESSAGE, f"{target.address} answered without a stream, which it has to offer"))


def _lost(error: httpx.RequestError, target: Target, *, has_text: bool) -> Failure:
    told = target.masked(str(error)) or type(error).__name__
    if has_text:
        return Failure(FailureKind.MESSAGE, f"the connection to {target.address} broke in the answer ({told})")
    return Failure(FailureKind.UNAVAILABLE, f"{target.address} cannot be reached ({told})")


def _quick_wait(failure: Failure, pause: timedelta | None) -> timedelta | None:
    """How long to wait within the run; None leaves the failure to the queue."""
    if pause is None or failure.kind is not FailureKind.UNAVAILABLE or failure.needs_person:
        return None
    wait = max(pause, failure.retry_after or timedelta())
    return wait if wait <= QUICK else None


def _text_of(answer: Answer, target: Target) -> str:
    """Return the whole text; raise RunFailed when there is none. A text cut at its token limit is an answer."""
    text = answer.text
    if answer.stop in _WITHHELD:
        raise _bad_answer(f"{target.address} withheld the answer ({answer.stop})", answer)
    if not text:
        raise _bad_answer(f"{target.address} gave an empty answer ({answer.stop or 'no reason told'})", answer)
    return text


def _bad_answer(reason: str, answer: Answer) -> RunFailed:
    return RunFailed(Failure(FailureKind.MESSAGE, reason, usage=answer.spent))
