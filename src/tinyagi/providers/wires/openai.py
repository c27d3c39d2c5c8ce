"""The Chat Completions format, as OpenAI and the many endpoints that imitate it speak it."""

from typing import Final

from tinyagi.domain.event_stream import ServerEvent
from tinyagi.domain.texts import clean
from tinyagi.providers.base import RunRequest
from tinyagi.providers.history import conversation
from tinyagi.providers.wires.fields import at, count_at, parse, text_at
from tinyagi.providers.wires.format import Answer, StreamError

_END: Final = "/chat/completions"


class OpenAIFormat:
    official: str = "https://api.openai.com/v1"
    key_name: str = "models.openai.api_key"
    key_variable: str = "OPENAI_API_KEY"

    def path(self, given: str) -> str:
        """A base address without any path gets /v1, where every endpoint of this kind is found."""
        base = given.rstrip("/") or "/v1"
        return base if base.endswith(_END) else base + _END

    def headers(self, key: str, *, official: bool) -> dict[str, str]:  # noqa: ARG002 the same everywhere
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(self, request: RunRequest, model: str, *, official: bool) -> dict[str, object]:
        system = clean(request.system_prompt)
        messages = [{"role": "system", "content": system}] if system.strip() else []
        messages += [{"role": turn.role.value, "content": turn.content} for turn in conversation(request)]
        # The official endpoint refuses the old name of the limit, most imitations do not know the new one.
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

    def read(self, event: ServerEvent, answer: Answer) -> bool:
        if event.data.strip() == "[DONE]":
            answer.end("")
            return True
        chunk = parse(event.data)
        if at(chunk, "error") is not None:
            raise StreamError(at(chunk, "error"))
        if event.name == "error":
            raise StreamError(chunk)
        answer.model = text_at(chunk, "model") or answer.model
        choice = at(chunk, "choices", 0)
        answer.say(text_at(choice, "delta", "content"))
        answer.say(text_at(choice, "delta", "refusal"))
        _read_usage(at(chunk, "usage"), answer)
        # The usage comes after this, so the stream is read on.
        if stop := text_at(choice, "finish_reason"):
            answer.end(stop)
        return False


def _read_usage(usage: object, answer: Answer) -> None:
    prompt = count_at(usage, "prompt_tokens")
    if prompt is None:
        return
    # Cached tokens are part of the prompt's number; ours stand apart, so that none is counted twice.
    answer.cache_tokens = count_at(usage, "prompt_tokens_details", "cached_tokens")
    answer.input_tokens = max(0, prompt - (answer.cache_tokens or 0))
    answer.output_tokens = count_at(usage, "completion_tokens")
