"""How an endpoint says no: read from a status, a body or an error in the stream, and classed for the queue."""

import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from tinyagi.domain.errors import TinyAGIError
from tinyagi.domain.retry import LONGEST, Failure, FailureKind
from tinyagi.domain.texts import one_line
from tinyagi.providers.wires.fields import NotJson, at, parse, text_at

_SECONDS: Final = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)

# Said with all kinds of status, so the word counts and not the number.
_DECISIVE: Final = {
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
# Where there is no number: inside a stream that began with 200.
_WORDS: Final = {
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
# Anthropic tells an empty account and a spend limit that the owner set as plain bad requests.
_PAYMENT: Final = ("credit balance is too low", "api usage limits")
_LATER: Final = frozenset({408, 409, 423, 425, 429})
_WRONG_ADDRESS: Final = frozenset({404, 405, 410})


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the endpoint said, in its own words."""

    status: int | None
    words: frozenset[str]
    """Its names for the kind of error."""
    message: str
    retry_after: timedelta | None = None
    body: str = ""
    """All of it, for what the message leaves out."""

    @property
    def kind(self) -> int | None:
        """The status that says what it is; None when nobody knows."""
        for table in (_DECISIVE, _WORDS if self.status is None else {}):
            for word, status in table.items():
                if word in self.words:
                    return status
        if self.status == 400 and any(sign in self.message.lower() for sign in _PAYMENT):
            return 402
        return self.status

    @property
    def is_about_the_request(self) -> bool:
        return self.kind in {400, 422}


class Refused(TinyAGIError):
    """The endpoint said no."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__("the endpoint refused the request")
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class Target:
    """The endpoint as a reason may name it."""

    address: str
    key_name: str
    """The setting that holds the key, in words."""
    model: str
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def masked(self, text: str) -> str:
        """Return the text for a reason: no secret, whoever repeats it, and one line."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return one_line(text)


def refusal_of_body(status: int, body: str, retry_after: timedelta | None = None) -> Refusal:
    """Read the body of an answer that is an error."""
    try:
        value = parse(body)
    except NotJson:
        # A page for a browser says less than its status.
        message = "" if body.lstrip().startswith("<") else body
        return Refusal(status, frozenset(), message, retry_after, body)
    if isinstance(value, list):
        value = at(value, 0)
    refusal = refusal_of_error(at(value, "error") or value, status)
    return replace(refusal, retry_after=retry_after, body=body)


def refusal_of_error(error: object, status: int | None = None) -> Refusal:
    """Read an error object, or the plain text that stands for one."""
    if isinstance(error, str):
        return Refusal(status, frozenset(), error)
    places = (("type",), ("code",), ("status",), ("details", "error_code"))
    words = frozenset(text_at(error, *place) for place in places) - {""}
    told = at(error, "code")
    if status is None and type(told) is int and 400 <= told <= 599:
        status = told
    message = text_at(error, "message") or text_at(error, "detail") or text_at(error, "detail", 0, "msg")
    return Refusal(status, words, message or ", ".join(sorted(words)))


def retry_after(header: str | None, now_ms: int) -> timedelta | None:
    """Read seconds or an HTTP date; None when there is nothing to go by, and never longer than a day."""
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


def failure_of(refusal: Refusal, target: Target) -> Failure:
    """Class a refusal: does it mend by itself, does it need a person, or is it this message?"""
    where, status = target.address, refusal.kind
    said = ": ".join(part for part in (str(refusal.status or ""), target.masked(refusal.message)) if part)
    told = f" ({said})" if said else ""
    if status is None:
        return Failure(FailureKind.MESSAGE, f"{where} broke off with an error{told}")
    if remedy := _remedy(status, told, target):
        return Failure(FailureKind.UNAVAILABLE, f"{where} {remedy}", needs_person=True)
    if status in _LATER or status >= 500:
        reason = f"{where} is not available now{told}"
        return Failure(FailureKind.UNAVAILABLE, reason, retry_after=refusal.retry_after)
    return Failure(FailureKind.MESSAGE, f"{where} refused the request{told}")


def _remedy(status: int, told: str, target: Target) -> str:
    """What a person has to do; empty when it mends by itself or lies with the message."""
    if status in {401, 403}:
        return f"refused the key{told}. Check {target.key_name}"
    if status == 402:
        return f"wants to be paid{told}. Top up that account or raise its limit"
    if status in _WRONG_ADDRESS:
        model = target.masked(target.model) or "without a name"
        return f"does not know the model {model}{told}. Check the agent's model and base_url"
    if status < 400:
        return f"points elsewhere{told}. Set base_url to the address that answers"
    return ""
