"""The two wire formats of HTTP endpoints: request body, streamed answer, earlier turns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import httpx

from tinyagi.domain.errors import TinyAGIError
from tinyagi.domain.event_stream import ServerEvent
from tinyagi.domain.limits import Usage
from tinyagi.domain.responses import Role
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.runs import Turn
from tinyagi.domain.texts import clean, one_line
from tinyagi.providers.base import RunFailed, RunRequest
from tinyagi.providers.json_fields import count_at, json_at, parse_json, text_at

_PROVIDER: Final = "api"

_CHAT_PATH: Final = "/chat/completions"

_ANTHROPIC_VERSION: Final = "2023-06-01"


@dataclass(frozen=True, slots=True)
class Call:
    """One request to an endpoint."""

    url: httpx.URL
    headers: Mapping[str, str] = field(repr=False)
    body: Mapping[str, object]
    optional: frozenset[str]
    """Fields of the body that an endpoint may not know; the call works without them."""

    def without_fields_named_in(self, text: str) -> "Call | None":
        """Return the call without its optional fields when the text names one of them, else None."""
        if not any(name in text for name in self.optional):
            return None
        return replace(
            self,
            body={name: value for name, value in self.body.items() if name not in self.optional},
            optional=frozenset(),
        )


class StreamError(TinyAGIError):
    """The endpoint sent an error inside its stream; `error` is its JSON."""

    def __init__(self, error: object) -> None:
        super().__init__("the stream holds an error")
        self.error = error


@dataclass(slots=True)
class StreamedAnswer:
    """The part of an answer that has arrived so far."""

    longest: int
    model: str
    """The requested model, until the endpoint names the one that answers."""
    stop: str = ""
    """The endpoint's reason for the end of the text; empty while the text continues."""
    finished: bool = False
    """The text is complete, even if the connection breaks now."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_tokens: int | None = None
    _pieces: list[str] = field(default_factory=list)
    _length: int = 0
    _reported: int = 0

    def add(self, text: str) -> None:
        """Add text; raise RunFailed when the answer gets too long."""
        if not text:
            return
        self._pieces.append(text)
        self._length += len(text)
        if self._length > self.longest:
            reason = f"the answer is longer than {self.longest:,} characters and was cut off"
            raise RunFailed(Failure(FailureKind.MESSAGE, reason, usage=self.spent))

    def finish(self, stop: str) -> None:
        self.stop = self.stop or one_line(stop, 60)
        self.finished = True

    def new_text(self) -> str:
        """Return the text that has arrived since the last call."""
        pieces = self._pieces[self._reported :]
        self._reported = len(self._pieces)
        return clean("".join(pieces))

    @property
    def has_text(self) -> bool:
        return self._length > 0

    @property
    def text(self) -> str:
        return clean("".join(self._pieces)).strip()

    @property
    def usage(self) -> Usage:
        return Usage(
            self.input_tokens,
            self.output_tokens,
            self.cache_tokens,
            provider=_PROVIDER,
            model=one_line(self.model, 200) or None,
        )

    @property
    def spent(self) -> Usage | None:
        """The usage of a failed run; None when the endpoint reported none."""
        return None if self.input_tokens is self.output_tokens is None else self.usage


class WireFormat(Protocol):
    """Builds the requests and reads the answers of one kind of endpoint."""

    official: str
    """The base address when the settings have none."""
    key_name: str
    """The setting that holds the official endpoint's key."""
    key_variable: str
    """The environment variable that is used when the setting is empty."""

    def path(self, base_path: str) -> str:
        """Return the path to post to, for a base address with this path."""

    def headers(self, key: str, *, official: bool) -> dict[str, str]: ...

    def body(self, request: RunRequest, model: str, *, official: bool) -> dict[str, object]: ...

    def optional(self) -> frozenset[str]: ...

    def read(self, event: ServerEvent, answer: StreamedAnswer) -> bool:
        """Add the event's content to the answer; True for the last event. Raise StreamError for an error event."""


class OpenAIFormat:
    official: str = "https://api.openai.com/v1"
    key_name: str = "models.openai.api_key"
    key_variable: str = "OPENAI_API_KEY"

    def path(self, base_path: str) -> str:
        """A base address without a path gets /v1, the path of all endpoints of this kind."""
        base = base_path.rstrip("/") or "/v1"
        return base if base.endswith(_CHAT_PATH) else base + _CHAT_PATH

    def headers(self, key: str, *, official: bool) -> dict[str, str]:  # noqa: ARG002 the same for all endpoints
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(self, request: RunRequest, model: str, *, official: bool) -> dict[str, object]:
        system = clean(request.system_prompt)
        messages = [{"role": "system", "content": system}] if system.strip() else []
        messages += [{"role": turn.role.value, "content": turn.content} for turn in conversation(request)]
        # The official endpoint refuses the old name of the limit; most compatible ones do not know the new name.
        longest = "max_completion_tokens" if official else "max_tokens"
        body: dict[str, object] = {
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            longest: request.limits.answer_tokens,
        }
        return {"model": model, **body} if model else body

    def optional(self) -> frozenset[str]:
        return frozenset({"stream_options", "max_tokens", "max_completion_tokens"})

    def read(self, event: ServerEvent, answer: StreamedAnswer) -> bool:
        if event.data.strip() == "[DONE]":
            answer.finish("")
            return True
        chunk = parse_json(event.data)
        if json_at(chunk, "error") is not None:
            raise StreamError(json_at(chunk, "error"))
        if event.name == "error":
            raise StreamError(chunk)
        answer.model = text_at(chunk, "model") or answer.model
        choice = json_at(chunk, "choices", 0)
        answer.add(text_at(choice, "delta", "content"))
        answer.add(text_at(choice, "delta", "refusal"))
        _read_openai_usage(json_at(chunk, "usage"), answer)
        # Keep reading: the usage comes after this.
        if stop := text_at(choice, "finish_reason"):
            answer.finish(stop)
        return False


def _read_openai_usage(usage: object, answer: StreamedAnswer) -> None:
    prompt = count_at(usage, "prompt_tokens")
    if prompt is None:
        return
    # The prompt's count includes cached tokens; subtract them so that none is counted twice.
    answer.cache_tokens = count_at(usage, "prompt_tokens_details", "cached_tokens")
    answer.input_tokens = max(0, prompt - (answer.cache_tokens or 0))
    answer.output_tokens = count_at(usage, "completion_tokens")


class AnthropicFormat:
    official: str = "https://api.anthropic.com"
    key_name: str = "models.anthropic.api_key"
    key_variable: str = "ANTHROPIC_API_KEY"

    def path(self, base_path: str) -> str:
        """A base address may end with /v1 or not."""
        base = base_path.rstrip("/")
        if base.endswith("/messages"):
            return base
        return f"{base}/messages" if base.endswith("/v1") else f"{base}/v1/messages"

    def headers(self, key: str, *, official: bool) -> dict[str, str]:
        headers = {"anthropic-version": _ANTHROPIC_VERSION}
        if key:
            headers["x-api-key"] = key
            # Compatible gateways often expect the key in OpenAI's header.
            if not official:
                headers["authorization"] = f"Bearer {key}"
        return headers

    def body(self, request: RunRequest, model: str, *, official: bool) -> dict[str, object]:  # noqa: ARG002
        body: dict[str, object] = {
            "messages": [{"role": turn.role.value, "content": turn.content} for turn in conversation(request)],
            "max_tokens": request.limits.answer_tokens,
            "stream": True,
        }
        if model:
            body["model"] = model
        system = clean(request.system_prompt)
        if system.strip():
            body["system"] = system
        return body

    def optional(self) -> frozenset[str]:
        return frozenset()

    def read(self, event: ServerEvent, answer: StreamedAnswer) -> bool:
        content = parse_json(event.data)
        match text_at(content, "type") or event.name:
            case "message_start":
                answer.model = text_at(content, "message", "model") or answer.model
                _read_anthropic_usage(json_at(content, "message", "usage"), answer)
            case "content_block_start":
                answer.add(text_at(content, "content_block", "text"))
            case "content_block_delta":
                answer.add(text_at(content, "delta", "text"))
            case "message_delta":
                _read_anthropic_usage(json_at(content, "usage"), answer)
                if stop := text_at(content, "delta", "stop_reason"):
                    answer.finish(stop)
            case "message_stop":
                answer.finish("")
                return True
            case "error":
                raise StreamError(json_at(content, "error") or content)
            case _:
                pass  # pings, and future event types
        return False


def _read_anthropic_usage(usage: object, answer: StreamedAnswer) -> None:
    # Counts are running totals; a later event repeats some of them and omits others.
    count = count_at(usage, "input_tokens")
    answer.input_tokens = answer.input_tokens if count is None else count
    count = count_at(usage, "output_tokens")
    answer.output_tokens = answer.output_tokens if count is None else count
    cached = [count_at(usage, name) for name in ("cache_creation_input_tokens", "cache_read_input_tokens")]
    if any(count is not None for count in cached):
        answer.cache_tokens = sum(count or 0 for count in cached)


def conversation(request: RunRequest) -> tuple[Turn, ...]:
    """Return the turns to send, oldest first; the last turn is the user's."""
    # Endpoints refuse empty turns. Drop them before the cut, which checks the role of the first remaining turn.
    earlier = newest_within([turn for turn in request.turns if turn.content.strip()], request.limits.history_tokens)
    turns = alternating((*earlier, Turn(Role.USER, request.prompt)))
    return tuple(Turn(turn.role, clean(turn.content)) for turn in turns)


def newest_within(turns: Sequence[Turn], tokens: int) -> tuple[Turn, ...]:
    """Return the newest whole turns that fit into the budget, oldest first; the first one is never the agent's."""
    start = len(turns)
    while start > 0 and (tokens := tokens - estimated_tokens(turns[start - 1].content)) >= 0:
        start -= 1
    while start < len(turns) and turns[start].role is Role.ASSISTANT:
        start += 1
    return tuple(turns[start:])


def estimated_tokens(text: str) -> int:
    """Counts four characters as a token: accurate enough for a budget, and the same for every model."""
    return len(text) // 4 + 1


def alternating(turns: Iterable[Turn]) -> tuple[Turn, ...]:
    """Return the turns with neighbours of one role joined, as strict endpoints require."""
    joined: list[Turn] = []
    for turn in turns:
        if joined and joined[-1].role is turn.role:
            joined[-1] = Turn(turn.role, f"{joined[-1].content}\n\n{turn.content}")
        else:
            joined.append(turn)
    return tuple(joined)
