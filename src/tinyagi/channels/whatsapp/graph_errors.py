"""What the Graph API answers when it refuses, as sentences with a remedy."""

from dataclasses import dataclass
from typing import Final

import httpx
import msgspec

from tinyagi.channels.port import ChannelError, DeliveryError, NotSetUp

LONGEST_WAIT: Final = 3_600.0
_TOKEN: Final = frozenset({0, 190})
_PERMISSION: Final = frozenset({3, 10, 131005, *range(200, 300)})
_LOGIN_REMEDY: Final = (
    "WhatsApp refuses the access token. Generate one for a system user that never expires, and set access_token."
)
_PERMISSION_REMEDY: Final = (
    "WhatsApp does not let this access token use the number. "
    "Give its system user the app and the permission whatsapp_business_messaging."
)
_NUMBER_REMEDY: Final = (
    "WhatsApp does not know this phone_number_id, or the access token may not see it. "
    "Take the ID, not the number, from the page API Setup."
)
_FINAL: Final = {
    131021: "The answer goes to the business's own number. Write from another number.",
    131026: "WhatsApp cannot deliver to this person: the number is not on WhatsApp, has blocked the business, or has "
    "not accepted WhatsApp's terms.",
    131030: "This number is not among the allowed recipients of the test number. "
    "Add it on the page API Setup, or use a number of your own.",
    131047: "The person wrote more than 24 hours ago, and WhatsApp delivers a business's answers only within 24 hours. "
    "They get answers again as soon as they write.",
    131049: "WhatsApp did not deliver this, to limit what businesses send to this person.",
    131050: "The person has stopped messages of this business.",
    131051: "WhatsApp does not know this kind of message.",
}
_WAITS: Final = {4: 300.0, 613: 60.0, 80007: 300.0, 130429: 10.0, 131048: 3_600.0, 131056: 10.0, 133016: 3_600.0}
"""Codes of limits, with a wait for answers that name none."""
_ACCOUNT: Final = {
    368: "WhatsApp has restricted the business account for breaking its rules. See WhatsApp Manager.",
    131031: "WhatsApp has locked the business account. See WhatsApp Manager.",
    131042: "WhatsApp wants a valid way to pay for the business account. See the billing settings.",
    133010: "The number is not registered with the Cloud API. Register it on the page API Setup.",
}
_REFUSED_TEXT: Final = frozenset({100, 131008, 131009, 131052, 131053})


class _Data(msgspec.Struct):
    details: str = ""


class ErrorBody(msgspec.Struct):
    """An error in an answer or in a status."""

    code: int = -1
    message: str = ""
    title: str = ""
    error_data: _Data | None = None

    @property
    def details(self) -> str:
        given = (self.error_data.details if self.error_data else "") or self.message or self.title
        return " ".join(given.split())[:300]


class _Answer(msgspec.Struct):
    error: ErrorBody


class _Usage(msgspec.Struct):
    estimated_time_to_regain_access: float = 0.0
    """In minutes."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that is not a success."""

    status: int
    error: ErrorBody
    wait: float | None

    @classmethod
    def of(cls, answer: httpx.Response, token: str) -> "Refusal":
        """Parse an answer whose body was read; the token never gets into a sentence."""
        try:
            error = msgspec.json.decode(answer.content, type=_Answer).error
        except (msgspec.DecodeError, UnicodeDecodeError):
            error = ErrorBody()
        if token in error.details:
            error = ErrorBody(code=error.code)
        return cls(answer.status_code, error, _wait(answer.headers))


def delivery_error(refusal: Refusal) -> DeliveryError:
    """Why a part was not delivered."""
    code, details = refusal.error.code, refusal.error.details
    if code in _WAITS or refusal.status == 429:
        wait = refusal.wait if refusal.wait is not None else _WAITS.get(code, 30.0)
        return DeliveryError("WhatsApp limits how much this number may send now.", retry_after=wait)
    if code in _FINAL:
        return DeliveryError(_FINAL[code], is_final=True)
    if remedy := _remedy(refusal):
        return DeliveryError(remedy)
    if code in _REFUSED_TEXT and refusal.status < 500:
        return DeliveryError(f"WhatsApp refuses this message: {details or code}", is_final=True)
    return DeliveryError(f"WhatsApp answered {refusal.status}: {details or 'no reason given'}")


def _remedy(refusal: Refusal) -> str | None:
    """What the owner has to do before any message can go out; None when this is not the reason."""
    code = refusal.error.code
    if code in _TOKEN or refusal.status == 401:
        return _LOGIN_REMEDY
    return _PERMISSION_REMEDY if code in _PERMISSION else _ACCOUNT.get(code)


def connect_error(refusal: Refusal) -> ChannelError:
    """Why the channel cannot start."""
    code = refusal.error.code
    if remedy := _remedy(refusal):
        return NotSetUp(remedy)
    if code in {33, 100} or refusal.status == 404:
        return NotSetUp(_NUMBER_REMEDY)
    return ChannelError(str(delivery_error(refusal)))


def status_sentence(errors: list[ErrorBody]) -> str:
    """Why WhatsApp could not deliver what it had accepted."""
    if not errors:
        return "WhatsApp gives no reason."
    error = errors[0]
    return _FINAL.get(error.code) or _ACCOUNT.get(error.code) or f"{error.details or 'no reason given'} ({error.code})"


def _wait(headers: httpx.Headers) -> float | None:
    """The wait that an answer names, in seconds."""
    after = headers.get("retry-after", "")
    if after.isascii() and after.isdigit():
        return min(float(after), LONGEST_WAIT)
    try:
        usage = msgspec.json.decode(headers.get("x-business-use-case-usage", "{}"), type=dict[str, list[_Usage]])
    except msgspec.DecodeError:
        return None
    minutes = max((one.estimated_time_to_regain_access for uses in usage.values() for one in uses), default=0.0)
    return min(minutes * 60, LONGEST_WAIT) if minutes > 0 else None
