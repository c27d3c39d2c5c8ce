"""The Messages format, as Anthropic speaks it."""

from typing import Final

from tinyagi.domain.event_stream import ServerEvent
from tinyagi.domain.texts import clean
from tinyagi.providers.base import RunRequest
from tinyagi.providers.history import conversation
from tinyagi.providers.wires.fields import at, count_at, parse, text_at
from tinyagi.providers.wires.format import Answer, StreamError

VERSION: Final = "2023-06-01"


class AnthropicFormat:
    official: str = "https://api.anthropic.com"
    key_name: str = "models.anthropic.api_key"
    key_variable: str = "ANTHROPIC_API_KEY"

    def path(self, given: str) -> str:
        """A base address is taken with its /v1 and without."""
        base = given.rstrip("/")
        if base.endswith("/messages"):
            return base
        return f"{base}/messages" if base.endswith("/v1") else f"{base}/v1/messages"

    def headers(self, key: str, *, official: bool) -> dict[str, str]:
        headers = {"anthropic-version": VERSION}
        if key:
            headers["x-api-key"] = key
            # Gateways that imitate this format often look for the key where OpenAI has it.
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

    def read(self, event: ServerEvent, answer: Answer) -> bool:
        fact = parse(event.data)
        match text_at(fact, "type") or event.name:
            case "message_start":
                answer.model = text_at(fact, "message", "model") or answer.model
                _read_usage(at(fact, "message", "usage"), answer)
            case "content_block_start":
                answer.say(text_at(fact, "content_block", "text"))
            case "content_block_delta":
                answer.say(text_at(fact, "delta", "text"))
            case "message_delta":
                _read_usage(at(fact, "usage"), answer)
                if stop := text_at(fact, "delta", "stop_reason"):
                    answer.end(stop)
            case "message_stop":
                answer.end("")
                return True
            case "error":
                raise StreamError(at(fact, "error") or fact)
            case _:
                pass  # pings, and kinds that are yet to come
        return False


def _read_usage(usage: object, answer: Answer) -> None:
    # Numbers are totals so far; a later event repeats some of them and leaves others out.
    told = count_at(usage, "input_tokens")
    answer.input_tokens = answer.input_tokens if told is None else told
    told = count_at(usage, "output_tokens")
    answer.output_tokens = answer.output_tokens if told is None else told
    cached = [count_at(usage, name) for name in ("cache_creation_input_tokens", "cache_read_input_tokens")]
    if any(count is not None for count in cached):
        answer.cache_tokens = sum(count or 0 for count in cached)
