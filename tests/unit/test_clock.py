"""The store's clock, driven by wall clocks that people and time servers set."""

import time
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from tinyagi.system.clock import SteadyClock, wall_clock

steps = st.lists(st.tuples(st.integers(-(2**40), 2**40), st.integers(0, 2**30)), min_size=1, max_size=50)


def readings(*steps: tuple[int, int]) -> list[int]:
    """What the clock says while the wall clock moves by the first number and time really passes by the second."""
    walls = iter(accumulate((wall for wall, _ in steps), initial=1_000_000))
    passed = iter(accumulate((real for _, real in steps), initial=0))
    clock = SteadyClock(walls.__next__, passed.__next__)
    return [clock() - 1_000_000 for _ in steps]


def test_the_clock_follows_the_wall_clock() -> None:
    assert readings((0, 0), (7, 7), (993, 993)) == [0, 7, 1000]


def test_a_wall_clock_set_back_does_not_run_backwards_and_continues_at_its_pace() -> None:
    assert readings((0, 0), (-600, 0), (50, 50), (50, 50)) == [0, 0, 50, 100]


def test_a_wall_clock_set_back_twice_does_not_run_backwards() -> None:
    assert readings((-600, 0), (100, 100), (-400, 0), (50, 50)) == [0, 100, 100, 150]


def test_a_jump_forward_is_taken_over() -> None:
    assert readings((1, 1), (8_000, 3), (1, 1)) == [1, 8_001, 8_002]


def test_a_wall_clock_that_is_set_right_again_leaves_no_lead() -> None:
    assert readings((-3_600, 0), (10, 10), (3_600, 0), (5, 5)) == [0, 10, 10, 15]


@given(steps)
def test_the_clock_never_runs_backwards_and_never_behind_the_wall_clock(steps: list[tuple[int, int]]) -> None:
    said = readings(*steps)
    assert said == sorted(said)
    assert all(now >= wall for now, wall in zip(said, accumulate(wall for wall, _ in steps), strict=True))


def test_the_wall_clock_counts_milliseconds() -> None:
    before = time.time_ns()
    now = wall_clock()
    assert before // 1_000_000 <= now <= time.time_ns() // 1_000_000
