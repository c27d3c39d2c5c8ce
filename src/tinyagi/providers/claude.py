"""The provider `anthropic`: runs the claude program, also with other endpoints that speak its protocol."""

import re
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import timedelta
from typing import Final

from tinyagi.domain.limits import Usage
from tinyagi.domain.retry import LONGEST
from tinyagi.domain.runs import Endpoint, Permissions
from tinyagi.domain.texts import clean
from tinyagi.providers.base import OnProgress, RunFailed, RunRequest, RunResult
from tinyagi.providers.cli_program import (
    EnvAllowlist,
    ParsedOutput,
    child_environment,
    instructions_file,
    json_lines,
    result_of,
    tool_line,
    valid_session_id,
)
from tinyagi.providers.failures import ProgramRefusal, program_failure
from tinyagi.providers.json_fields import amount_at, count_at, json_at, text_at
from tinyagi.providers.process import Exit, Program, run_child

_ALLOWED_ENV: Final = EnvAllowlist(
    prefixes=("ANTHROPIC_", "CLAUDE_"),
    names=frozenset({"IS_SANDBOX", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY"}),
    excluded=frozenset(
        {
            *("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_SESSION_ID", "CLAUDE_PID"),
            *("CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_SESSION_ATTENDED", "CLAUDE_CODE_EXECPATH", "CLAUDE_EFFORT"),
            *("CLAUDE_CODE_MESSAGING_SOCKET", "CLAUDE_CODE_MESSAGING_TOKEN"),
        }
    ),
)
_KEYS: Final = frozenset({"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"})
_PERMISSIONS: Final[Mapping[Permissions, tuple[str, ...]]] = {
    Permissions.BYPASS: ("--dangerously-skip-permissions",),
    Permissions.DEFAULT: (),
    Permissions.PLAN: ("--permission-mode", "plan"),
}
# Without this a resumed session keeps the instructions of its first run and ignores new ones.
_FRESH_INSTRUCTIONS: Final = ("--system-prompt-snapshot", "off")
_TOO_OLD: Final = re.compile(r"unknown option '?--system-prompt-snapshot")
_TAKES_NO_FILE: Final = re.compile(r"unknown option '?--system-prompt-file")
_UNKNOWN_SESSION: Final = re.compile(r"No conversation found with session ID|--resume requires a valid session ID")

_PROVIDER: Final = "anthropic"

_KEY_REFUSED: Final = frozenset({401, 403})
_MAX_TRIES: Final = 2
"""With a refused key; the program itself keeps trying for minutes."""
_DETAILS: Final = ("command", "file_path", "path", "pattern", "url", "query", "description", "prompt")


class Claude:
    keeps_sessions: Final = True

    def __init__(self, executable: str = "claude", *, now: Callable[[], float] = time.time) -> None:
        self._program = Program(
            "claude",
            executable,
            install="npm install -g @anthropic-ai/claude-code",
            log_in="run `claude` in a terminal and log in, or set models.anthropic.api_key",
        )
        self._now = now

    async def run(self, request: RunRequest, progress: OnProgress) -> RunResult:
        session = valid_session_id(request.session_id)
        resume: tuple[str, ...] = ("--resume", session, *_FRESH_INSTRUCTIONS) if session else ()
        by_file = True
        while True:
            reader = _ClaudeOutput(progress, self._now, lambda refusal: self._give_up(refusal, request))
            end = await self._run_program(request, resume, reader, by_file=by_file)
            errors = f"{end.stderr_tail} {reader.output.error}"
            if end.code and resume and _TOO_OLD.search(errors):
                resume = resume[:2]
            elif end.code and resume and _UNKNOWN_SESSION.search(errors):
                resume = ()
            elif end.code and by_file and _TAKES_NO_FILE.search(errors):
                by_file = False
            else:
                return result_of(reader.output, end, self._program, request, resumed=session if resume else None)

    async def _run_program(
        self, request: RunRequest, resume: tuple[str, ...], reader: "_ClaudeOutput", *, by_file: bool
    ) -> Exit:
        arguments = [*_PERMISSIONS[request.permissions], *(("--model", request.model) if request.model else ())]
        instructions = clean(request.system_prompt)
        with ExitStack() as files:
            if instructions and by_file:
                # Every user of the machine can read a command line.
                path = files.enter_context(instructions_file(instructions, ".md"))
                arguments += ("--system-prompt-file", str(path))
            elif instructions:
                arguments += ("--system-prompt", instructions)
            arguments += (*resume, "--output-format", "stream-json", "--verbose", "-p")
            return await run_child(
                self._program,
                arguments,
                stdin=clean(request.prompt).encode(),
                cwd=request.workspace,
                environment=_environment(request),
                limits=request.limits,
                on_line=json_lines(reader.read),
            )

    def _give_up(self, refusal: ProgramRefusal, request: RunRequest) -> RunFailed:
        return RunFailed(
            program_failure(refusal, self._program, (request.endpoint.api_key, request.endpoint.oauth_token))
        )


def _environment(request: RunRequest) -> dict[str, str]:
    credentials, without = _credentials(request.endpoint)
    # A run must not update the program that executes it.
    return child_environment(request, _ALLOWED_ENV, {"DISABLE_AUTOUPDATER": "1", **credentials}, without=without)


def _credentials(endpoint: Endpoint) -> tuple[dict[str, str], frozenset[str]]:
    """The variables to set and those to hide: the daemon's keys must not reach another endpoint."""
    if endpoint.base_url is not None:
        # The empty key keeps the program from looking for its stored one.
        values = {"ANTHROPIC_BASE_URL": endpoint.base_url, "ANTHROPIC_API_KEY": ""}
        return values | _not_empty(ANTHROPIC_AUTH_TOKEN=endpoint.api_key), _KEYS | {"ANTHROPIC_CUSTOM_HEADERS"}
    values = _not_empty(ANTHROPIC_API_KEY=endpoint.api_key, CLAUDE_CODE_OAUTH_TOKEN=endpoint.oauth_token)
    return values, _KEYS if values else frozenset()


def _not_empty(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}


class _ClaudeOutput:
    """Reads the program's lines; raises the error of `give_up` for a refusal that the program would only retry."""

    def __init__(
        self, progress: OnProgress, now: Callable[[], float], give_up: Callable[[ProgramRefusal], RunFailed]
    ) -> None:
        self.output = ParsedOutput()
        self._progress = progress
        self._now = now
        self._give_up = give_up
        self._model: str | None = None
        self._error_kind = ""
        self._input = self._output = self._cache = 0
        self._cost = 0.0

    def read(self, line: object) -> None:
        match json_at(line, "type"):
            case "system":
                self._read_system(line)
            case "assistant":
                self._read_assistant(line)
            case "result":
                self._read_result(line)
            case "rate_limit_event" if json_at(line, "rate_limit_info", "status") == "rejected":
                self._read_limit(count_at(line, "rate_limit_info", "resetsAt"))

    def _read_system(self, line: object) -> None:
        if json_at(line, "subtype") == "init":
            self.output.session_id = valid_session_id(json_at(line, "session_id"))
            self._model = text_at(line, "model") or None
        elif json_at(line, "subtype") == "api_retry":
            error, attempt = text_at(line, "error"), count_at(line, "attempt") or 0
            status = count_at(line, "error_status")
            if status in _KEY_REFUSED and attempt >= _MAX_TRIES:
                raise self._give_up(ProgramRefusal(f"the key was refused ({error}, status {status})", status))
            self._progress(clean(f"waiting: {error or 'the endpoint refuses'} (try {attempt})"))

    def _read_assistant(self, line: object) -> None:
        self._error_kind = text_at(line, "error")
        content = json_at(line, "message", "content")
        for block in content if isinstance(content, list) else ():
            match json_at(block, "type"):
                case "text":
                    text = text_at(block, "text")
                    # A subagent's text is progress, never the answer.
                    if text and not self._error_kind and json_at(line, "parent_tool_use_id") is None:
                        self.output.last_text = text
                    self._progress(clean(text))
                case "tool_use":
                    details = (text_at(block, "input", name) for name in _DETAILS)
                    self._progress(tool_line(text_at(block, "name"), *details))

    def _read_result(self, line: object) -> None:
        output = self.output
        output.is_complete = True
        output.answer = text_at(line, "result")
        output.session_id = valid_session_id(json_at(line, "session_id")) or output.session_id
        self._add_usage(line)
        output.error, output.status = "", count_at(line, "api_error_status")
        # `subtype` is "success" for errors, too.
        if json_at(line, "is_error") is True:
            errors = json_at(line, "errors")
            parts = [
                output.answer,
                *(errors if isinstance(errors, list) else ()),
                self._error_kind and f"[{self._error_kind}]",
            ]
            message = " ".join(part for part in parts if isinstance(part, str) and part)
            output.error = message or "an error without a message"

    def _read_limit(self, resets_at: int | None) -> None:
        if resets_at is not None:
            left = timedelta(seconds=min(resets_at - self._now(), LONGEST.total_seconds()))
            self.output.retry_after = left if left > timedelta() else None

    def _add_usage(self, line: object) -> None:
        """Add the usage since the last result, subagents included; a run may have several results.

        The plain totals cannot be used: in a resumed session they include its earlier runs.
        """
        models = json_at(line, "model_usage_since_last_result")
        if isinstance(models, dict):
            for model in models.values():
                self._count(model, "inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
                self._cost += amount_at(model, "costUSD")
        else:
            names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
            self._count(json_at(line, "usage"), *names)
            self._cost += amount_at(line, "total_cost_usd")
        self.output.usage = Usage(self._input, self._output, self._cache, self._cost, _PROVIDER, self._model)

    def _count(self, usage: object, *names: str) -> None:
        counts = [count_at(usage, name) or 0 for name in names]
        self._input += counts[0]
        self._output += counts[1]
        self._cache += counts[2] + counts[3]
