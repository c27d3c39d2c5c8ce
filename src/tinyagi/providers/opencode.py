"""The provider `opencode`: runs of the opencode program, which knows the endpoints of many vendors."""

import json
import re
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import timedelta
from typing import Any, Final

from tinyagi.domain.messages import Usage
from tinyagi.domain.retry import LONGEST
from tinyagi.domain.texts import clean
from tinyagi.providers.base import Permissions, Progress, RunRequest, RunResult, Wire
from tinyagi.providers.environment import Passport, child_environment
from tinyagi.providers.hearing import Heard, amount_at, conclude, json_lines, session_in, tool_line
from tinyagi.providers.instructions import is_too_long, written
from tinyagi.providers.process import Exit, run_child
from tinyagi.providers.spawning import Program
from tinyagi.providers.wires.fields import at, count_at, text_at

PROVIDER: Final = "opencode"
AGENT: Final = "tinyagi"
"""The name under which the program knows the agent with our instructions."""

_PASSPORT: Final = Passport(
    prefixes=("OPENCODE_",),
    names=frozenset(
        {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"}
        | {"GROQ_API_KEY", "MISTRAL_API_KEY", "DEEPSEEK_API_KEY", "XAI_API_KEY", "ZHIPU_API_KEY", "MOONSHOT_API_KEY"}
    ),
    never=frozenset({"OPENCODE", "OPENCODE_PID", "OPENCODE_CONFIG_CONTENT", "OPENCODE_SERVER_PASSWORD"}),
)
# The program's own agent for plans still runs any shell command.
_PERMISSIONS: Final[Mapping[Permissions, Mapping[str, str]]] = {
    Permissions.BYPASS: {"*": "allow"},
    Permissions.DEFAULT: {},
    Permissions.PLAN: {"edit": "deny", "bash": "deny"},
}
_PACKAGES: Final[Mapping[Wire, str]] = {Wire.OPENAI: "@ai-sdk/openai-compatible", Wire.ANTHROPIC: "@ai-sdk/anthropic"}
_UNKNOWN_SESSION: Final = re.compile(r"Session not found", re.IGNORECASE)


class Opencode:
    def __init__(self, executable: str = "opencode") -> None:
        self._program = Program(
            "opencode",
            executable,
            install="npm install -g opencode-ai",
            log_in="run `opencode auth login` in a terminal, or let the key's variable through with pass_environment",
        )

    async def run(self, request: RunRequest, progress: Progress) -> RunResult:
        session = session_in(request.session_id)
        reader = _Reader(progress, request.model)
        end = await self._once(request, session, reader)
        if end.code and session and _UNKNOWN_SESSION.search(end.stderr_tail):
            session, reader = None, _Reader(progress, request.model)
            end = await self._once(request, None, reader)
        return conclude(reader.heard, end, self._program, request, resumed=session)

    async def _once(self, request: RunRequest, session: str | None, reader: "_Reader") -> Exit:
        arguments = ["run", "--format", "json", *(("--model", request.model) if request.model else ())]
        # A title of ours spares the program the question to a model for one.
        arguments += ("--session", session) if session else ("--title", request.agent)
        arguments += ("--agent", AGENT) if request.system_prompt else ()
        configuration = json.dumps(_configuration(request), ensure_ascii=False)
        own = {"OPENCODE_DISABLE_AUTOUPDATE": "1"}
        # The daemon's own keys are for nobody else's endpoint.
        without = _PASSPORT.names if request.endpoint.base_url else frozenset[str]()
        with ExitStack() as files:
            if is_too_long(configuration):
                own["OPENCODE_CONFIG"] = str(files.enter_context(written(configuration, ".json")))
            else:
                own["OPENCODE_CONFIG_CONTENT"] = configuration
            return await run_child(
                self._program,
                arguments,
                stdin=clean(request.prompt).encode(),
                cwd=request.workspace,
                environment=child_environment(request, _PASSPORT, own, without=without),
                limits=request.limits,
                on_line=json_lines(reader.take),
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
    given = {name: value for name, value in options.items() if value}
    if given and model:
        provider: dict[str, Any] = {"options": given}
        if endpoint.base_url:
            # An endpoint of the owner's need not be one that the program knows.
            provider |= {"npm": _PACKAGES[endpoint.wire], "models": {model: {}}}
        configuration["provider"] = {vendor: provider}
    return configuration


class _Reader:
    """Reads the lines of `--format json`."""

    def __init__(self, progress: Progress, model: str) -> None:
        self.heard = Heard(usage=Usage(provider=PROVIDER, model=model or None))
        self._progress = progress
        self._message = ""
        self._model = model or None
        self._input = self._output = self._cache = 0
        self._cost = 0.0

    def take(self, line: object) -> None:
        self.heard.session_id = session_in(at(line, "sessionID")) or self.heard.session_id
        part = at(line, "part")
        match at(line, "type"):
            case "text":
                self._take_text(text_at(part, "messageID"), text_at(part, "text"))
            case "tool_use":
                command = text_at(part, "state", "input", "command")
                self._progress(tool_line(text_at(part, "tool"), text_at(part, "state", "title"), command))
            case "step_finish":
                self.heard.is_complete = True
                self._take_usage(part)
            case "error":
                self._take_error(at(line, "error"))

    def _take_text(self, message: str, text: str) -> None:
        # One message may come in several parts; the last message is the answer.
        heard = self.heard
        heard.answer = f"{heard.answer}\n\n{text}" if message == self._message and heard.answer else text
        self._message = message
        heard.last_said = text or heard.last_said
        heard.error = ""
        self._progress(clean(text))

    def _take_usage(self, part: object) -> None:
        tokens = at(part, "tokens")
        self._input += count_at(tokens, "input") or 0
        self._output += (count_at(tokens, "output") or 0) + (count_at(tokens, "reasoning") or 0)
        self._cache += (count_at(tokens, "cache", "read") or 0) + (count_at(tokens, "cache", "write") or 0)
        self._cost += amount_at(part, "cost")
        self.heard.usage = Usage(self._input, self._output, self._cache, self._cost, PROVIDER, self._model)

    def _take_error(self, error: object) -> None:
        heard = self.heard
        told = [text_at(error, "name"), text_at(error, "data", "message")]
        heard.error = ": ".join(filter(None, told)) or "an error without words"
        heard.status = count_at(error, "data", "statusCode")
        wait = text_at(error, "data", "responseHeaders", "retry-after")
        heard.retry_after = min(timedelta(seconds=int(wait)), LONGEST) if re.fullmatch(r"\d{1,9}", wait) else None
