"""Markdown for Discord: only tables change."""

from hypothesis import given
from hypothesis import strategies as st

from tinyagi.channels.discord.formatting import to_discord
from tinyagi.channels.discord.manifest import TEXT_LIMIT

_LINES = st.lists(
    st.one_of(
        st.text(alphabet=" ab|`~-:\\*_#>[]()@<", max_size=30),
        st.sampled_from(
            ["| a | b |", "|---|:-:|", "| 1 | 2 |", "```", "~~~", "```python", "a | b", "- | -", "", "日本 | 語"]
        ),
    ),
    max_size=20,
)


def test_what_discord_understands_stays_as_it_is() -> None:
    text = "# Title\n**bold** _it_ `code` [link](https://example.org)\n> quote\n- item\n```py\nx = 1\n```\n@everyone"
    assert to_discord(text) == text


def test_a_table_becomes_an_aligned_code_block() -> None:
    table = "Before\n\n| name | size |\n|:-----|-----:|\n| a | 1 |\n| longer | 22 |\n\nAfter"
    assert to_discord(table) == ("Before\n\n```\nname   | size\n-------+-----\na      | 1\nlonger | 22\n```\n\nAfter")


def test_a_table_without_outer_bars_is_one_too() -> None:
    assert to_discord("a | b\n--|--\n1 | 2") == "```\na | b\n--+--\n1 | 2\n```"


def test_rows_may_be_shorter_or_longer_than_the_head() -> None:
    assert to_discord("|a|b|\n|-|-|\n|1|\n|1|2|3|") == "```\na | b\n--+---+--\n1\n1 | 2 | 3\n```"


def test_an_escaped_bar_belongs_to_its_cell() -> None:
    assert "x|y | 2" in to_discord("|a|b|\n|-|-|\n|x\\|y|2|")


def test_wide_signs_take_two_columns() -> None:
    assert to_discord("|日本|b|\n|-|-|\n|ab|c|") == "```\n日本 | b\n-----+--\nab   | c\n```"


def test_a_table_in_a_code_block_is_code() -> None:
    code = "```\n| a | b |\n|---|---|\n| 1 | 2 |\n```"
    assert to_discord(code) == code


def test_a_table_with_a_fence_in_a_cell_stays() -> None:
    table = "| a | b |\n|---|---|\n| ``` | 2 |"
    assert to_discord(table) == table


def test_bars_without_a_rule_are_text() -> None:
    assert to_discord("a | b\nc | d") == "a | b\nc | d"
    assert to_discord("a | b\n---\nc") == "a | b\n---\nc"


def test_a_table_without_room_for_alignment_is_fenced_as_written() -> None:
    row = "|" + "x" * 900 + "|1|"
    table = f"|a|b|\n|-|-|\n{row}\n|2|3|\n|4|5|"
    assert to_discord(table) == f"```\n{table}\n```"


def test_a_table_without_room_for_a_fence_stays() -> None:
    table = "|a|b|\n|-|-|\n|" + "x" * (TEXT_LIMIT - 17) + "|1|"
    assert len(table) <= TEXT_LIMIT
    assert to_discord(table) == table


@given(_LINES)
def test_no_text_grows_beyond_the_limit_or_loses_a_word(lines: list[str]) -> None:
    text = "\n".join(lines)[:TEXT_LIMIT]
    shown = to_discord(text)
    assert len(shown) <= TEXT_LIMIT
    assert [sign for sign in shown if sign in "ab12日本語"] == [sign for sign in text if sign in "ab12日本語"]


@given(st.text(alphabet=st.characters(exclude_characters="|"), max_size=300))
def test_a_text_without_bars_stays(text: str) -> None:
    assert to_discord(text) == text


@given(_LINES)
def test_the_number_of_fences_stays_even_when_it_was(lines: list[str]) -> None:
    text = "\n".join(line for line in lines if "`" not in line and "~" not in line)
    assert to_discord(text).count("```") % 2 == 0
