"""Where a text is code, as Markdown has it: fenced blocks and backtick spans. Tags in there are text, not tags.

Every step looks at a character a bounded number of times, so that hostile text costs no more than long text.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

# Indentation, quote and list marks may stand before a fence, and so may the opening of a tag: `[@coder: ```py`.
_FENCE: Final = re.compile(
    r"(?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t]|\[[@#][^\[\]:`\n]++:)*+(?P<marks>`{3,}+|~{3,}+)(?P<info>[^\n]*)"
)
_RUN: Final = re.compile(r"`+")
_BRACKET: Final = re.compile(r"[\[\]]")
_TAG_OPENING: Final = re.compile(r"\[[@#]")


def mask_code(text: str) -> str:
    """Return the text with every character of code turned into a backtick; offsets stay."""
    if "`" not in text and "~~~" not in text:
        return text
    pieces: list[str] = []
    at = 0
    for start, end in _code(text):
        pieces += text[at:start], "`" * (end - start)
        at = end
    return "".join((*pieces, text[at:]))


def _code(text: str) -> Iterator[tuple[int, int]]:
    """Every piece of code in order; a backtick span never crosses a blank line or a fence."""
    paragraph = line = 0
    while line < len(text):
        fence = _fence_at(text, line)
        if fence is not None:
            yield from _spans(text, paragraph, fence[0])
            yield fence
            paragraph = line = fence[1]
            continue
        line_end = text.find("\n", line) + 1 or len(text)
        if not text[line:line_end].strip():
            yield from _spans(text, paragraph, line)
            paragraph = line_end
        line = line_end
    yield from _spans(text, paragraph, len(text))


def _fence_at(text: str, line: int) -> tuple[int, int] | None:
    """The fenced block that the line opens; without an end it goes on to the end of the text."""
    opening = _FENCE.match(text, line)
    if opening is None:
        return None
    marks, info = opening["marks"], opening["info"]
    # A bracket that was opened before, or a tag, shows that the marks end some code instead of opening a block.
    if marks[0] in info or info.count("[") != info.count("]") or _TAG_OPENING.search(info):
        return None
    # Markdown wants the closing marks alone on their line. People and agents also write "last line```" and "```]".
    closing = re.compile(rf"(?<!{marks[0]}){marks[0]}{{{len(marks)},}}+(?=[ \t\r]*+(?:\]|$))", re.MULTILINE)
    end = closing.search(text, opening.end())
    return opening.start("marks"), len(text) if end is None else end.end()


def _spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Code spans of one paragraph: a run of backticks up to the next run of the same length."""
    runs = [run.span() for run in _RUN.finditer(text, start, end)]
    if not runs:
        return
    brackets = [bracket.start() for bracket in _BRACKET.finditer(text, start, end)]
    openings = [opening.start() for opening in _TAG_OPENING.finditer(text, start, end)]
    partners = _partners(runs)
    index = 0
    while index < len(runs):
        partner = partners[index]
        if partner is None or _joins_two_tags(text, runs[index][1], runs[partner][0], brackets, openings):
            index += 1
        else:
            yield runs[index][0], runs[partner][1]
            index = partner + 1


def _partners(runs: list[tuple[int, int]]) -> list[int | None]:
    """For every run the index of the next one of the same length."""
    partners: list[int | None] = [None] * len(runs)
    nearest: dict[int, int] = {}
    for index in range(len(runs) - 1, -1, -1):
        length = runs[index][1] - runs[index][0]
        partners[index] = nearest.get(length)
        nearest[length] = index
    return partners


def _joins_two_tags(text: str, start: int, end: int, brackets: list[int], openings: list[int]) -> bool:
    """True for two stray backticks in two tags: what is between them ends one tag and opens the next.

    Taking that for code would deliver the second tag's text to the first tag's target.
    """
    first = bisect_left(brackets, start)
    if first == len(brackets) or brackets[first] >= end or text[brackets[first]] == "[":
        return False
    before = bisect_left(openings, start)
    return 0 < before < bisect_left(openings, end)
