"""The parser of `[@ids: text]` and `[#team: text]`, and how people see tags. Routing decides whom they reach."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

# A target contains no bracket, so an unclosed opening ends at the next bracket.
_BRACKET: Final = re.compile(r"\[(?:(?P<kind>[@#])(?P<target>[^\[\]:`]++):)?|\]")

# Indentation, quote and list marks may precede a fence, and so may the opening of a tag: `[@coder: ```py`.
_FENCE: Final = re.compile(
    r"(?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t]|\[[@#][^\[\]:`\n]++:)*+(?P<marks>`{3,}+|~{3,}+)(?P<info>[^\n]*)"
)
_RUN: Final = re.compile(r"`+")
_CODE_BRACKET: Final = re.compile(r"[\[\]]")
_TAG_OPENING: Final = re.compile(r"\[[@#]")


class TagKind(StrEnum):
    """The sign before the target, in the tag and as people see it."""

    DIRECT = "@"
    ROOM = "#"


@dataclass(frozen=True, slots=True)
class Tag:
    """One tag as written: `text` without the space around it, `start` and `end` including the brackets."""

    kind: TagKind
    target: str
    """As written: a direct tag may hold a comma list, in any case, of names that exist or not."""
    text: str
    start: int
    end: int


def parse_tags(text: str) -> tuple[Tag, ...]:
    """Return the tags in order.

    A tag inside another tag is part of that tag's text; only a direct tag inside a room post counts as a tag too.
    """
    found: list[Tag] = []
    end = direct_end = 0
    for opening, closing in _closed_tags(text):
        kind = TagKind(opening["kind"])
        is_direct = kind is TagKind.DIRECT
        if opening.start() < (direct_end if is_direct else end):
            continue
        end = max(end, closing + 1)
        if is_direct:
            direct_end = closing + 1
        body = text[opening.end() : closing].strip()
        found.append(Tag(kind, opening["target"].strip(), body, opening.start(), closing + 1))
    return tuple(found)


def without_brackets(text: str) -> str:
    """Return the text with its tags as `@to: text` and `#team: text`."""
    edits = [edit for opening, closing in _closed_tags(text) for edit in _brackets(opening, closing)]
    return _edited(text, sorted(edits))


def shared_context(text: str, tags: Iterable[Tag]) -> str:
    """Return the text for every target: the text without its direct tags."""
    return _edited(text, [(tag.start, tag.end, "") for tag in tags if tag.kind is TagKind.DIRECT])


def render_for_people(text: str, sender: str) -> str:
    """Return the text with every tag as `@from → @to: text` or `@from → #team: text`.

    A tag within a tag only loses its brackets.
    """
    edits: list[tuple[int, int, str]] = []
    end = 0
    for opening, closing in _closed_tags(text):
        if opening.start() < end:
            edits += _brackets(opening, closing)
        else:
            end = closing + 1
            body = text[opening.end() : closing]
            body_start = closing - len(body.lstrip())
            body_end = max(body_start, opening.end() + len(body.rstrip()))
            label = f"@{sender} → {opening['kind']}{opening['target'].strip()}: "
            edits += (opening.start(), body_start, label), (body_end, end, "")
    return _edited(text, sorted(edits))


def _brackets(opening: re.Match[str], closing: int) -> tuple[tuple[int, int, str], tuple[int, int, str]]:
    """The edits that remove a tag's brackets."""
    return (opening.start(), opening.start() + 1, ""), (closing, closing + 1, "")


def _closed_tags(text: str) -> list[tuple[re.Match[str], int]]:
    """Every closed tag, nested ones included, in the order of openings: the opening's match and the closing offset."""
    if "[@" not in text and "[#" not in text:
        return []
    opened: list[re.Match[str]] = []
    closed: list[tuple[re.Match[str], int]] = []
    for bracket in _BRACKET.finditer(mask_code(text)):
        if bracket[0] != "]":
            opened.append(bracket)
        elif opened:
            opening = opened.pop()
            if opening["kind"] and opening["target"].strip():
                closed.append((opening, bracket.start()))
    closed.sort(key=lambda tag: tag[0].start())
    return closed


def _edited(text: str, edits: list[tuple[int, int, str]]) -> str:
    """Apply the edits and strip the result; a text without edits stays exactly as it is."""
    if not edits:
        return text
    pieces: list[str] = []
    at = 0
    for start, end, replacement in edits:
        pieces += text[at:start], replacement
        at = end
    return "".join((*pieces, text[at:])).strip()


def mask_code(text: str) -> str:
    """Return the text with every character of code replaced by a backtick, so offsets stay the same."""
    if "`" not in text and "~~~" not in text:
        return text
    pieces: list[str] = []
    at = 0
    for start, end in _code(text):
        pieces += text[at:start], "`" * (end - start)
        at = end
    return "".join((*pieces, text[at:]))


def _code(text: str) -> Iterator[tuple[int, int]]:
    """The ranges of code in order; a backtick span never crosses a blank line or a fence."""
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
    """The fenced block that the line opens; an unclosed block runs to the end of the text."""
    opening = _FENCE.match(text, line)
    if opening is None:
        return None
    marks, info = opening["marks"], opening["info"]
    # An unbalanced bracket or a tag after the marks shows that they end some code instead of opening a block.
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
    brackets = [bracket.start() for bracket in _CODE_BRACKET.finditer(text, start, end)]
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
    """For each run, the index of the next run of the same length."""
    partners: list[int | None] = [None] * len(runs)
    nearest: dict[int, int] = {}
    for index in range(len(runs) - 1, -1, -1):
        length = runs[index][1] - runs[index][0]
        partners[index] = nearest.get(length)
        nearest[length] = index
    return partners


def _joins_two_tags(text: str, start: int, end: int, brackets: list[int], openings: list[int]) -> bool:
    """True for two stray backticks in two tags: the text between them ends one tag and opens the next.

    Treating that text as code would deliver the second tag's text to the first tag's target.
    """
    first = bisect_left(brackets, start)
    if first == len(brackets) or brackets[first] >= end or text[brackets[first]] == "[":
        return False
    before = bisect_left(openings, start)
    return 0 < before < bisect_left(openings, end)
