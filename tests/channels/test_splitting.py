"""Splitting long answers: every part fits, nothing is lost, and code, links and characters stay whole."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from tinyagi.channels.splitting import split
from tinyagi.channels.telegram.utf16 import length as utf16_length

FAMILY = "👩\u200d👩\u200d👧\u200d👦"
PIECES = st.one_of(
    st.text(max_size=60),
    st.sampled_from(["\n\n", "\n", "```python\n", "```\n", "~~~\n", " ", "é", "`code`", "A sentence. "]),
    st.sampled_from(["[a link](https://example.org/a/long/path?x=1)", "https://example.org/" + "x" * 50, FAMILY]),
    st.sampled_from(["word " * 20, "x" * 200]),
)
TEXTS = st.lists(PIECES, max_size=40).map("".join)


def bare(text: str) -> str:
    """The text without white space and fences, which a cut may drop or add."""
    return re.sub(r"\s|`{3,}[a-z]*|~{3,}[a-z]*", "", text)


@given(TEXTS, st.integers(64, 300))
@example("```" + "x" * 500, 64)
@example("`" * 400, 64)
@example(" " * 400, 64)
def test_every_part_fits_and_the_split_ends(text: str, limit: int) -> None:
    for count in (len, utf16_length):
        parts = split(text, limit, count)
        assert all(0 < count(part) <= limit for part in parts)
        assert len(parts) <= len(text) + 1


@given(
    st.lists(st.sampled_from(["word ", "A sentence. ", "\n", "\n\n", "ünïcode ", "👍 ", "x" * 90]), max_size=60).map(
        "".join
    )
)
def test_nothing_but_white_space_is_lost(text: str) -> None:
    assert bare("".join(split(text, 64))) == bare(text)


def test_a_short_text_is_one_part() -> None:
    assert split("hello", 64) == ["hello"]
    assert split("", 64) == []


def test_a_cut_is_made_between_paragraphs_first() -> None:
    first, second = "a" * 50, "b " * 30
    assert split(f"{first}\n\n{second}", 64) == [first, second]


def test_a_code_block_is_closed_and_opened_again_with_its_language() -> None:
    lines = [f"line_{number} = {number}" for number in range(30)]
    parts = split("Look:\n```python\n" + "\n".join(lines) + "\n```\nDone.", 128)
    assert len(parts) > 2
    for part in parts:
        assert part.count("```") % 2 == 0, part
    assert all("```python\n" in part for part in parts[:-1])
    assert [line for part in parts for line in part.splitlines() if line.startswith("line_")] == lines
    assert parts[-1].endswith("Done.")


def test_lines_of_code_keep_their_indentation() -> None:
    code = "```\n" + "\n".join(f"    indented {number}" for number in range(20)) + "\n```"
    for part in split(code, 100):
        assert all(line.startswith("    indented") for line in part.splitlines() if "indented" in line)


def test_a_link_is_not_cut() -> None:
    link = "[the report](https://example.org/reports/2026/11)"
    for filling in range(30, 64):
        parts = split("x" * filling + link + " and more words follow here, and more", 64)
        assert any(link in part for part in parts), filling


def test_an_address_is_not_cut() -> None:
    address = "https://example.org/" + "p" * 30
    parts = split("see " * 12 + address + " " + "more " * 10, 64)
    assert any(address in part for part in parts)


def test_an_emoji_of_several_code_points_is_not_cut() -> None:
    parts = split(FAMILY * 40, 64, utf16_length)
    assert all(part.replace(FAMILY, "") == "" for part in parts)


def test_a_surrogate_pair_counts_twice_and_is_not_cut() -> None:
    parts = split("😀" * 100, 65, utf16_length)
    assert "".join(parts) == "😀" * 100
    assert all(utf16_length(part) <= 65 for part in parts)
