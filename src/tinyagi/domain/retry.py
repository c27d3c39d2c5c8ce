"""The retry policy: after a failed run a message is retried, waits while its lane is held, or is dead."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final, assert_never

from tinyagi.domain.instants import millis
from tinyagi.domain.limits import Charge, Usage
from tinyagi.domain.messages import Message

LONGEST: Final = timedelta(days=1)


class HoldCause(StrEnum):
    """What must change before a held lane can work. The reason beside it is a sentence for people."""

    BUDGET = "budget"
    """A daily budget is used up: a new day or a higher limit."""
    PROVIDER = "provider"
    """The provider refused for a while: time."""
    FIX = "fix"
    """Waiting alone does not help: a program or a key is missing, a model is unknown."""


class FailureKind(StrEnum):
    MESSAGE = "message"
    """The run itself failed: exit code, bad answer."""
    UNAVAILABLE = "unavailable"
    """The provider cannot work now: 429, usage limit, authentication, missing program, 5xx."""
    TIMEOUT = "timeout"
    """A time limit ended the run. `timeout_attempts` counts all earlier attempts, whatever made them fail."""
    CRASH = "crash"
    """The process that held the claim is gone."""


@dataclass(frozen=True, slots=True)
class Failure:
    kind: FailureKind
    reason: str
    retry_after: timedelta | None = None
    needs_person: bool = False
    """Waiting does not help: a program is missing, a key is wrong."""
    usage: Usage | None = None
    """What the run used before it failed."""
    charge: Charge | None = None
    notice: str | None = None
    """A notice to the sender of a message that is not dead."""

    @property
    def hold_cause(self) -> HoldCause:
        return HoldCause.FIX if self.needs_person else HoldCause.PROVIDER


@dataclass(frozen=True, slots=True)
class Retry:
    """Run it again at this instant; uses an attempt."""

    at: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Back to pending, unchanged: the lane is held, not the message. Uses no attempt."""


@dataclass(frozen=True, slots=True)
class Dead:
    """No automatic retry."""


Verdict = Retry | Wait | Dead


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    attempts: int = 5
    timeout_attempts: int = 2
    base: timedelta = timedelta(seconds=2)
    factor: int = 4
    jitter: float = 0.2
    """Each pause varies by up to this share, so that many retries do not arrive together."""
    hold_base: timedelta = timedelta(seconds=15)
    hold_cap: timedelta = timedelta(minutes=15)
    delivery_attempts: int = 10
    delivery_cap: timedelta = timedelta(minutes=15)

    def verdict(self, failure: Failure, message: Message, now: int, roll: float) -> Verdict:
        """Decide what happens to one message; `roll` in [0, 1) sets the jitter."""
        match failure.kind:
            case FailureKind.UNAVAILABLE:
                return Wait()
            case FailureKind.TIMEOUT:
                limit = self.timeout_attempts
            case FailureKind.MESSAGE | FailureKind.CRASH:
                limit = self.attempts
            case _:
                assert_never(failure.kind)
        if message.attempt >= limit:
            return Dead()
        if failure.kind is FailureKind.CRASH:
            return Retry(at=0)
        return Retry(at=now + self._pause(self.base, message.attempt, roll))

    def hold_until(self, failure: Failure, holds: int, now: int, roll: float) -> int:
        """The end of a lane's hold; `holds` counts the holds in a row before this one."""
        if failure.retry_after is not None and failure.retry_after > timedelta():
            return now + millis(failure.retry_after)
        return now + min(self._pause(self.hold_base, holds + 1, roll), millis(self.hold_cap))

    def deliver_again_at(self, attempts: int, now: int, roll: float) -> int | None:
        """When to try a response again after this many failed deliveries, or None when it has failed for good."""
        if attempts >= self.delivery_attempts:
            return None
        return now + min(self._pause(self.base, attempts, roll), millis(self.delivery_cap))

    def _pause(self, base: timedelta, attempt: int, roll: float) -> int:
        # Bound the exponent and the pause: a large count must not become a number the database cannot store.
        plain = min(millis(base) * float(self.factor) ** min(attempt - 1, 16), millis(LONGEST))
        return round(plain * (1 + self.jitter * (2 * roll - 1)))
