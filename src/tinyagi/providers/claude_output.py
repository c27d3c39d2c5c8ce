"""What the claude program prints with `--output-format stream-json`, and what it amounts to."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from tinyagi.domain.messages import Usage
from tinyagi.domain.retry import LONGEST
from tinyagi.domain.texts import clean
from tinyagi.providers.base import Progress, RunFailed
from tinyagi.providers.hearing import Heard, amount_at, session_in, tool_line
from tinyagi.providers.refusals import Refusal
from tinyagi.providers.wires.fields import at, count_at, text_at

PROVIDER: Final = "anthropic"

_HOPELESS: Final = frozenset({401, 403})
_PATIENCE: Final = 2
"""Tries after which a refused key is believed; the program itself goes on for minutes."""
_DETAILS: Final = ("command", "file_path", "path", "pattern", "url", "query", "description", "prompt")


class ClaudeReader:
    """Takes the lines; raises what `give_up` makes of a refusal that the program would only repeat."""

    def __init__(self, progress: Progress, now: Callable[[], float], give_up: Callable[[Refusal], RunFailed]) -> None:
        self.heard = Heard()
        self._progress = progress
        self._now = now
        self._give_up = give_up
        self._model: str | None = None
        self._word = ""
        self._input = self._output = self._cache = 0
        self._cost = 0.0

    def take(self, line: object) -> None:
        match at(line, "type"):
            case "system":
                self._take_system(line)
            case "assistant":
                self._take_assistant(line)
            case "result":
                self._take_result(line)
            case "rate_limit_event" if at(line, "rate_limit_info", "status") == "rejected":
                self._take_limit(count_at(line, "rate_limit_info", "resetsAt"))

    def _take_system(self, line: object) -> None:
        if at(line, "subtype") == "init":
            self.heard.session_id = session_in(at(line, "session_id"))
            self._model = text_at(line, "model") or None
        elif at(line, "subtype") == "api_retry":
            error, attempt = text_at(line, "error"), count_at(line, "attempt") or 0
            status = count_at(line, "error_status")
            if status in _HOPELESS and attempt >= _PATIENCE:
                raise self._give_up(Refusal(f"the key was refused ({error}, status {status})", status))
            self._progress(clean(f"waiting: {error or 'the endpoint refuses'} (try {attempt})"))

    def _take_assistant(self, line: object) -> None:
        self._word = text_at(line, "error")
        content = at(line, "message", "content")
        for block in content if isinstance(content, list) else ():
            match at(block, "type"):
                case "text":
                    text = text_at(block, "text")
                    # What a helper of the agent says is progress, but never the answer.
                    if text and not self._word and at(line, "parent_tool_use_id") is None:
                        self.heard.last_said = text
                    self._progress(clean(text))
                case "tool_use":
                    details = (text_at(block, "input", name) for name in _DETAILS)
                    self._progress(tool_line(text_at(block, "name"), *details))

    def _take_result(self, line: object) -> None:
        heard = self.heard
        heard.is_complete = True
        heard.answer = text_at(line, "result")
        heard.session_id = session_in(at(line, "session_id")) or heard.session_id
        self._add_usage(line)
        heard.error, heard.status = "", count_at(line, "api_error_status")
        # `subtype` says success for errors too.
        if at(line, "is_error") is True:
            errors = at(line, "errors")
            told = [heard.answer, *(errors if isinstance(errors, list) else ()), self._word and f"[{self._word}]"]
            heard.error = " ".join(part for part in told if isinstance(part, str) and part) or "an error without words"

    def _take_limit(self, resets_at: int | None) -> None:
        if resets_at is not None:
            left = timedelta(seconds=min(resets_at - self._now(), LONGEST.total_seconds()))
            self.heard.retry_after = left if left > timedelta() else None

    def _add_usage(self, line: object) -> None:
        """Add what was used since the last result, by the agent's helpers too; a run may have several results.

        The plain totals are of no use: those of a resumed session hold its earlier runs.
        """
        models = at(line, "model_usage_since_last_result")
        if isinstance(models, dict):
            for model in models.values():
                self._count(model, "inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
                self._cost += amount_at(model, "costUSD")
        else:
            names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
            self._count(at(line, "usage"), *names)
            self._cost += amount_at(line, "total_cost_usd")
        self.heard.usage = Usage(self._input, self._output, self._cache, self._cost, PROVIDER, self._model)

    def _count(self, told: object, *names: str) -> None:
        counts = [count_at(told, name) or 0 for name in names]
        self._input += counts[0]
        self._output += counts[1]
        self._cache += counts[2] + counts[3]
