"""Classes what a command-line program says when it fails: does it mend by itself, does it need a person, or neither?"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tinyagi.domain.messages import Usage
from tinyagi.domain.retry import LONGEST, Failure, FailureKind
from tinyagi.domain.texts import one_line
from tinyagi.providers.spawning import Program

_LONGEST_REASON: Final = 500

# Programs word the same thing anew with every version, so a status is looked for first, and words only without one.
_STATUS: Final = re.compile(r"(?:status(?: code)?|error|rejected|http(?:/[\d.]+)?)\W{0,3}(\d{3})\b", re.IGNORECASE)
_LOG_IN: Final = re.compile(
    r"not logged in|log ?in again|/login|(?:invalid|incorrect|missing) (?:x-)?api.key|authentication|unauthorized"
    r"|oauth token|token (?:has )?expired|no \w* ?credentials|missing environment variable",
    re.IGNORECASE,
)
_OWNER: Final = re.compile(
    r"credit balance|insufficient_quota|plan and billing|billing_error|account_on_hold|verification_required"
    r"|org_not_allowed|model_?not_?found|root/sudo privileges",
    re.IGNORECASE,
)
_LATER: Final = re.compile(
    r"rate.?limit|usage limit|hit your .{0,40}limit|too many requests|overloaded|high demand|at capacity"
    r"|(?:temporarily|service) unavailable|bad gateway|gateway time-?out|server.error|stream disconnected"
    r"|econn(?:refused|reset)|enotfound|etimedout|eai_again|connection (?:refused|reset|failed|error|closed)"
    r"|unable to connect|fetch failed|waiting for network|failed to lookup address",
    re.IGNORECASE,
)
_LATER_STATUS: Final = frozenset({408, 409, 423, 425, 429})
_NOT_RUNNABLE: Final = frozenset({126, 127})
"""What a shell or `env` exits with when the program it should start is not there."""

_WAIT: Final = re.compile(
    r"(?:try again|retry|resets?)[ -](?:in|after):?\s+"
    r"((?:\d+(?:\.\d+)?\s*(?:ms|milliseconds?|days?|hours?|hrs?|minutes?|mins?|seconds?|secs?|[dhms])\b(?:,|\s|and)*)+)",
    re.IGNORECASE,
)
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milli|[dhms])", re.IGNORECASE)
_UNITS: Final = {
    "ms": timedelta(milliseconds=1),
    "milli": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """What is known of a failure: the program's words, and what it told besides."""

    text: str
    status: int | None = None
    """Of the endpoint that the program asked, when it says so."""
    code: int | None = None
    """Of the program itself."""
    retry_after: timedelta | None = None
    usage: Usage | None = None


def failure_of(refusal: Refusal, program: Program, secrets: Iterable[str | None] = ()) -> Failure:
    """Class it; the reason keeps the program's own words, without the secrets."""
    text = refusal.text
    for secret in filter(None, secrets):
        text = text.replace(secret, "***")
    status = refusal.status or _status_in(text)
    reason = f"{program.name}: {one_line(text, _LONGEST_REASON)}"
    if status in {401, 403} or (status is None and _LOG_IN.search(text)):
        reason = f"{reason} — {program.log_in}"
        return Failure(FailureKind.UNAVAILABLE, reason, needs_person=True, usage=refusal.usage)
    if status in {402, 404} or _OWNER.search(text):
        return Failure(FailureKind.UNAVAILABLE, reason, needs_person=True, usage=refusal.usage)
    if refusal.code in _NOT_RUNNABLE:
        reason = f"{reason} — install it with `{program.install}`, or what it needs"
        return Failure(FailureKind.UNAVAILABLE, reason, needs_person=True, usage=refusal.usage)
    if _is_for_later(status, text):
        wait = refusal.retry_after or wait_in(text)
        return Failure(FailureKind.UNAVAILABLE, reason, retry_after=wait, usage=refusal.usage)
    return Failure(FailureKind.MESSAGE, reason, usage=refusal.usage)


def wait_in(text: str) -> timedelta | None:
    """The time that a text asks to wait, as in "try again in 1 hour 5 minutes"; never longer than a day."""
    found = _WAIT.search(text)
    if found is None:
        return None
    parts = _PART.findall(found[1])
    return min(sum((min(float(size), 1e6) * _UNITS[unit.lower()] for size, unit in parts), timedelta()), LONGEST)


def _is_for_later(status: int | None, text: str) -> bool:
    if status is None:
        return _LATER.search(text) is not None
    return status in _LATER_STATUS or status >= 500


def _status_in(text: str) -> int | None:
    found = _STATUS.search(text)
    return int(found[1]) if found is not None and 400 <= int(found[1]) <= 599 else None
