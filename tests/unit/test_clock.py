"""The store's clock over wall clocks that jump."""

import time
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from tinyagi.system.clock import SteadyClock, wall_clock

steps = st.lists(st.tuples(st.integers(-(2**40), 2**40), st.integers(0, 2**30)), min_size=1, max_size=50)


def readings(*steps: tuple[int, int]) -> list[int]:
    """Read the clock while the wall clock moves by the first number and real time by the second."""
    walls = iter(accumulate((wall for wall, _ in steps), initial=1_000_000))
    passed = iter(accumulate((real for _, real in steps), initial=0))
    clock = SteadyClock(walls.__next__, passed.__next__)
    return [clock() - 1_000_000 for _ in steps]


def test_the_clock_follows_the_wall_clock() -> None:
    assert readings((0, 0), (7, 7), (993, 993)) == [0, 7, 1000]


def test_the_clock_goes_on_when_the_wall_clock_is_set_back() -> None:
    assert readings((0, 0), (-600, 0), (50, 50), (50, 50)) == [0, 0, 50, 100]


def test_the_clock_goes_on_when_the_wall_clock_is_set_back_twice() -> None:
    assert readings((-600, 0), (100, 100), (-400, 0), (50, 50)) == [0, 100, 100, 150]


def test_the_clock_follows_a_jump_forward() -> None:
    assert readings((1, 1), (8_000, 3), (1, 1)) == [1, 8_001, 8_002]


def test_the_clock_has_no_lead_after_the_wall_clock_is_corrected() -> None:
    assert readings((-3_600, 0), (10, 10), (3_600, 0), (5, 5)) == [0, 10, 10, 15]


@given(steps)
def test_the_clock_never_runs_backwards_or_behind_the_wall_clock(steps: list[tuple[int, int]]) -> None:
    said = readings(*steps)
    assert said == sorted(said)
    assert all(now >= wall for now, wall in zip(said, accumulate(wall for wall, _ in steps), strict=True))


def test_the_wall_clock_counts_milliseconds() -> None:
    before = time.time_ns()
    now = wall_clock()
    assert before // 1_000_000 <= now <= time.time_ns() // 1_000_000
