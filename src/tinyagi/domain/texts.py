"""Texts from outside: makes them safe for every store, and short enough for one line of a log, a list or a reason."""

import re
from typing import Final

from tinyagi.domain.errors import InvalidInput

UNKNOWN_CHARACTER: Final = "\ufffd"

KEY_PATTERN: Final = r"^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]*$"
"""The rule of `check_key` as a pattern for the OpenAPI document."""

_CONTROL: Final = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029]")
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# Some scripts and emoji need these characters inside a word.
_JOINERS: Final = frozenset("\u200c\u200d")
_CONTROL_END: Final = 0xA0
"""Unprintable characters below this separate words; those above are invisible and are removed."""


def check_text(text: str) -> None:
    """Raise InvalidInput for a text with a lone surrogate."""
    if not text.isascii() and _LONE_SURROGATE.search(text):
        raise InvalidInput("A text holds half of a character (a lone surrogate), which no database can store.")


def check_key(name: str, text: str) -> None:
    """Raise InvalidInput for a key that would break a line of a log, a list or a file."""
    if not text.isprintable() and _CONTROL.search(text):
        raise InvalidInput(f"The {name} {text[:40]!r} holds a control character, such as a line break. Leave it out.")


def clean(text: str) -> str:
    """Return the text as every store can hold it: join surrogate pairs, replace lone surrogates and NUL."""
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", UNKNOWN_CHARACTER)


def one_line(text: str, longest: int = 300) -> str:
    """Return the text on one line, without invisible characters, cut with an ellipsis."""
    # Cut before cleaning as well: a long text must not cost more than the part that is shown.
    line = " ".join("".join(map(_visible, clean(text[: longest * 4]))).split())
    return line if len(line) <= longest else f"{line[: longest - 1].rstrip()}…"


def counted(number: int, noun: str) -> str:
    """Return the number with its noun: 1 event, 2,000 events."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _visible(character: str) -> str:
    if character.isprintable() or character in _JOINERS or character.isspace():
        return character
    return " " if ord(character) < _CONTROL_END else ""


def size_text(count: int) -> str:
    """The size with one to three digits before the point: 812 B, 3.4 kB, 1.2 MB, 5.6 GB."""
    if count < 1_000:
        return f"{count} B"
    size = float(count)
    for unit in ("kB", "MB", "GB"):
        size /= 1_000
        # 999.95 would be shown as 1000.0 of its unit.
        if size < 999.95:
            return f"{size:.1f} {unit}"
    return f"{size / 1_000:.1f} TB"
