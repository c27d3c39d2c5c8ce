"""The provider `openai`: runs of the codex program, and of other endpoints that speak the Responses format."""

import json
import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

from tinyagi.domain.messages import Usage
from tinyagi.domain.texts import clean
from tinyagi.providers.base import Endpoint, Permissions, Progress, RunRequest, RunResult
from tinyagi.providers.codex_output import CodexReader, Tokens
from tinyagi.providers.environment import Passport, child_environment
from tinyagi.providers.hearing import conclude, json_lines
from tinyagi.providers.instructions import written
from tinyagi.providers.process import Exit, run_child
from tinyagi.providers.spawning import Program

PROVIDER: Final = "openai"

_PASSPORT: Final = Passport(
    prefixes=("OPENAI_", "CODEX_"),
    never=frozenset(
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
_SESSION: Final = re.compile(r"([0-9A-Za-z][0-9A-Za-z-]{0,63})(?:_(\d{1,12})_(\d{1,12})_(\d{1,12}))?")


@dataclass(frozen=True, slots=True)
class _Session:
    """A thread of codex and what it has used so far, as codex only ever tells the sum of all runs."""

    thread: str
    used: Tokens | None

    @staticmethod
    def parse(text: str | None) -> "_Session | None":
        found = _SESSION.fullmatch(text or "")
        if found is None:
            return None
        return _Session(found[1], Tokens(int(found[2]), int(found[3]), int(found[4])) if found[2] else None)

    def __str__(self) -> str:
        used = self.used
        return f"{self.thread}_{used.input}_{used.cached}_{used.output}" if used else self.thread


class Codex:
    def __init__(self, executable: str = "codex") -> None:
        self._program = Program(
            "codex",
            executable,
            install="npm install -g @openai/codex",
            log_in="run `codex login` in a terminal, or set models.openai.api_key",
        )

    async def run(self, request: RunRequest, progress: Progress) -> RunResult:
        session = _Session.parse(request.session_id)
        reader = CodexReader(progress)
        end = await self._once(request, session, reader)
        if end.code and session and _UNKNOWN_SESSION.search(end.stderr_tail):
            session, reader = None, CodexReader(progress)
            end = await self._once(request, None, reader)
        end = replace(end, stderr_tail=_NOISE.sub("", end.stderr_tail))
        result = conclude(reader.heard, end, self._program, request, resumed=session.thread if session else None)
        now = _Session(result.session_id, reader.used) if result.session_id else None
        return replace(result, usage=_usage(now, session, request.model), session_id=str(now) if now else None)

    async def _once(self, request: RunRequest, session: _Session | None, reader: CodexReader) -> Exit:
        with ExitStack() as files:
            arguments = ["exec", *(("resume", session.thread) if session else ())]
            arguments += ("--model", request.model) if request.model else ()
            arguments += ("--skip-git-repo-check", *_PERMISSIONS[request.permissions], "--json")
            arguments += ("-c", "check_for_update_on_startup=false", *_provider(request.endpoint))
            if instructions := clean(request.system_prompt):
                # The only instructions that also reach a resumed thread; they hold the owner's AGENTS.md already.
                path = files.enter_context(written(instructions, ".md"))
                arguments += ("-c", f"model_instructions_file={_quoted(str(path))}", "-c", "project_doc_max_bytes=0")
            return await run_child(
                self._program,
                arguments,
                stdin=clean(request.prompt).encode(),
                cwd=request.workspace,
                environment=_environment(request),
                limits=request.limits,
                on_line=json_lines(reader.take),
            )


def _environment(request: RunRequest) -> dict[str, str]:
    endpoint = request.endpoint
    if endpoint.base_url is not None:
        own = {"OPENAI_BASE_URL": endpoint.base_url}
        own |= {"OPENAI_API_KEY": endpoint.api_key} if endpoint.api_key else {}
        return child_environment(request, _PASSPORT, own, without=_KEYS)
    if endpoint.api_key:
        # The program itself looks at the second name only; what agents start may look at the first.
        own = {"OPENAI_API_KEY": endpoint.api_key, "CODEX_API_KEY": endpoint.api_key}
        return child_environment(request, _PASSPORT, own, without=_KEYS)
    return child_environment(request, _PASSPORT, {})


def _provider(endpoint: Endpoint) -> tuple[str, ...]:
    """The program takes another endpoint from its configuration only; OPENAI_BASE_URL means nothing to it."""
    if endpoint.base_url is None:
        return ()
    fields = {"name": "TinyAGI", "base_url": endpoint.base_url, "wire_api": "responses"}
    if endpoint.api_key:
        fields["env_key"] = "OPENAI_API_KEY"
    table = ",".join(f"{name}={_quoted(value)}" for name, value in fields.items())
    return ("-c", 'model_provider="tinyagi"', "-c", f"model_providers.tinyagi={{{table}}}")


def _quoted(text: str) -> str:
    """A string as TOML wants it."""
    return json.dumps(text, ensure_ascii=False)


def _usage(now: _Session | None, before: _Session | None, model: str) -> Usage:
    """What this run used: the thread's sum less what it was before; unknown when that was not noted."""
    used = now.used if now else None
    if now is not None and used is not None and before is not None and before.thread == now.thread:
        used = used.less(before.used)
    plain = None if used is None else used.input - used.cached
    return Usage(
        input_tokens=plain,
        output_tokens=used.output if used else None,
        cache_tokens=used.cached if used else None,
        provider=PROVIDER,
        model=model or None,
    )
