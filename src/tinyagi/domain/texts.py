"""Texts from outside: what every store can hold, and what fits on one line of a log, a list or a reason."""

import re
from typing import Final

from tinyagi.domain.errors import InvalidInput

UNKNOWN_CHARACTER: Final = "\ufffd"

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# Between letters of some scripts and between the parts of some emoji they are part of the word.
_JOINERS: Final = frozenset("\u200c\u200d")
_CONTROL_END: Final = 0xA0
"""What is not printable below this separates words; above it, it is invisible and goes."""


def check_text(text: str) -> None:
    """Raise InvalidInput for a text that no database can store."""
    if not text.isascii() and _LONE_SURROGATE.search(text):
        raise InvalidInput("A text holds half of a character (a lone surrogate), which no database can store.")


def clean(text: str) -> str:
    """Return the text as every store can hold it: halves of one character are joined, a lone half and NUL replaced."""
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", UNKNOWN_CHARACTER)


def one_line(text: str, longest: int = 300) -> str:
    """Return the text on one line, without invisible characters, cut with an ellipsis."""
    # Cut before the work as well as after it, so that what is thrown away costs nothing.
    line = " ".join("".join(map(_visible, clean(text[: longest * 4]))).split())
    return line if len(line) <= longest else f"{line[: longest - 1].rstrip()}…"


def _visible(character: str) -> str:
    if character.isprintable() or character in _JOINERS or character.isspace():
        return character
    return " " if ord(character) < _CONTROL_END else ""
