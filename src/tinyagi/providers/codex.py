"""The provider `openai`: runs the codex program, also with other endpoints that speak the Responses format."""

import json
import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final, Self

from tinyagi.domain.limits import Usage
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.runs import Endpoint, Permissions
from tinyagi.domain.texts import clean, one_line
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
from tinyagi.providers.json_fields import NotJson, count_at, json_at, parse_json, text_at
from tinyagi.providers.process import Exit, Program, run_child

_PROVIDER: Final = "openai"

_ALLOWED_ENV: Final = EnvAllowlist(
    prefixes=("OPENAI_", "CODEX_"),
    excluded=frozenset(
        {"CODEX_THREAD_ID", "CODEX_SESSION_ID", "CODEX_TOOL_CALL_ID", "CODEX_CI", "CODEX_VERSION", "CODEX_SANDBOX"}
        | {"CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_MANAGED_BY_NPM", "CODEX_MANAGED_PACKAGE_ROOT"}
    ),
)
_KEYS: Final = frozenset({"OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "OPENAI_BASE_URL"})
_PERMISSIONS: Final[Mapping[Permissions, tuple[str, ...]]] = {
    Permissions.BYPASS: ("--dangerously-bypass-approvals-and-sandbox",),
    Permissions.DEFAULT: (),
    Permissions.PLAN: ("-c", 'sandbox_mode="read-only"', "-c", 'approval_policy="never"'),
}
_UNKNOWN_SESSION: Final = re.compile(
    r"no rollout found|no saved session|(?:session|thread|conversation) not found", re.IGNORECASE
)
_NOISE: Final = re.compile(r"^(?:Reading prompt from stdin\.\.\.|WARNING: proceeding, even though .*)\n?", re.MULTILINE)
_SESSION: Final = re.compile(r"(?P<thread>[0-9A-Za-z][0-9A-Za-z-]{0,63})(?:_(?P<used>\d{1,12}_\d{1,12}_\d{1,12}))?")
"""Earlier versions appended the tokens used so far to the thread."""
_USED: Final = re.compile(r"\d{1,12}_\d{1,12}_\d{1,12}")

_OFFLINE: Final = "waiting for network"
_PATIENCE: Final = 5
"""Reports of a missing network before the run fails, over a minute and a half; the program itself waits forever."""


@dataclass(frozen=True, slots=True)
class Tokens:
    input: int
    """Including cached tokens."""
    cached: int
    output: int

    @staticmethod
    def parse(text: str | None) -> "Tokens | None":
        return Tokens(*map(int, text.split("_"))) if text and _USED.fullmatch(text) else None

    def __str__(self) -> str:
        return f"{self.input}_{self.cached}_{self.output}"

    def less(self, before: "Tokens | None") -> "Self | Tokens | None":
        if before is None:
            return None
        rest = Tokens(self.input - before.input, self.cached - before.cached, self.output - before.output)
        # A sum that shrank is not a sum over the session: the program reports the run's numbers then.
        return rest if min(rest.input, rest.cached, rest.output) >= 0 else self


@dataclass(frozen=True, slots=True)
class _Session:
    """A codex thread and its usage so far: codex reports only the sum over all runs of a thread."""

    thread: str
    used: Tokens | None

    @staticmethod
    def parse(session_id: str | None, state: str | None) -> "_Session | None":
        found = _SESSION.fullmatch(session_id or "")
        return None if found is None else _Session(found["thread"], Tokens.parse(state or found["used"]))


class Codex:
    keeps_sessions: Final = True

    def __init__(self, executable: str = "codex") -> None:
        self._program = Program(
            "codex",
            executable,
            install="npm install -g @openai/codex",
            log_in="run `codex login` in a terminal, or set models.openai.api_key",
        )

    async def run(self, request: RunRequest, progress: OnProgress) -> RunResult:
        session = _Session.parse(request.session_id, request.session_state)
        reader = _CodexOutput(progress)
        end = await self._run_program(request, session, reader)
        if end.code and session and _UNKNOWN_SESSION.search(end.stderr_tail):
            session, reader = None, _CodexOutput(progress)
            end = await self._run_program(request, None, reader)
        end = replace(end, stderr_tail=_NOISE.sub("", end.stderr_tail))
        result = result_of(reader.output, end, self._program, request, resumed=session.thread if session else None)
        now = _Session(result.session_id, reader.used) if result.session_id else None
        state = str(now.used) if now and now.used else None
        return replace(result, usage=_usage(now, session, request.model), session_state=state)

    async def _run_program(self, request: RunRequest, session: _Session | None, reader: "_CodexOutput") -> Exit:
        with ExitStack() as files:
            arguments = ["exec", *(("resume", session.thread) if session else ())]
            arguments += ("--model", request.model) if request.model else ()
            arguments += ("--skip-git-repo-check", *_PERMISSIONS[request.permissions], "--json")
            arguments += ("-c", "check_for_update_on_startup=false", *_provider(request.endpoint))
            if instructions := clean(request.system_prompt):
                # Only these instructions reach a resumed thread, too; they include the owner's AGENTS.md already.
                path = files.enter_context(instructions_file(instructions, ".md"))
                arguments += ("-c", f"model_instructions_file={_quoted(str(path))}", "-c", "project_doc_max_bytes=0")
            return await run_child(
                self._program,
                arguments,
                stdin=clean(request.prompt).encode(),
                cwd=request.workspace,
                environment=_environment(request),
                limits=request.limits,
                on_line=json_lines(reader.read),
            )


def _environment(request: RunRequest) -> dict[str, str]:
    endpoint = request.endpoint
    if endpoint.base_url is not None:
        extra = {"OPENAI_BASE_URL": endpoint.base_url}
        extra |= {"OPENAI_API_KEY": endpoint.api_key} if endpoint.api_key else {}
        return child_environment(request, _ALLOWED_ENV, extra, without=_KEYS)
    if endpoint.api_key:
        # The program reads only the second name; programs that the agent starts may read the first.
        extra = {"OPENAI_API_KEY": endpoint.api_key, "CODEX_API_KEY": endpoint.api_key}
        return child_environment(request, _ALLOWED_ENV, extra, without=_KEYS)
    return child_environment(request, _ALLOWED_ENV, {})


def _provider(endpoint: Endpoint) -> tuple[str, ...]:
    """The program takes another endpoint only from its configuration and ignores OPENAI_BASE_URL."""
    if endpoint.base_url is None:
        return ()
    fields = {"name": "TinyAGI", "base_url": endpoint.base_url, "wire_api": "responses"}
    if endpoint.api_key:
        fields["env_key"] = "OPENAI_API_KEY"
    table = ",".join(f"{name}={_quoted(value)}" for name, value in fields.items())
    return ("-c", 'model_provider="tinyagi"', "-c", f"model_providers.tinyagi={{{table}}}")


def _quoted(text: str) -> str:
    """The text as a TOML string."""
    return json.dumps(text, ensure_ascii=False)


def _usage(now: _Session | None, before: _Session | None, model: str) -> Usage:
    """The run's usage: the thread's sum less the sum before the run; unknown when that sum was not recorded."""
    used = now.used if now else None
    if now is not None and used is not None and before is not None and before.thread == now.thread:
        used = used.less(before.used)
    plain = None if used is None else used.input - used.cached
    return Usage(
        input_tokens=plain,
        output_tokens=used.output if used else None,
        cache_tokens=used.cached if used else None,
        provider=_PROVIDER,
        model=model or None,
    )


class _CodexOutput:
    def __init__(self, progress: OnProgress) -> None:
        self.output = ParsedOutput()
        self.used: Tokens | None = None
        self._progress = progress
        self._offline = 0

    def read(self, line: object) -> None:
        match json_at(line, "type"):
            case "thread.started":
                self.output.session_id = valid_session_id(json_at(line, "thread_id"))
            case "item.started":
                self._read_tool(json_at(line, "item"))
            case "item.completed":
                self._read_item(json_at(line, "item"))
            case "turn.completed":
                self.output.is_complete, self.output.error = True, ""
                self._read_usage(json_at(line, "usage"))
            case "turn.failed":
                self.output.error = _error_message(text_at(line, "error", "message"))
            case "error":
                self._read_error(text_at(line, "message"))

    def _read_item(self, item: object) -> None:
        # An item of type error is a warning: the turn goes on.
        if json_at(item, "type") == "agent_message":
            text = text_at(item, "text")
            self.output.answer = text
            self.output.last_text = text or self.output.last_text
            self._progress(clean(text))
        elif json_at(item, "type") == "file_change":
            self._progress(tool_line("file_change", text_at(item, "changes", 0, "path")))

    def _read_tool(self, item: object) -> None:
        match json_at(item, "type"):
            case "command_execution":
                self._progress(tool_line("command", text_at(item, "command")))
            case "mcp_tool_call":
                self._progress(tool_line(text_at(item, "server") or "mcp", text_at(item, "tool")))
            case "web_search":
                self._progress(tool_line("web_search", text_at(item, "query")))

    def _read_usage(self, usage: object) -> None:
        counts = [count_at(usage, f"{kind}_tokens") for kind in ("input", "cached_input", "output")]
        if counts[0] is not None and counts[2] is not None:
            self.used = Tokens(counts[0], min(counts[1] or 0, counts[0]), counts[2])

    def _read_error(self, text: str) -> None:
        self._offline += _OFFLINE in text
        if self._offline >= _PATIENCE:
            raise RunFailed(Failure(FailureKind.UNAVAILABLE, f"codex cannot reach its endpoint: {one_line(text)}"))
        if text.startswith("Reconnecting"):
            self._progress(clean(text))
        else:
            self.output.error = _error_message(text)


def _error_message(text: str) -> str:
    """The message of an error in JSON, or the text as it is."""
    try:
        return text_at(parse_json(text), "error", "message") or text
    except NotJson:
        return text or "an error without a message"
