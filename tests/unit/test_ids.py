"""Ids: which names people may choose, and the order and distinctness of the ids we make."""

import re
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagi.domain.ids import IdSource, is_valid_id

WRAP_SECONDS: Final = 36**4
"""Four characters of the second: after this many the order starts again."""

starts = st.integers(min_value=0, max_value=10**12)
instants = st.integers(min_value=0, max_value=2**42)
seconds = st.integers(min_value=0, max_value=WRAP_SECONDS - 1)


@pytest.mark.parametrize("name", ["a", "7", "coder", "qa-2", "a_b-c", "0_", "a" * 64])
def test_a_plain_lower_case_name_is_a_valid_id(name: str) -> None:
    assert is_valid_id(name)


@pytest.mark.parametrize("name", ["", "a" * 65, "_a", "-a", "Coder", "a b", "a.b", "../a", "a/b", "ä", "٣", "a\u0000"])
def test_any_other_name_is_refused(name: str) -> None:
    assert not is_valid_id(name)


@pytest.mark.parametrize("edge", ["\n", "\r", " ", "é", "!"])
def test_the_pattern_holds_at_both_ends(edge: str) -> None:
    assert not is_valid_id(f"{edge}coder")
    assert not is_valid_id(f"coder{edge}")


@given(start=starts, now_ms=instants, prefix=st.sampled_from(["api", "chatroom_batch", "claim"]))
def test_an_id_is_its_prefix_and_eight_characters(start: int, now_ms: int, prefix: str) -> None:
    assert re.fullmatch(rf"{prefix}_[0-9a-z]{{8}}", IdSource(start).new(prefix, now_ms))


@given(start=starts)
def test_ids_of_one_second_are_distinct(start: int) -> None:
    source = IdSource(start)
    assert len({source.new("api", 1_000 + number % 1_000) for number in range(2_000)}) == 2_000


def test_a_hundred_thousand_ids_of_one_second_are_distinct_across_the_end_of_the_counter() -> None:
    source = IdSource(WRAP_SECONDS - 50_000)
    made = {source.new("api", 0) for _ in range(100_000)}
    assert len(made) == 100_000
    assert {len(text) for text in made} == {len("api_") + 8}


@given(first=seconds, second=seconds, start=starts)
def test_ids_of_a_later_second_sort_after_earlier_ones(first: int, second: int, start: int) -> None:
    earlier, later = sorted((first, second))
    source = IdSource(start)
    # Made in the wrong order, so that the counter alone cannot give the right one.
    late, early = source.new("api", later * 1_000), source.new("api", earlier * 1_000 + 999)
    assert early[:8] <= late[:8]
    assert earlier == later or early < late


def test_the_order_starts_again_after_the_wrap() -> None:
    now = 1_700_000_000
    assert IdSource(0).new("api", now * 1_000) == IdSource(0).new("api", (now + WRAP_SECONDS) * 1_000)


@given(start=starts, distance=st.integers(min_value=1, max_value=200), now_ms=instants)
def test_sources_with_different_starts_do_not_clash_before_they_overlap(start: int, distance: int, now_ms: int) -> None:
    one, other = IdSource(start), IdSource(start + distance)
    of_one = {one.new("api", now_ms) for _ in range(distance)}
    assert of_one.isdisjoint({other.new("api", now_ms) for _ in range(distance)})
    assert one.new("api", now_ms) not in of_one
