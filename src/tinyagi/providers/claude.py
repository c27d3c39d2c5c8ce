"""The provider `anthropic`: runs of the claude program, and of other endpoints that speak its language."""

import re
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Final

from tinyagi.domain.texts import clean
from tinyagi.providers.base import Endpoint, Permissions, Progress, RunFailed, RunRequest, RunResult
from tinyagi.providers.claude_output import ClaudeReader
from tinyagi.providers.environment import Passport, child_environment
from tinyagi.providers.hearing import conclude, json_lines, session_in
from tinyagi.providers.instructions import is_too_long, written
from tinyagi.providers.process import Exit, run_child
from tinyagi.providers.refusals import Refusal, failure_of
from tinyagi.providers.spawning import Program

_PASSPORT: Final = Passport(
    prefixes=("ANTHROPIC_", "CLAUDE_"),
    names=frozenset({"IS_SANDBOX", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY"}),
    never=frozenset(
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
# A resumed session otherwise goes on with the instructions of its first run, whatever it is given now.
_FRESH_INSTRUCTIONS: Final = ("--system-prompt-snapshot", "off")
_TOO_OLD: Final = re.compile(r"unknown option '?--system-prompt-snapshot")
_UNKNOWN_SESSION: Final = re.compile(r"No conversation found with session ID|--resume requires a valid session ID")


class Claude:
    def __init__(self, executable: str = "claude", *, now: Callable[[], float] = time.time) -> None:
        self._program = Program(
            "claude",
            executable,
            install="npm install -g @anthropic-ai/claude-code",
            log_in="run `claude` in a terminal and log in, or set models.anthropic.api_key",
        )
        self._now = now

    async def run(self, request: RunRequest, progress: Progress) -> RunResult:
        session = session_in(request.session_id)
        resume: tuple[str, ...] = ("--resume", session, *_FRESH_INSTRUCTIONS) if session else ()
        while True:
            reader = ClaudeReader(progress, self._now, lambda refusal: self._give_up(refusal, request))
            end = await self._once(request, resume, reader)
            told = f"{end.stderr_tail} {reader.heard.error}"
            if end.code and resume and _TOO_OLD.search(told):
                resume = resume[:2]
            elif end.code and resume and _UNKNOWN_SESSION.search(told):
                resume = ()
            else:
                return conclude(reader.heard, end, self._program, request, resumed=session if resume else None)

    async def _once(self, request: RunRequest, resume: tuple[str, ...], reader: ClaudeReader) -> Exit:
        arguments = [*_PERMISSIONS[request.permissions], *(("--model", request.model) if request.model else ())]
        instructions = clean(request.system_prompt)
        with ExitStack() as files:
            if is_too_long(instructions):
                path = files.enter_context(written(instructions, ".md"))
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
                on_line=json_lines(reader.take),
            )

    def _give_up(self, refusal: Refusal, request: RunRequest) -> RunFailed:
        return RunFailed(failure_of(refusal, self._program, (request.endpoint.api_key, request.endpoint.oauth_token)))


def _environment(request: RunRequest) -> dict[str, str]:
    own, without = _credentials(request.endpoint)
    # A run must not exchange the program that carries it out.
    return child_environment(request, _PASSPORT, {"DISABLE_AUTOUPDATER": "1", **own}, without=without)


def _credentials(endpoint: Endpoint) -> tuple[dict[str, str], frozenset[str]]:
    """What to set, and what of the daemon's must not be seen: its own keys are for nobody else's endpoint."""
    if endpoint.base_url is not None:
        # The empty key keeps the program from looking for one of its own.
        own = {"ANTHROPIC_BASE_URL": endpoint.base_url, "ANTHROPIC_API_KEY": ""}
        return own | _given(ANTHROPIC_AUTH_TOKEN=endpoint.api_key), _KEYS | {"ANTHROPIC_CUSTOM_HEADERS"}
    own = _given(ANTHROPIC_API_KEY=endpoint.api_key, CLAUDE_CODE_OAUTH_TOKEN=endpoint.oauth_token)
    return own, _KEYS if own else frozenset()


def _given(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}
