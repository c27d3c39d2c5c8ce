"""Classifies the refusals of programs and endpoints, by exit, status and error body: retry later, ask a person, or fail
the message.

The order of the checks differs between programs and endpoints on purpose.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from tinyagi.domain.errors import TinyAGIError
from tinyagi.domain.limits import Usage
from tinyagi.domain.retry import LONGEST, Failure, FailureKind
from tinyagi.domain.texts import one_line
from tinyagi.providers.json_fields import NotJson, json_at, parse_json, text_at
from tinyagi.providers.process import Program

_LONGEST_REASON: Final = 500

# Programs change their wording with every version, so a status counts first, and words count only without one.
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
_TEMPORARY: Final = re.compile(
    r"rate.?limit|usage limit|hit your .{0,40}limit|too many requests|overloaded|high demand|at capacity"
    r"|(?:temporarily|service) unavailable|bad gateway|gateway time-?out|server.error|stream disconnected"
    r"|econn(?:refused|reset)|enotfound|etimedout|eai_again|connection (?:refused|reset|failed|error|closed)"
    r"|unable to connect|fetch failed|waiting for network|failed to lookup address",
    re.IGNORECASE,
)
_TEMPORARY_STATUS: Final = frozenset({408, 409, 423, 425, 429})
_NOT_RUNNABLE: Final = frozenset({126, 127})
"""Exit codes of a shell or `env` when the program to start is missing."""

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

_SECONDS: Final = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)

# These words come with various statuses, so the word decides and not the status.
_STATUS_BY_WORD: Final = {
    "insufficient_quota": 402,
    "credit_balance_exhausted": 402,
    "billing_hard_limit_reached": 402,
    "enforced_spend_limit_reached": 402,
    "billing_error": 402,
    "invalid_api_key": 401,
    "authentication_error": 401,
    "permission_error": 403,
    "model_not_found": 404,
    "not_found_error": 404,
}
# For errors without a status: inside a stream that started with 200.
_STATUS_IN_STREAM: Final = {
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "overloaded_error": 529,
    "server_is_overloaded": 503,
    "service_unavailable_error": 503,
    "slow_down": 503,
    "server_error": 500,
    "api_error": 500,
    "timeout_error": 504,
    "invalid_request_error": 400,
    "request_too_large": 413,
}
# Anthropic reports an empty account and a spend limit of the owner as plain bad requests.
_PAYMENT: Final = ("credit balance is too low", "api usage limits")
UNKNOWN_MODEL: Final = "does not know the model"
REFUSED_KEY: Final = "refused the key"
CHECK_KEY: Final = ". Check "
"""Precedes the name of the key's setting at the end of the reason."""
_WRONG_ADDRESS: Final = frozenset({404, 405, 410})


@dataclass(frozen=True, slots=True)
class ProgramRefusal:
    """A program's failure: its text, and the details that it reported."""

    text: str
    status: int | None = None
    """The status of the endpoint that the program called, when known."""
    code: int | None = None
    """The exit code of the program."""
    retry_after: timedelta | None = None
    usage: Usage | None = None


def program_failure(refusal: ProgramRefusal, program: Program, secrets: Iterable[str | None] = ()) -> Failure:
    """Classify the refusal; the reason keeps the program's text, without the secrets."""
    text = _masked(refusal.text, filter(None, secrets))
    status = refusal.status or _status_in(text)
    reason = f"{program.name}: {one_line(text, _LONGEST_REASON)}"
    if status in {401, 403} or (status is None and _LOG_IN.search(text)):
        reason = f"{reason} — {program.log_in}"
        return Failure(FailureKind.UNAVAILABLE, reason, needs_person=True, usage=refusal.usage)
    if status in {402, 404} or _OWNER.search(text):
        return Failure(FailureKind.UNAVAILABLE, reason, needs_person=True, usage=refusal.usage)
    if refusal.code in _NOT_RUNNABLE:
        reason = f"{reason} — install it with `{program.install}`, or install what it depends on"
        return Failure(FailureKind.UNAVAILABLE, reason, needs_person=True, usage=refusal.usage)
    if _TEMPORARY.search(text) if status is None else _is_temporary(status):
        wait = refusal.retry_after or wait_in(text)
        return Failure(FailureKind.UNAVAILABLE, reason, retry_after=wait, usage=refusal.usage)
    return Failure(FailureKind.MESSAGE, reason, usage=refusal.usage)


def wait_in(text: str) -> timedelta | None:
    """The wait that a text asks for, as in "try again in 1 hour 5 minutes"; at most a day."""
    found = _WAIT.search(text)
    if found is None:
        return None
    parts = _PART.findall(found[1])
    return min(sum((min(float(size), 1e6) * _UNITS[unit.lower()] for size, unit in parts), timedelta()), LONGEST)


def _is_temporary(status: int) -> bool:
    return status in _TEMPORARY_STATUS or status >= 500


def _masked(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def _status_in(text: str) -> int | None:
    found = _STATUS.search(text)
    return int(found[1]) if found is not None and 400 <= int(found[1]) <= 599 else None


@dataclass(frozen=True, slots=True)
class EndpointRefusal:
    """The endpoint's error, in its own words."""

    status: int | None
    words: frozenset[str]
    """The endpoint's names for the kind of error."""
    message: str
    retry_after: timedelta | None = None
    body: str = ""
    """The whole body, for details that the message leaves out."""

    @property
    def kind(self) -> int | None:
        """The status that classifies the error; None when it is unknown."""
        for table in (_STATUS_BY_WORD, _STATUS_IN_STREAM if self.status is None else {}):
            for word, status in table.items():
                if word in self.words:
                    return status
        if self.status == 400 and any(sign in self.message.lower() for sign in _PAYMENT):
            return 402
        return self.status

    @property
    def is_about_the_request(self) -> bool:
        return self.kind in {400, 422}


class EndpointRefused(TinyAGIError):
    """The endpoint refused the request."""

    def __init__(self, refusal: EndpointRefusal) -> None:
        super().__init__("the endpoint refused the request")
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class EndpointInfo:
    """The endpoint as failure reasons name it."""

    address: str
    key_name: str
    """The setting that holds the key, as a phrase."""
    model: str
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def masked(self, text: str) -> str:
        """Return the text for a reason: on one line and without secrets that an endpoint may echo."""
        return one_line(_masked(text, self.secrets))


def refusal_of_body(status: int, body: str, retry_after: timedelta | None = None) -> EndpointRefusal:
    """Read the body of an error response."""
    try:
        value = parse_json(body)
    except NotJson:
        # An HTML page says less than its status.
        message = "" if body.lstrip().startswith("<") else body
        return EndpointRefusal(status, frozenset(), message, retry_after, body)
    if isinstance(value, list):
        value = json_at(value, 0)
    refusal = refusal_of_error(json_at(value, "error") or value, status)
    return replace(refusal, retry_after=retry_after, body=body)


def refusal_of_error(error: object, status: int | None = None) -> EndpointRefusal:
    """Read an error object, or a plain text in its place."""
    if isinstance(error, str):
        return EndpointRefusal(status, frozenset(), error)
    places = (("type",), ("code",), ("status",), ("details", "error_code"))
    words = frozenset(text_at(error, *place) for place in places) - {""}
    code = json_at(error, "code")
    if status is None and type(code) is int and 400 <= code <= 599:
        status = code
    message = text_at(error, "message") or text_at(error, "detail") or text_at(error, "detail", 0, "msg")
    return EndpointRefusal(status, words, message or ", ".join(sorted(words)))


def retry_after(header: str | None, now_ms: int) -> timedelta | None:
    """Read seconds or an HTTP date, at most a day; None when the header is missing or invalid."""
    value = (header or "").strip()
    if _SECONDS.fullmatch(value):
        return min(timedelta(seconds=float(value)), LONGEST)
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    wait = moment - datetime.fromtimestamp(now_ms / 1000, UTC)
    return min(max(wait, timedelta()), LONGEST)


def endpoint_failure(refusal: EndpointRefusal, target: EndpointInfo) -> Failure:
    """Classify a refusal: temporary, in need of a person, or caused by this message."""
    where, status = target.address, refusal.kind
    parts = [part for part in (str(refusal.status or ""), target.masked(refusal.message)) if part]
    detail = f" ({': '.join(parts)})" if parts else ""
    if status is None:
        return Failure(FailureKind.MESSAGE, f"{where} ended its answer with an error{detail}")
    if remedy := _remedy(status, detail, target):
        return Failure(FailureKind.UNAVAILABLE, f"{where} {remedy}", needs_person=True)
    if _is_temporary(status):
        reason = f"{where} is not available now{detail}"
        return Failure(FailureKind.UNAVAILABLE, reason, retry_after=refusal.retry_after)
    return Failure(FailureKind.MESSAGE, f"{where} refused the request{detail}")


def _remedy(status: int, detail: str, target: EndpointInfo) -> str:
    """The problem and its remedy when a person has to act; empty for any other failure."""
    if status in {401, 403}:
        return f"{REFUSED_KEY}{detail}{CHECK_KEY}{target.key_name}"
    if status == 402:
        return f"requires payment{detail}. Top up that account or raise its limit"
    if status in _WRONG_ADDRESS:
        model = target.masked(target.model) or "without a name"
        return f"{UNKNOWN_MODEL} {model}{detail}. Check the agent's model and base_url"
    if status < 400:
        return f"redirects to another address{detail}. Set base_url to the address that answers"
    return ""
