"""The provider `scripted`: replies from a script in the workspace, for demos, tests and first steps. Calls no model."""

import asyncio
import re
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import msgspec

from tinyagi.domain.errors import TinyAGIError
from tinyagi.domain.limits import Usage
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.routing import DIRECTED
from tinyagi.domain.texts import clean, one_line
from tinyagi.providers.base import Deadline, OnProgress, RunFailed, RunRequest, RunResult

_PLACEHOLDER: Final = re.compile(r"\{(agent|message|attempt)\}")
_HEADER: Final = re.compile(r"\A\[(?:Message from teammate @|Chat room #)[^\]\n]*\]:\n")
_SESSION: Final = re.compile(r"scripted-([1-9][0-9]{0,8})")
_ROUND: Final = str.maketrans("[]", "()")

FILE_NAME: Final = "script.toml"

_MAX_FILE: Final = 1_048_576
_MAX_PATTERN: Final = 1_000
_SEARCHED: Final = 20_000
"""Characters of a prompt that a pattern searches: a slow pattern must not block the daemon for long."""

_DAY: Final = 86_400
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=_DAY)]
_Tokens = Annotated[int, msgspec.Meta(ge=0, le=10**12)]


class Scripted:
    """Answers from `script.toml`; the script is read for every run, so an edit counts at once."""

    keeps_sessions: Final = True

    async def run(self, request: RunRequest, progress: OnProgress) -> RunResult:
        async with Deadline(request.limits) as deadline:
            try:
                script = await asyncio.to_thread(read_script, request.workspace / FILE_NAME)
            except ScriptError as error:
                raise RunFailed(Failure(FailureKind.MESSAGE, one_line(str(error)))) from error
            reply = _matching(script or (), request)
            if reply is None:
                return _result(request, _plain(request, has_script=script is not None), _usage(0, 0))
            await _work(reply, request, progress, deadline)
        return _end(reply, request)


class ScriptReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One `[[reply]]` table: when it matches, its steps, and exactly one way to end."""

    when: Annotated[str, msgspec.Meta(max_length=_MAX_PATTERN)] | None = None
    attempts: list[Annotated[int, msgspec.Meta(ge=1)]] | None = None
    say: str | None = None
    fail: str | None = None
    unavailable: str | None = None
    retry_after_seconds: _Seconds | None = None
    steps: list[str] = []
    seconds: _Seconds = 0.0
    input_tokens: _Tokens = 0
    output_tokens: _Tokens = 0
    cost: Annotated[float, msgspec.Meta(ge=0, le=10**9)] | None = None

    def matches(self, prompt: str, attempt: int) -> bool:
        if self.attempts is not None and attempt not in self.attempts:
            return False
        return self.when is None or re.search(self.when, prompt[:_SEARCHED]) is not None


def _matching(script: tuple[ScriptReply, ...], request: RunRequest) -> ScriptReply | None:
    return next((reply for reply in script if reply.matches(request.prompt, request.attempt)), None)


async def _work(reply: ScriptReply, request: RunRequest, progress: OnProgress, deadline: Deadline) -> None:
    """Take the reply's time, spread over its steps."""
    share = reply.seconds / max(1, len(reply.steps))
    for step in reply.steps:
        progress(_filled(step, request))
        deadline.touch()
        await asyncio.sleep(share)
    if not reply.steps:
        await asyncio.sleep(share)


def _end(reply: ScriptReply, request: RunRequest) -> RunResult:
    usage = _usage(reply.input_tokens, reply.output_tokens, reply.cost)
    if reply.fail is not None:
        raise RunFailed(Failure(FailureKind.MESSAGE, _filled(reply.fail, request), usage=usage))
    if reply.unavailable is not None:
        pause = None if reply.retry_after_seconds is None else timedelta(seconds=reply.retry_after_seconds)
        reason = _filled(reply.unavailable, request)
        raise RunFailed(Failure(FailureKind.UNAVAILABLE, reason, retry_after=pause, usage=usage))
    return _result(request, _filled(reply.say or "", request), usage)


def _usage(input_tokens: int, output_tokens: int, cost: float | None = None) -> Usage:
    return Usage(input_tokens, output_tokens, cost=cost, provider="scripted", model="script")


def _result(request: RunRequest, text: str, usage: Usage) -> RunResult:
    """The session's id counts its runs, which makes resuming visible."""
    earlier = _SESSION.fullmatch(request.session_id or "")
    number = int(earlier[1]) + 1 if earlier else 1
    lost = request.session_id is not None and earlier is None
    return RunResult(text, usage, session_id=f"scripted-{number}", lost_session=lost)


def _filled(text: str, request: RunRequest) -> str:
    """Fill the placeholders in one pass, so that a placeholder inside a message stays as it is."""
    values = {"agent": request.agent, "message": _message(request), "attempt": str(request.attempt)}
    return clean(_PLACEHOLDER.sub(lambda found: values[found[1]], text))


def _message(request: RunRequest) -> str:
    """Return the request with round brackets for square ones: an answer that repeats it must not contain a tag."""
    text = _HEADER.sub("", request.prompt)
    # A teammate's text for the whole team comes before its request to this agent.
    return text.rpartition(DIRECTED)[2].strip().translate(_ROUND)


def _plain(request: RunRequest, *, has_script: bool) -> str:
    quote = f"You wrote: “{one_line(_message(request), 200)}”"
    if has_script:
        return clean(
            f"No reply in the script of @{request.agent} matches. {quote}\n\n"
            f"The script is {request.workspace / FILE_NAME}"
        )
    return clean(
        f"Hello from @{request.agent}. No model is connected yet, so I can only repeat what I read. {quote}\n\n"
        f"Connect a model: tinyagi setup\nOr write a script for me: {request.workspace / FILE_NAME}"
    )


class ScriptError(TinyAGIError):
    """The script cannot be used; the message names the place in it."""


# msgspec builds its data for a class on first use, and the process crashes when several threads do that at once. Agents
# read their scripts in threads, so the first use happens here, at import.
msgspec.convert({}, ScriptReply)


def read_script(path: Path) -> tuple[ScriptReply, ...] | None:
    """Return the replies in order, or None when there is no script; raise ScriptError when it is invalid."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ScriptError(f"{path.name} cannot be read: {error.strerror}") from error
    if len(content) > _MAX_FILE:
        raise ScriptError(f"{path.name} is larger than {_MAX_FILE:,} bytes")
    try:
        tables = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise ScriptError(f"{path.name} is not valid TOML: {error}") from error
    return _replies(tables, path.name)


def _replies(tables: dict[str, object], name: str) -> tuple[ScriptReply, ...]:
    replies = tables.pop("reply", [])
    if tables:
        raise ScriptError(f"{name} has an unknown key {next(iter(tables))!r}: it is a list of [[reply]] tables")
    if not isinstance(replies, list):
        raise ScriptError(f"{name} has a single [reply] table: write [[reply]]")
    return tuple(_reply(table, f"{name}, reply {number}") for number, table in enumerate(replies, 1))


def _reply(table: object, place: str) -> ScriptReply:
    try:
        reply = msgspec.convert(table, ScriptReply)
        re.compile(reply.when or "")
    except msgspec.ValidationError as error:
        raise ScriptError(f"{place}: {error}") from error
    except (re.error, RecursionError, OverflowError) as error:
        raise ScriptError(f"{place}: `when` is not a regular expression: {error}") from error
    if sum(end is not None for end in (reply.say, reply.fail, reply.unavailable)) != 1:
        raise ScriptError(f"{place}: give exactly one of `say`, `fail` and `unavailable`")
    if reply.retry_after_seconds is not None and reply.unavailable is None:
        raise ScriptError(f"{place}: `retry_after_seconds` goes with `unavailable`")
    return reply
