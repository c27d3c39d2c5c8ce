"""The provider `opencode`: runs the opencode program, which knows the endpoints of many vendors."""

import json
import re
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import timedelta
from typing import Any, Final

from tinyagi.domain.limits import Usage
from tinyagi.domain.retry import LONGEST
from tinyagi.domain.runs import Permissions, Wire
from tinyagi.domain.texts import clean
from tinyagi.providers.base import OnProgress, RunRequest, RunResult
from tinyagi.providers.cli_program import (
    EnvAllowlist,
    ParsedOutput,
    child_environment,
    exceeds_argument_limit,
    instructions_file,
    json_lines,
    result_of,
    tool_line,
    valid_session_id,
)
from tinyagi.providers.json_fields import amount_at, count_at, json_at, text_at
from tinyagi.providers.process import Exit, Program, run_child

_PROVIDER: Final = "opencode"
AGENT: Final = "tinyagi"
"""The program's name for the agent with these instructions."""

_ALLOWED_ENV: Final = EnvAllowlist(
    prefixes=("OPENCODE_",),
    names=frozenset(
        {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"}
        | {"GROQ_API_KEY", "MISTRAL_API_KEY", "DEEPSEEK_API_KEY", "XAI_API_KEY", "ZHIPU_API_KEY", "MOONSHOT_API_KEY"}
    ),
    excluded=frozenset({"OPENCODE", "OPENCODE_PID", "OPENCODE_CONFIG_CONTENT", "OPENCODE_SERVER_PASSWORD"}),
)
# The program's built-in plan agent can still run any shell command.
_PERMISSIONS: Final[Mapping[Permissions, Mapping[str, str]]] = {
    Permissions.BYPASS: {"*": "allow"},
    Permissions.DEFAULT: {},
    Permissions.PLAN: {"edit": "deny", "bash": "deny"},
}
_PACKAGES: Final[Mapping[Wire, str]] = {Wire.OPENAI: "@ai-sdk/openai-compatible", Wire.ANTHROPIC: "@ai-sdk/anthropic"}
_UNKNOWN_SESSION: Final = re.compile(r"Session not found", re.IGNORECASE)


class Opencode:
    keeps_sessions: Final = True

    def __init__(self, executable: str = "opencode") -> None:
        self._program = Program(
            "opencode",
            executable,
            install="npm install -g opencode-ai",
            log_in="run `opencode auth login` in a terminal, or add the key's variable to pass_environment",
        )

    async def run(self, request: RunRequest, progress: OnProgress) -> RunResult:
        session = valid_session_id(request.session_id)
        reader = _OpencodeOutput(progress, request.model)
        end = await self._run_program(request, session, reader)
        if end.code and session and _UNKNOWN_SESSION.search(end.stderr_tail):
            session, reader = None, _OpencodeOutput(progress, request.model)
            end = await self._run_program(request, None, reader)
        return result_of(reader.output, end, self._program, request, resumed=session)

    async def _run_program(self, request: RunRequest, session: str | None, reader: "_OpencodeOutput") -> Exit:
        arguments = ["run", "--format", "json", *(("--model", request.model) if request.model else ())]
        # With a given title the program does not ask a model for one.
        arguments += ("--session", session) if session else ("--title", request.agent)
        arguments += ("--agent", AGENT) if request.system_prompt else ()
        configuration = json.dumps(_configuration(request), ensure_ascii=False)
        extra = {"OPENCODE_DISABLE_AUTOUPDATE": "1"}
        # The daemon's keys must not reach another endpoint.
        without = _ALLOWED_ENV.names if request.endpoint.base_url else frozenset[str]()
        with ExitStack() as files:
            if exceeds_argument_limit(configuration):
                extra["OPENCODE_CONFIG"] = str(files.enter_context(instructions_file(configuration, ".json")))
            else:
                extra["OPENCODE_CONFIG_CONTENT"] = configuration
            return await run_child(
                self._program,
                arguments,
                stdin=clean(request.prompt).encode(),
                cwd=request.workspace,
                environment=child_environment(request, _ALLOWED_ENV, extra, without=without),
                limits=request.limits,
                on_line=json_lines(reader.read),
            )


def _configuration(request: RunRequest) -> dict[str, Any]:
    configuration: dict[str, Any] = {}
    if instructions := clean(request.system_prompt):
        configuration["agent"] = {AGENT: {"mode": "primary", "prompt": instructions}}
    if permission := _PERMISSIONS[request.permissions]:
        configuration["permission"] = dict(permission)
    endpoint = request.endpoint
    vendor, _, model = request.model.partition("/")
    options = {"baseURL": endpoint.base_url, "apiKey": endpoint.api_key}
    options = {name: value for name, value in options.items() if value}
    if options and model:
        provider: dict[str, Any] = {"options": options}
        if endpoint.base_url:
            # The program may not know the owner's endpoint.
            provider |= {"npm": _PACKAGES[endpoint.wire], "models": {model: {}}}
        configuration["provider"] = {vendor: provider}
    return configuration


class _OpencodeOutput:
    """Reads the lines of `--format json`."""

    def __init__(self, progress: OnProgress, model: str) -> None:
        self.output = ParsedOutput(usage=Usage(provider=_PROVIDER, model=model or None))
        self._progress = progress
        self._message = ""
        self._model = model or None
        self._input = self._output = self._cache = 0
        self._cost = 0.0

    def read(self, line: object) -> None:
        self.output.session_id = valid_session_id(json_at(line, "sessionID")) or self.output.session_id
        part = json_at(line, "part")
        match json_at(line, "type"):
            case "text":
                self._read_text(text_at(part, "messageID"), text_at(part, "text"))
            case "tool_use":
                command = text_at(part, "state", "input", "command")
                self._progress(tool_line(text_at(part, "tool"), text_at(part, "state", "title"), command))
            case "step_finish":
                self.output.is_complete = True
                self._read_usage(part)
            case "error":
                self._read_error(json_at(line, "error"))

    def _read_text(self, message: str, text: str) -> None:
        # A message may arrive in several parts; the last message is the answer.
        output = self.output
        output.answer = f"{output.answer}\n\n{text}" if message == self._message and output.answer else text
        self._message = message
        output.last_text = text or output.last_text
        output.error = ""
        self._progress(clean(text))

    def _read_usage(self, part: object) -> None:
        tokens = json_at(part, "tokens")
        self._input += count_at(tokens, "input") or 0
        self._output += (count_at(tokens, "output") or 0) + (count_at(tokens, "reasoning") or 0)
        self._cache += (count_at(tokens, "cache", "read") or 0) + (count_at(tokens, "cache", "write") or 0)
        self._cost += amount_at(part, "cost")
        self.output.usage = Usage(self._input, self._output, self._cache, self._cost, _PROVIDER, self._model)

    def _read_error(self, error: object) -> None:
        output = self.output
        parts = [text_at(error, "name"), text_at(error, "data", "message")]
        output.error = ": ".join(filter(None, parts)) or "an error without a message"
        output.status = count_at(error, "data", "statusCode")
        wait = text_at(error, "data", "responseHeaders", "retry-after")
        output.retry_after = min(timedelta(seconds=int(wait)), LONGEST) if re.fullmatch(r"\d{1,9}", wait) else None
