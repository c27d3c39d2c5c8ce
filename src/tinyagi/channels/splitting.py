"""Cuts a long Markdown text into parts that a platform accepts, without breaking code blocks, links or characters."""

import re
import unicodedata
from collections.abc import Callable
from typing import Final, NamedTuple

Count = Callable[[str], int]

_FENCE: Final = re.compile(r"^ {0,3}(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)$", re.MULTILINE)
_LONGEST_INFO: Final = 40
"""A longer language of a code block is left out where the block goes on in the next part."""
# A link, an image, an address or inline code: a cut inside would change what people see.
_WHOLE: Final = re.compile(r"!?\[[^\[\]\n]*\]\([^()\s]*\)|https?://[^\s<>]+|`[^`\n]+`")
_LONGEST_LINK: Final = 2_000
_BREAKS: Final = (re.compile(r"\n[ \t]*\n"), re.compile(r"\n"), re.compile(r"(?<=[.!?…])\s"), re.compile(r"\s"))
"""Where a part may end, best first."""
_JOINERS: Final = frozenset("\u200d\ufe0e\ufe0f\u20e3") | {chr(code) for code in range(0x1F3FB, 0x1F400)}
_SHORTEST: Final = 64
"""The smallest limit: room for a code block's two fences and some text."""


def split(text: str, limit: int, count: Count = len) -> list[str]:
    """Parts of at most `limit` characters each; a code block that is cut is closed and opened again.

    White space at a cut is dropped, nothing else is.
    """
    if limit < _SHORTEST:
        raise ValueError(f"A part needs at least {_SHORTEST} characters.")
    parts: list[str] = []
    rest = text
    while count(rest) > limit:
        part, rest = _first_part(rest, limit, count)
        parts.append(part)
    return [part for part in (*parts, rest) if part.strip()]


class _Fence(NamedTuple):
    """A code block that is open at the end of a text."""

    opening: str
    closing: str


def _first_part(text: str, limit: int, count: Count) -> tuple[str, str]:
    end = _longest_prefix(text, limit, count)
    cut = _cut(text, end)
    fence = _open_fence(text[:cut])
    if fence is None:
        return text[:cut].rstrip(), text[cut:].lstrip("\n") if text[cut : cut + 1] == "\n" else text[cut:].lstrip(" ")
    # The closing fence needs room, so cut again, this time between the lines of the block where possible.
    end = _longest_prefix(text, limit - len(fence.closing) - 1, count)
    cut = _cut_in_code(text, end, after=_start_of_code(text, end))
    head, rest = text[:cut], text[cut:].removeprefix("\n")
    fence = _open_fence(head)
    if fence is None:
        return head.rstrip(), rest
    if _closes_at_once(rest, fence):
        return f"{head}\n{fence.closing}", rest.partition("\n")[2]
    return f"{head}\n{fence.closing}", f"{fence.opening}\n{rest}"


def _longest_prefix(text: str, limit: int, count: Count) -> int:
    """The number of characters whose count is at most the limit."""
    low, high = 0, min(len(text), limit)
    while low < high:
        middle = (low + high + 1) // 2
        if count(text[:middle]) <= limit:
            low = middle
        else:
            high = middle - 1
    return low


def _cut(text: str, end: int) -> int:
    """The best place for a cut at or before `end`: between paragraphs, lines, sentences or words, in this order."""
    for found in _BREAKS:
        # A break in the first half would make many short parts.
        places = [match.start() for match in found.finditer(text, end // 2, end + 1) if match.start() <= end]
        for place in reversed(places):
            if place > 0 and _around(text, place) is None:
                return place
    # A link longer than a part is cut all the same.
    return _around(text, end) or _between_characters(text, end)


def _cut_in_code(text: str, end: int, after: int) -> int:
    """The last line end of the block that fits, or in a line that is too long a place between two characters."""
    line = text.rfind("\n", after, end + 1)
    return line if line > after else _between_characters(text, end)


def _start_of_code(text: str, end: int) -> int:
    """The end of the line that opens the block which is open at `end`: a cut before it would only repeat it."""
    starts = [match.end() for match in _FENCE.finditer(text, 0, end)]
    return starts[-1] if starts else 0


def _around(text: str, place: int) -> int | None:
    """The start of the link, address or inline code that a cut at this place would break."""
    for match in _WHOLE.finditer(text, 0, place + _LONGEST_LINK):
        if match.start() >= place:
            return None
        if place < match.end():
            return match.start()
    return None


def _between_characters(text: str, place: int) -> int:
    """The place or one shortly before it where no visible character is cut: not before an accent or inside an emoji."""
    for candidate in range(place, max(place - 16, 0), -1):
        if candidate == len(text) or not _joins(text[candidate - 1], text[candidate]):
            return candidate
    return max(place, 1)


def _joins(before: str, after: str) -> bool:
    return after in _JOINERS or before == "\u200d" or unicodedata.combining(after) != 0


def _open_fence(text: str) -> _Fence | None:
    """The code block that the text leaves open."""
    fence: str | None = None
    info = ""
    for match in _FENCE.finditer(text):
        found = match["fence"]
        if fence is None:
            if not (found[0] == "`" and "`" in match["info"]):
                fence, info = found, match["info"].strip()
        elif found[0] == fence[0] and len(found) >= len(fence) and not match["info"].strip():
            fence = None
    if fence is None:
        return None
    short = fence[:3]
    return _Fence(short + (info if len(info) <= _LONGEST_INFO else ""), short)


def _closes_at_once(rest: str, fence: _Fence) -> bool:
    line = rest.partition("\n")[0].strip()
    return line.startswith(fence.closing) and not line.strip("`~")
