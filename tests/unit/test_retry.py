"""The retry policy: back-off, holds, and when a message or response fails for good."""

from datetime import timedelta
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.builders import a_message
from tinyagi.domain.retry import Dead, Failure, FailureKind, Retry, RetryPolicy, Verdict, Wait

POLICY: Final = RetryPolicy()
NOW: Final = 1_700_000_000_000
MIDDLE: Final = 0.5
"""The roll without jitter."""
QUARTER_HOUR: Final = 15 * 60 * 1000
LARGEST_INTEGER: Final = 2**63 - 1
"""The largest integer that the database holds."""

instants = st.integers(min_value=0, max_value=2**42)
rolls = st.floats(min_value=0, max_value=1, exclude_max=True)
large_counts = st.integers(min_value=1, max_value=10**9)


def verdict(kind: FailureKind, attempt: int, roll: float = MIDDLE, policy: RetryPolicy = POLICY) -> Verdict:
    return policy.verdict(Failure(kind, "exit code 1"), a_message(retry_count=attempt - 1), NOW, roll)


def unavailable(retry_after: timedelta | None = None) -> Failure:
    return Failure(FailureKind.UNAVAILABLE, "usage limit", retry_after)


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 2), (2, 8), (3, 32), (4, 128)])
def test_each_pause_is_four_times_the_one_before(attempt: int, seconds: int) -> None:
    assert verdict(FailureKind.MESSAGE, attempt) == Retry(at=NOW + seconds * 1000)


@given(attempt=st.integers(min_value=1, max_value=4), roll=rolls, now=instants)
def test_the_jitter_moves_a_pause_by_a_fifth_at_most(attempt: int, roll: float, now: int) -> None:
    failure = Failure(FailureKind.MESSAGE, "exit code 1")
    decided = POLICY.verdict(failure, a_message(retry_count=attempt - 1), now, roll)
    assert isinstance(decided, Retry)
    plain = 2_000 * 4 ** (attempt - 1)
    assert plain * 0.8 <= decided.at - now <= plain * 1.2


def test_the_jitter_reaches_both_of_its_bounds() -> None:
    assert verdict(FailureKind.MESSAGE, 1, roll=0.0) == Retry(at=NOW + 1_600)
    assert verdict(FailureKind.MESSAGE, 1, roll=1 - 1e-9) == Retry(at=NOW + 2_400)


@pytest.mark.parametrize("kind", [FailureKind.MESSAGE, FailureKind.CRASH])
def test_a_message_is_dead_after_five_attempts(kind: FailureKind) -> None:
    verdicts = [verdict(kind, attempt) for attempt in range(1, 7)]
    assert [type(decided) for decided in verdicts] == [Retry, Retry, Retry, Retry, Dead, Dead]


def test_a_timeout_is_retried_once() -> None:
    assert verdict(FailureKind.TIMEOUT, 1) == Retry(at=NOW + 2_000)
    assert verdict(FailureKind.TIMEOUT, 2) == Dead()


@pytest.mark.parametrize("attempt", [1, 2, 3, 4])
def test_a_crash_is_due_again_at_once(attempt: int) -> None:
    assert verdict(FailureKind.CRASH, attempt) == Retry(at=0)


@given(attempt=large_counts, roll=rolls)
def test_an_unavailable_provider_never_uses_an_attempt(attempt: int, roll: float) -> None:
    assert verdict(FailureKind.UNAVAILABLE, attempt, roll) == Wait()


def test_a_failure_that_needs_a_person_uses_no_attempt() -> None:
    missing = Failure(FailureKind.UNAVAILABLE, "claude is not installed", needs_person=True, notice="ask Ada")
    assert POLICY.verdict(missing, a_message(retry_count=4), NOW, MIDDLE) == Wait()


def test_a_lane_is_held_longer_each_time_up_to_a_quarter_of_an_hour() -> None:
    pauses = [POLICY.hold_until(unavailable(), holds, NOW, MIDDLE) - NOW for holds in range(6)]
    assert pauses == [15_000, 60_000, 240_000, QUARTER_HOUR, QUARTER_HOUR, QUARTER_HOUR]


@given(holds=st.integers(min_value=0, max_value=10**9), roll=rolls, now=instants)
def test_a_hold_lasts_more_than_zero_and_at_most_a_quarter_of_an_hour(holds: int, roll: float, now: int) -> None:
    assert 0 < POLICY.hold_until(unavailable(), holds, now, roll) - now <= QUARTER_HOUR


@pytest.mark.parametrize("wanted", [timedelta(seconds=1), timedelta(minutes=3), timedelta(hours=5)])
def test_a_retry_after_is_honoured_exactly_beyond_the_cap(wanted: timedelta) -> None:
    until = POLICY.hold_until(unavailable(wanted), 3, NOW, roll=0.9)
    assert timedelta(milliseconds=until - NOW) == wanted


def test_the_longest_retry_after_fits_into_the_database() -> None:
    assert POLICY.hold_until(unavailable(timedelta.max), 0, NOW, MIDDLE) <= LARGEST_INTEGER


def test_a_response_fails_for_good_after_ten_tries() -> None:
    tries = [POLICY.deliver_again_at(attempts, NOW, MIDDLE) for attempts in range(1, 12)]
    assert tries[:4] == [NOW + 2_000, NOW + 8_000, NOW + 32_000, NOW + 128_000]
    assert tries[5:9] == [NOW + QUARTER_HOUR] * 4
    assert tries[9:] == [None, None]


@given(attempts=st.integers(min_value=1, max_value=9), roll=rolls, now=instants)
def test_a_response_waits_a_quarter_of_an_hour_at_most(attempts: int, roll: float, now: int) -> None:
    again = POLICY.deliver_again_at(attempts, now, roll)
    assert again is not None
    assert 0 < again - now <= QUARTER_HOUR


@given(attempt=large_counts, roll=rolls)
def test_a_large_count_gives_an_instant_that_fits_into_the_database(attempt: int, roll: float) -> None:
    patient = RetryPolicy(attempts=10**10, delivery_attempts=10**10)
    decided = verdict(FailureKind.MESSAGE, attempt, roll, patient)
    assert isinstance(decided, Retry)
    assert NOW < decided.at <= LARGEST_INTEGER
    again = patient.deliver_again_at(attempt, NOW, roll)
    assert again is not None
    assert NOW < again <= NOW + QUARTER_HOUR
