"""What a program's output amounts to: heard line by line, and at its end an answer or a failure."""

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tinyagi.domain.messages import Usage
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.texts import clean, one_line
from tinyagi.providers.base import RunFailed, RunRequest, RunResult
from tinyagi.providers.pipes import OnLine
from tinyagi.providers.process import Exit
from tinyagi.providers.refusals import Refusal, failure_of
from tinyagi.providers.spawning import Program
from tinyagi.providers.wires.fields import NotJson, at, parse

_SESSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_STDERR: Final = 400
_MOST: Final = 1e9
_TOOL: Final = 120


@dataclass(slots=True)
class Heard:
    """Filled while the program speaks; each program's own reader knows from which lines."""

    answer: str = ""
    """What the program calls its answer."""
    last_said: str = ""
    """The agent's last words, in case the answer is empty."""
    is_complete: bool = False
    """The program said that its turn is over."""
    error: str = ""
    status: int | None = None
    retry_after: timedelta | None = None
    session_id: str | None = None
    usage: Usage | None = None


def json_lines(take: Callable[[object], None]) -> OnLine:
    """Hand on each line's JSON; whatever else a program prints is of no interest."""

    def on_line(line: bytes) -> None:
        try:
            value = parse(line.decode("utf-8", "replace"))
        except NotJson:
            return
        take(value)

    return on_line


def session_in(text: object) -> str | None:
    """A session id as programs make them: what is none is never put on a command line."""
    return text if isinstance(text, str) and _SESSION.fullmatch(text) else None


def amount_at(value: object, *path: str | int) -> float:
    """An amount of money; 0 for what cannot be one, which no sum must meet."""
    found = at(value, *path)
    return float(found) if isinstance(found, float | int) and 0 <= found < _MOST else 0.0


def tool_line(name: str, *details: str) -> str:
    """One short line about a tool call: the tool, and the first detail that there is."""
    detail = next(filter(None, details), "")
    return one_line(clean(f"{name}: {detail}" if detail else name), _TOOL)


def conclude(heard: Heard, end: Exit, program: Program, request: RunRequest, *, resumed: str | None) -> RunResult:
    """The answer; raise RunFailed when there is none. `resumed` is the session that the program was told to resume."""
    if end.code != 0 or heard.error:
        raise RunFailed(_failure(heard, end, program, request))
    text = clean(heard.answer).strip() or clean(heard.last_said).strip()
    if not heard.is_complete or not text:
        fault = "gave no answer" if heard.is_complete else "ended before its answer was complete"
        left_out = f" (lines too long to be read: {end.left_out})" if end.left_out else ""
        raise RunFailed(Failure(FailureKind.MESSAGE, f"{program.name} {fault}{left_out}.", usage=heard.usage))
    if len(text) > request.limits.max_answer:
        reason = (
            f"{program.name} answered with {len(text)} characters, more than the limit {request.limits.max_answer}."
        )
        raise RunFailed(Failure(FailureKind.MESSAGE, reason, usage=heard.usage))
    session = heard.session_id or resumed
    lost = request.session_id is not None and (resumed is None or session != resumed)
    return RunResult(text, heard.usage or Usage(), session, lost_session=lost)


def _failure(heard: Heard, end: Exit, program: Program, request: RunRequest) -> Failure:
    text = clean(heard.error) or f"{_words(end.code)}: {end.stderr_tail[-_STDERR:]}".rstrip(": ")
    refusal = Refusal(text, heard.status, end.code, heard.retry_after, heard.usage)
    return failure_of(refusal, program, (request.endpoint.api_key, request.endpoint.oauth_token))


def _words(code: int) -> str:
    """A program that starts others tells their death by a signal as 128 and the signal's number."""
    try:
        return f"exit code {code} ({signal.Signals(code - 128).name})"
    except ValueError:
        return f"exit code {code}"
