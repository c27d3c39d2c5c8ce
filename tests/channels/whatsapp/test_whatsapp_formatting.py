"""Markdown becomes WhatsApp's own marks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagi.channels.whatsapp.formatting import to_whatsapp

MARKUP = st.text(st.sampled_from('ab1 *_~`#-+>[]()!\\\n<:/."|' + "ä😀"), max_size=80)
PIECES = st.lists(
    st.sampled_from(
        [
            "**",
            "*",
            "__",
            "_",
            "~~",
            "`",
            "```",
            "~~~",
            "\n",
            "# ",
            "[a](",
            "](",
            ")",
            "https://x.y/a_b",
            "<",
            ">",
            "a",
            " ",
        ]
    ),
    max_size=40,
).map("".join)


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("plain text", "plain text"),
        ("**bold** and __bold__", "*bold* and *bold*"),
        ("*italic* and _italic_", "_italic_ and _italic_"),
        ("***both***", "*_both_*"),
        ("**bold *italic* bold**", "*bold _italic_ bold*"),
        ("*italic **bold** italic*", "_italic *bold* italic_"),
        ("~~gone~~", "~gone~"),
        ("`a * b * c` and ``d``", "`a * b * c` and ``d``"),
        ("# Title", "*Title*"),
        ("### A **bold** title ###", "*A bold title*"),
        ("#hashtag", "#hashtag"),
        ("#  ", ""),
        ("* one\n  + two\n- three", "- one\n  - two\n- three"),
        ("1. one\n2. *two*", "1. one\n2. _two_"),
        ("> quoted **text**", "> quoted *text*"),
        ("***", "---"),
        ("_ _ _", "---"),
        ("[the page](https://a.b/c_d)", "the page (https://a.b/c_d)"),
        ('[the page](https://a.b/c "title")', "the page (https://a.b/c)"),
        ("[**bold**](https://a.b)", "*bold* (https://a.b)"),
        ("[https://a.b](https://a.b)", "https://a.b"),
        ("[](https://a.b)", "https://a.b"),
        ("[wiki](https://a.b/x_(y))", "wiki (https://a.b/x_(y))"),
        ("![a cat](https://a.b/cat.png)", "a cat (https://a.b/cat.png)"),
        ("<https://a.b>", "https://a.b"),
        ("see https://a.b/__c__/d", "see https://a.b/__c__/d"),
        (r"\*not bold\* \_x\_ \# C:\temp", r"*not bold* _x_ # C:\temp"),
        ("2 * 3 * 4 and 2*3*4", "2 * 3 * 4 and 2*3*4"),
        ("snake_case_name and my__file__x", "snake_case_name and my__file__x"),
        ("**open", "**open"),
        ("```python\na = **b**\n# c\n```\n**d**", "```\na = **b**\n# c\n```\n*d*"),
        ("~~~\n```\n~~~", "```\n```\n```"),
        ("````\n```\n````\n*a*", "```\n```\n```\n_a_"),
        ("```\nopen **code**", "```\nopen **code**"),
        ("| a | b |\n| --- | --- |\n| 1 | 2 |", "| a | b |\n| --- | --- |\n| 1 | 2 |"),
        ("", ""),
    ],
)
def test_markdown_becomes_the_marks_of_whatsapp(markdown: str, expected: str) -> None:
    assert to_whatsapp(markdown) == expected


@given(st.one_of(st.text(), MARKUP, PIECES))
def test_every_text_has_a_result_that_is_not_longer(markdown: str) -> None:
    assert len(to_whatsapp(markdown)) <= len(markdown)


@given(st.text(st.sampled_from("abc 12.,!?\n\täöü😀漢")))
def test_a_text_without_marks_stays_as_it_is(text: str) -> None:
    assert to_whatsapp(text) == text


@given(st.one_of(MARKUP, PIECES).filter(lambda code: "```" not in code and "~~~" not in code))
def test_code_stays_as_it_is(code: str) -> None:
    assert to_whatsapp(f"```\n{code}\n```") == f"```\n{code}\n```"


@pytest.mark.parametrize("piece", ["[", "*", "**a", "`", "~~a", "__a", "[a](", "\\", "<https://", "***a", '[a](b "'])
def test_hostile_repetition_takes_no_time(piece: str) -> None:
    to_whatsapp(piece * (4_096 // len(piece)))
