"""Texts from outside: what can be stored, what is cleaned, what fits on a line."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.texts import check_text, clean, counted, one_line

ANYTHING = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\ude00\ud83d"])
def test_a_lone_surrogate_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="lone surrogate"):
        check_text(text)


@pytest.mark.parametrize("text", ["", "plain", "é", "\U0001f600", "\x00"])
def test_text_without_lone_surrogates_is_accepted(text: str) -> None:
    check_text(text)


def test_surrogate_pairs_are_joined_and_lone_surrogates_replaced() -> None:
    assert clean("a\ud83d\ude00b") == "a😀b"
    assert clean("a\ud83db\udc00") == "a\ufffdb\ufffd"
    assert clean("a\0b") == "a\ufffdb"


@given(ANYTHING)
@example("a\0b")
@example("a\ud800b")
def test_a_cleaned_text_can_be_stored_and_cleaning_is_idempotent(text: str) -> None:
    cleaned = clean(text)

    check_text(cleaned)
    assert b"\0" not in cleaned.encode()
    assert clean(cleaned) == cleaned


@given(ANYTHING, st.integers(min_value=1, max_value=40))
def test_one_line_is_one_visible_line_within_its_limit(text: str, limit: int) -> None:
    line = one_line(text, limit)

    assert len(line) <= limit
    assert len(line.splitlines()) <= 1
    line.encode()


def test_one_line_drops_control_characters_and_keeps_joiners() -> None:
    assert one_line("a\u202eb\x1b[0m \u2028c", 80) == "ab [0m c"
    assert one_line("a\r\n\x1b[31m  b\ud800") == "a [31m b\ufffd"
    assert one_line("👩\u200d💻", 80) == "👩\u200d💻"


def test_a_number_has_its_noun() -> None:
    assert [counted(number, "event") for number in (0, 1, 2_000)] == ["0 events", "1 event", "2,000 events"]


def test_a_long_line_is_cut() -> None:
    assert one_line("x" * 1000, 10) == "x" * 9 + "…"
