"""Shared by the three command-line adapters: environment, instructions file, parsed output, result or failure."""

import re
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from tinyagi.domain.limits import Usage
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.texts import clean, one_line
from tinyagi.providers.base import RunFailed, RunRequest, RunResult
from tinyagi.providers.failures import ProgramRefusal, program_failure
from tinyagi.providers.json_fields import NotJson, parse_json
from tinyagi.providers.pipes import OnLine
from tinyagi.providers.process import RUN_VARIABLE, Exit, Program

AGENT_VARIABLE: Final = "TINYAGI_AGENT_ID"

_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_NAMES: Final = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "LANG", "LANGUAGE"),
        *_PROXIES,
        *(name.lower() for name in _PROXIES),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("TINYAGI_HOME", "TINYAGI_API_PORT", "TINYAGI_API_TOKEN"),
    }
)
_PREFIXES: Final = ("LC_", "XDG_")

LONGEST_ARGUMENT: Final = 120_000
"""Bytes of one argument or variable; Linux allows 128 KiB with the name and the end mark."""

_SESSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_STDERR: Final = 400
_TOOL: Final = 120


@dataclass(frozen=True, slots=True)
class EnvAllowlist:
    """The daemon's variables that one program may see."""

    prefixes: tuple[str, ...]
    names: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    """Variables that the program sets for its children: a daemon started by the program must not pass them on."""


def child_environment(
    request: RunRequest, allowed: EnvAllowlist, extra: Mapping[str, str], *, without: frozenset[str] = frozenset()
) -> dict[str, str]:
    """The child's whole environment: the allowed part of the daemon's, then `extra`, then the variables of the run."""
    names = _NAMES | allowed.names | frozenset(request.pass_environment)
    prefixes = _PREFIXES + allowed.prefixes
    hidden = allowed.excluded | without
    passed = {
        name: value
        for name, value in request.environment.items()
        if (name in names or name.startswith(prefixes)) and name not in hidden
    }
    return {**passed, **extra, RUN_VARIABLE: request.run_id, AGENT_VARIABLE: request.agent}


def exceeds_argument_limit(text: str) -> bool:
    return len(text) * 4 > LONGEST_ARGUMENT and len(text.encode()) > LONGEST_ARGUMENT


@contextmanager
def instructions_file(text: str, suffix: str) -> Iterator[Path]:
    """A file with this text that only this user can read; it is deleted when the block ends."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="tinyagi-", ignore_cleanup_errors=True)
        path = Path(folder.name, f"instructions{suffix}")
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        reason = f"The agent's instructions cannot be written to the folder for temporary files: {error}"
        raise RunFailed(Failure(FailureKind.UNAVAILABLE, reason)) from error
    with folder:
        yield path


@dataclass(slots=True)
class ParsedOutput:
    """The program's output so far, parsed; each adapter's reader fills it."""

    answer: str = ""
    """The text that the program marks as its answer."""
    last_text: str = ""
    """The agent's last text, used when the answer is empty."""
    is_complete: bool = False
    """The program reported the end of its turn."""
    error: str = ""
    status: int | None = None
    retry_after: timedelta | None = None
    session_id: str | None = None
    usage: Usage | None = None


def json_lines(read: Callable[[object], None]) -> OnLine:
    """Pass on each line's JSON value; lines that are not JSON are ignored."""

    def on_line(line: bytes) -> None:
        try:
            value = parse_json(line.decode("utf-8", "replace"))
        except NotJson:
            return
        read(value)

    return on_line


def valid_session_id(text: object) -> str | None:
    """The text when it looks like a session id, else None: only such a text may go onto a command line."""
    return text if isinstance(text, str) and _SESSION.fullmatch(text) else None


def tool_line(name: str, *details: str) -> str:
    """One short line about a tool call: the tool and the first detail that is not empty."""
    detail = next(filter(None, details), "")
    return one_line(clean(f"{name}: {detail}" if detail else name), _TOOL)


def result_of(
    output: ParsedOutput, end: Exit, program: Program, request: RunRequest, *, resumed: str | None
) -> RunResult:
    """The answer; raise RunFailed when there is none. `resumed` is the session that the program was to resume."""
    if end.code != 0 or output.error:
        raise RunFailed(_failure(output, end, program, request))
    text = clean(output.answer).strip() or clean(output.last_text).strip()
    if not output.is_complete or not text:
        fault = "gave no answer" if output.is_complete else "ended before its answer was complete"
        dropped = f" (lines too long to be read: {end.dropped_lines})" if end.dropped_lines else ""
        raise RunFailed(Failure(FailureKind.MESSAGE, f"{program.name} {fault}{dropped}.", usage=output.usage))
    if len(text) > request.limits.max_answer:
        reason = (
            f"{program.name} answered with {len(text)} characters, more than the limit {request.limits.max_answer}."
        )
        raise RunFailed(Failure(FailureKind.MESSAGE, reason, usage=output.usage))
    session = output.session_id or resumed
    lost = request.session_id is not None and (resumed is None or session != resumed)
    return RunResult(text, output.usage or Usage(), session, lost_session=lost)


def _failure(output: ParsedOutput, end: Exit, program: Program, request: RunRequest) -> Failure:
    text = clean(output.error) or f"{_exit_code(end.code)}: {end.stderr_tail[-_STDERR:]}".rstrip(": ")
    refusal = ProgramRefusal(text, output.status, end.code, output.retry_after, output.usage)
    return program_failure(refusal, program, (request.endpoint.api_key, request.endpoint.oauth_token))


def _exit_code(code: int) -> str:
    """The code, with the signal that a code above 128 reports for the program's own child."""
    try:
        return f"exit code {code} ({signal.Signals(code - 128).name})"
    except ValueError:
        return f"exit code {code}"
