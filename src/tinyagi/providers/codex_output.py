"""What the codex program prints with `--json`, and what it amounts to."""

from dataclasses import dataclass
from typing import Final, Self

from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.texts import clean, one_line
from tinyagi.providers.base import Progress, RunFailed
from tinyagi.providers.hearing import Heard, session_in, tool_line
from tinyagi.providers.wires.fields import NotJson, at, count_at, parse, text_at

_OFFLINE: Final = "waiting for network"
_PATIENCE: Final = 5
"""Times it may say that there is no network, over a minute and a half; the program itself waits for ever."""


@dataclass(frozen=True, slots=True)
class Tokens:
    input: int
    """The cached ones included."""
    cached: int
    output: int

    def less(self, before: "Tokens | None") -> "Self | Tokens | None":
        if before is None:
            return None
        rest = Tokens(self.input - before.input, self.cached - before.cached, self.output - before.output)
        # A sum that shrank is none: the program tells the run's own numbers then.
        return rest if min(rest.input, rest.cached, rest.output) >= 0 else self


class CodexReader:
    def __init__(self, progress: Progress) -> None:
        self.heard = Heard()
        self.used: Tokens | None = None
        self._progress = progress
        self._offline = 0

    def take(self, line: object) -> None:
        match at(line, "type"):
            case "thread.started":
                self.heard.session_id = session_in(at(line, "thread_id"))
            case "item.started":
                self._take_tool(at(line, "item"))
            case "item.completed":
                self._take_item(at(line, "item"))
            case "turn.completed":
                self.heard.is_complete, self.heard.error = True, ""
                self._take_usage(at(line, "usage"))
            case "turn.failed":
                self.heard.error = _words(text_at(line, "error", "message"))
            case "error":
                self._take_error(text_at(line, "message"))

    def _take_item(self, item: object) -> None:
        # An item of type error is a warning: the turn goes on.
        if at(item, "type") == "agent_message":
            text = text_at(item, "text")
            self.heard.answer = text
            self.heard.last_said = text or self.heard.last_said
            self._progress(clean(text))
        elif at(item, "type") == "file_change":
            self._progress(tool_line("file_change", text_at(item, "changes", 0, "path")))

    def _take_tool(self, item: object) -> None:
        match at(item, "type"):
            case "command_execution":
                self._progress(tool_line("command", text_at(item, "command")))
            case "mcp_tool_call":
                self._progress(tool_line(text_at(item, "server") or "mcp", text_at(item, "tool")))
            case "web_search":
                self._progress(tool_line("web_search", text_at(item, "query")))

    def _take_usage(self, usage: object) -> None:
        counts = [count_at(usage, f"{kind}_tokens") for kind in ("input", "cached_input", "output")]
        if counts[0] is not None and counts[2] is not None:
            self.used = Tokens(counts[0], min(counts[1] or 0, counts[0]), counts[2])

    def _take_error(self, text: str) -> None:
        self._offline += _OFFLINE in text
        if self._offline >= _PATIENCE:
            raise RunFailed(Failure(FailureKind.UNAVAILABLE, f"codex cannot reach its endpoint: {one_line(text)}"))
        if text.startswith("Reconnecting"):
            self._progress(clean(text))
        else:
            self.heard.error = _words(text)


def _words(text: str) -> str:
    """The message within an error that is told as JSON, or the text as it is."""
    try:
        return text_at(parse(text), "error", "message") or text
    except NotJson:
        return text or "an error without words"
