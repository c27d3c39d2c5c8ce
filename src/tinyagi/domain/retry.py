"""What follows a failed run: another attempt after a pause, a hold of the whole lane, or the end."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final, assert_never

from tinyagi.domain.durations import millis
from tinyagi.domain.messages import Message, Usage
from tinyagi.domain.spending import Charge

LONGEST: Final = timedelta(days=1)


class FailureKind(StrEnum):
    MESSAGE = "message"
    """The run itself failed: exit code, bad answer."""
    UNAVAILABLE = "unavailable"
    """The provider cannot work now: 429, usage limit, authentication, missing program, 5xx."""
    TIMEOUT = "timeout"
    """A limit fired: not worth more than one further try, whatever the earlier ones failed of."""
    CRASH = "crash"
    """The process that held the claim is gone."""


@dataclass(frozen=True, slots=True)
class Failure:
    kind: FailureKind
    reason: str
    retry_after: timedelta | None = None
    needs_person: bool = False
    """It does not mend by itself: a program is missing, a key is wrong."""
    usage: Usage | None = None
    """What the run used before it failed."""
    charge: Charge | None = None
    notice: str | None = None
    """What the sender is told although the message is not dead."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Run it again at this instant; uses an attempt."""

    at: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Back to pending as it was: the lane is held, not the message; uses no attempt."""


@dataclass(frozen=True, slots=True)
class Dead:
    """No further attempt by itself."""


Verdict = Retry | Wait | Dead


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    attempts: int = 5
    timeout_attempts: int = 2
    base: timedelta = timedelta(seconds=2)
    factor: int = 4
    jitter: float = 0.2
    """A pause is stretched or shortened by up to this share, so that many retries do not arrive together."""
    hold_base: timedelta = timedelta(seconds=15)
    hold_cap: timedelta = timedelta(minutes=15)
    delivery_attempts: int = 10
    delivery_cap: timedelta = timedelta(minutes=15)

    def verdict(self, failure: Failure, message: Message, now: int, roll: float) -> Verdict:
        """Decide for one message; `roll` in [0, 1) is the dice of the jitter."""
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
        """The instant until which a lane rests when its provider is unavailable for the n-th time in a row."""
        if failure.retry_after is not None and failure.retry_after > timedelta():
            return now + millis(failure.retry_after)
        return now + min(self._pause(self.hold_base, holds + 1, roll), millis(self.hold_cap))

    def deliver_again_at(self, attempts: int, now: int, roll: float) -> int | None:
        """When to try a response again after its n-th failed delivery, or None when it has failed for good."""
        if attempts >= self.delivery_attempts:
            return None
        return now + min(self._pause(self.base, attempts, roll), millis(self.delivery_cap))

    def _pause(self, base: timedelta, attempt: int, roll: float) -> int:
        # Both are bounded: a large count must not grow into a number the database cannot hold.
        plain = min(millis(base) * float(self.factor) ** min(attempt - 1, 16), millis(LONGEST))
        return round(plain * (1 + self.jitter * (2 * roll - 1)))
