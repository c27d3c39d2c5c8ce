"""The provider `scripted`: replies from a script in the workspace, for demos, tests and first steps. Asks nobody."""

import asyncio
import re
from datetime import timedelta
from typing import Final

from tinyagi.domain.messages import Usage
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.texts import clean, one_line
from tinyagi.providers.base import Progress, RunFailed, RunRequest, RunResult
from tinyagi.providers.deadline import Deadline
from tinyagi.providers.script import FILE_NAME, BrokenScript, Reply, read_script

_PLACEHOLDER: Final = re.compile(r"\{(agent|message|attempt)\}")
_HEADER: Final = re.compile(r"\A\[(?:Message from teammate @|Chat room #)[^\]\n]*\]:\n")
_SESSION: Final = re.compile(r"scripted-([1-9][0-9]{0,8})")
_ROUND: Final = str.maketrans("[]", "()")


class Scripted:
    """Answers as `script.toml` says; the script is read for every run, so an edit counts at once."""

    async def run(self, request: RunRequest, progress: Progress) -> RunResult:
        async with Deadline(request.limits) as deadline:
            try:
                script = await asyncio.to_thread(read_script, request.workspace / FILE_NAME)
            except BrokenScript as error:
                raise RunFailed(Failure(FailureKind.MESSAGE, one_line(str(error)))) from error
            reply = _fitting(script or (), request)
            if reply is None:
                return _result(request, _plain(request, has_script=script is not None), _usage(0, 0))
            await _work(reply, request, progress, deadline)
        return _end(reply, request)


def _fitting(script: tuple[Reply, ...], request: RunRequest) -> Reply | None:
    return next((reply for reply in script if reply.fits(request.prompt, request.attempt)), None)


async def _work(reply: Reply, request: RunRequest, progress: Progress, deadline: Deadline) -> None:
    """Take the reply's time, spread over its steps."""
    share = reply.seconds / max(1, len(reply.steps))
    for step in reply.steps:
        progress(_filled(step, request))
        deadline.touch()
        await asyncio.sleep(share)
    if not reply.steps:
        await asyncio.sleep(share)


def _end(reply: Reply, request: RunRequest) -> RunResult:
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
    """The session's id counts its runs, so that resuming can be seen to work."""
    earlier = _SESSION.fullmatch(request.session_id or "")
    number = int(earlier[1]) + 1 if earlier else 1
    lost = request.session_id is not None and earlier is None
    return RunResult(text, usage, session_id=f"scripted-{number}", lost_session=lost)


def _filled(text: str, request: RunRequest) -> str:
    """Put in the placeholders, all in one go: what stands in a message is never one itself."""
    values = {"agent": request.agent, "message": _message(request), "attempt": str(request.attempt)}
    return clean(_PLACEHOLDER.sub(lambda found: values[found[1]], text))


def _message(request: RunRequest) -> str:
    """Return what the agent was told, in round brackets: an answer that repeats it must not become a tag."""
    return _HEADER.sub("", request.prompt).strip().translate(_ROUND)


def _plain(request: RunRequest, *, has_script: bool) -> str:
    cause = f"no reply in its {FILE_NAME} fits" if has_script else f"there is no {FILE_NAME} in its workspace"
    return clean(
        f"@{request.agent} uses the scripted provider, which asks no model, and {cause}. "
        f"It was told: “{one_line(_message(request), 200)}”\n\n"
        "For real answers set this agent's `provider` in settings.json to anthropic, openai, opencode or api. "
        f"To have it play a part, write the part into {FILE_NAME}."
    )
