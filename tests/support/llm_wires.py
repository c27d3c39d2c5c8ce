"""The three formats in which programs ask a language model, seen from the model: a request in, a stream out."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """The content of a request: the last prompt, and a later tool output."""

    model: str
    system: str
    prompt: str
    tool_output: str | None
    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Say:
    text: str


@dataclass(frozen=True, slots=True)
class Shell:
    """Call the tool that runs a command, under the name used by the program."""

    command: str


class WireFormat(Protocol):
    def read(self, body: Json) -> Asked: ...

    def stream(self, asked: Asked, answer: Say | Shell) -> Iterator[str]: ...

    def refusal(self, status: int, text: str) -> Json: ...


def texts(content: object) -> list[str]:
    """The texts of a message's content, which is a string or a list of parts."""
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]


def pieces(text: str, size: int = 16) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def event(data: Json | str, name: str = "") -> str:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n"


class Messages:
    """Anthropic's POST /v1/messages."""

    def read(self, body: Json) -> Asked:
        last = [message for message in body["messages"] if message["role"] == "user"][-1]["content"]
        parts = last if isinstance(last, list) else []
        outputs = [part.get("content") for part in parts if part.get("type") == "tool_result"]
        return Asked(
            model=body["model"],
            system="\n".join(texts(body.get("system"))),
            prompt="\n".join(texts(last)),
            tool_output="\n".join(text for output in outputs for text in texts(output)) if outputs else None,
            tools=tuple(tool["name"] for tool in body.get("tools", ())),
        )

    def stream(self, asked: Asked, answer: Say | Shell) -> Iterator[str]:
        usage = {
            "input_tokens": 12,
            "output_tokens": 7,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 3,
        }
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": asked.model, "content": []}
        yield self._event("message_start", message={**message, "stop_reason": None, "usage": usage})
        block, deltas, stop = self._block(answer)
        yield self._event("content_block_start", index=0, content_block=block)
        for delta in deltas:
            yield self._event("content_block_delta", index=0, delta=delta)
        yield self._event("content_block_stop", index=0)
        yield self._event("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage=usage)
        yield self._event("message_stop")

    def refusal(self, status: int, text: str) -> Json:
        names = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error"}
        names |= {429: "rate_limit_error", 529: "overloaded_error"}
        return {"type": "error", "error": {"type": names.get(status, "api_error"), "message": text}}

    def _block(self, answer: Say | Shell) -> tuple[Json, Sequence[Json], str]:
        if isinstance(answer, Say):
            said = [{"type": "text_delta", "text": piece} for piece in pieces(answer.text)]
            return {"type": "text", "text": ""}, said, "end_turn"
        arguments = json.dumps({"command": answer.command, "description": "asked for by the prompt"})
        call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}
        return call, [{"type": "input_json_delta", "partial_json": arguments}], "tool_use"

    def _event(self, name: str, **fields: object) -> str:
        return event({"type": name, **fields}, name)


class Responses:
    """OpenAI's POST /v1/responses."""

    def read(self, body: Json) -> Asked:
        prompt: list[str] = []
        system = [body.get("instructions") or ""]
        output: str | None = None
        for item in body["input"]:
            if item.get("role") in {"developer", "system"}:
                system += texts(item["content"])
            elif item.get("role") == "user":
                prompt, output = texts(item["content"]), None
            elif item.get("type") == "function_call_output":
                output = item["output"] if isinstance(item["output"], str) else json.dumps(item["output"])
        return Asked(
            model=body["model"],
            system="\n".join(system),
            prompt="\n".join(prompt),
            tool_output=output,
            tools=tuple(tool["name"] for tool in body.get("tools", ()) if "name" in tool),
        )

    def stream(self, asked: Asked, answer: Say | Shell) -> Iterator[str]:
        response = {"id": "resp_1", "object": "response", "created_at": 0, "model": asked.model, "output": []}
        item = self._item(asked, answer)
        yield self._event("response.created", response={**response, "status": "in_progress"})
        yield self._event("response.output_item.added", output_index=0, item={**item, "content": []})
        if isinstance(answer, Say):
            place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
            for piece in pieces(answer.text):
                yield self._event("response.output_text.delta", delta=piece, **place)
        yield self._event("response.output_item.done", output_index=0, item=item)
        usage = {
            "input_tokens": 12,
            "input_tokens_details": {"cached_tokens": 3},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 19,
        }
        done = {**response, "status": "completed", "output": [item], "usage": usage}
        yield self._event("response.completed", response=done)

    def refusal(self, status: int, text: str) -> Json:
        return {"error": {"message": text, "type": "invalid_request_error" if status < 429 else "server_error"}}

    def _item(self, asked: Asked, answer: Say | Shell) -> dict[str, Any]:
        if isinstance(answer, Say):
            content = [{"type": "output_text", "text": answer.text, "annotations": []}]
            return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
        name, arguments = self._shell(asked.tools, answer.command)
        call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed"}
        return {**call, "name": name, "arguments": json.dumps(arguments)}

    def _shell(self, tools: Iterable[str], command: str) -> tuple[str, Json]:
        if "exec_command" in tools:
            return "exec_command", {"cmd": command}
        return "bash", {"command": command, "description": "asked for by the prompt"}

    def _event(self, name: str, **fields: object) -> str:
        return event({"type": name, **fields}, name)


class ChatCompletions:
    """OpenAI's POST /v1/chat/completions."""

    def read(self, body: Json) -> Asked:
        messages = body["messages"]
        system = [text for message in messages if message["role"] == "system" for text in texts(message["content"])]
        prompts = [texts(message["content"]) for message in messages if message["role"] == "user"]
        last = messages[-1]
        return Asked(
            model=body["model"],
            system="\n".join(system),
            prompt="\n".join(prompts[-1]) if prompts else "",
            tool_output="\n".join(texts(last["content"])) if last["role"] == "tool" else None,
            tools=tuple(tool["function"]["name"] for tool in body.get("tools", ())),
        )

    def stream(self, asked: Asked, answer: Say | Shell) -> Iterator[str]:
        if isinstance(answer, Say):
            for piece in pieces(answer.text):
                yield self._chunk(asked, {"role": "assistant", "content": piece})
        else:
            arguments = json.dumps({"command": answer.command, "description": "asked for by the prompt"})
            call = {"index": 0, "id": "call_1", "type": "function"}
            function = {"name": "bash", "arguments": arguments}
            yield self._chunk(asked, {"role": "assistant", "tool_calls": [{**call, "function": function}]})
        yield self._chunk(asked, {}, "stop" if isinstance(answer, Say) else "tool_calls")
        usage = {"prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19}
        yield event({**self._head(asked), "choices": [], "usage": usage})
        yield event("[DONE]")

    def refusal(self, status: int, text: str) -> Json:
        return {"error": {"message": text, "type": "server_error" if status >= 500 else "invalid_request_error"}}

    def _chunk(self, asked: Asked, delta: Json, finish: str | None = None) -> str:
        return event({**self._head(asked), "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    def _head(self, asked: Asked) -> dict[str, Any]:
        return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": asked.model}
