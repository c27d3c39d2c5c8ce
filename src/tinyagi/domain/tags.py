"""The one parser of `[@ids: text]` and `[#team: text]`, and how tags read to people. Who they reach is routing."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tinyagi.domain.code_spans import mask_code

# The target takes no bracket, so an opening that is never closed ends at the next one.
_BRACKET: Final = re.compile(r"\[(?:(?P<kind>[@#])(?P<target>[^\[\]:`]++):)?|\]")


class TagKind(StrEnum):
    """The sign that opens the tag and that people see before its target."""

    DIRECT = "@"
    ROOM = "#"


@dataclass(frozen=True, slots=True)
class Tag:
    """One tag as written: `text` without the space around it, `start` and `end` including the brackets."""

    kind: TagKind
    # Still raw: a direct tag's may be a comma list, in any case of letters, of anybody.
    target: str
    text: str
    start: int
    end: int


def parse(text: str) -> tuple[Tag, ...]:
    """Return the tags in order; a tag inside another one's text belongs to that text."""
    found: list[Tag] = []
    end = 0
    for opening, closing in _closed_tags(text):
        if opening.start() >= end:
            end = closing + 1
            body = text[opening.end() : closing].strip()
            found.append(Tag(TagKind(opening["kind"]), opening["target"].strip(), body, opening.start(), end))
    return tuple(found)


def shared_context(text: str, tags: Iterable[Tag]) -> str:
    """Return what every target reads: the text without its direct tags."""
    return _edited(text, [(tag.start, tag.end, "") for tag in tags if tag.kind is TagKind.DIRECT])


def render_for_people(text: str, sender: str) -> str:
    """Return the text with every tag as `@from → @to: text` or `@from → #team: text`.

    A tag within a tag was sent to nobody yet, so it only loses its brackets.
    """
    edits: list[tuple[int, int, str]] = []
    end = 0
    for opening, closing in _closed_tags(text):
        if opening.start() < end:
            edits += (opening.start(), opening.start() + 1, ""), (closing, closing + 1, "")
        else:
            end = closing + 1
            body = text[opening.end() : closing]
            body_start = closing - len(body.lstrip())
            body_end = max(body_start, opening.end() + len(body.rstrip()))
            label = f"@{sender} → {opening['kind']}{opening['target'].strip()}: "
            edits += (opening.start(), body_start, label), (body_end, end, "")
    return _edited(text, sorted(edits))


def _closed_tags(text: str) -> list[tuple[re.Match[str], int]]:
    """Every tag that has an end, nested ones too, by opening: the match of its opening and where it closes."""
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
    """Put each edit's string in the place of its range; text without edits stays as it is, down to its margins."""
    if not edits:
        return text
    pieces: list[str] = []
    at = 0
    for start, end, replacement in edits:
        pieces += text[at:start], replacement
        at = end
    return "".join((*pieces, text[at:])).strip()
