"""What a transform returned, checked: nothing goes on that a database or a channel would choke on."""

from collections.abc import Mapping
from typing import Final

from tinyagi.domain.errors import InvalidInput
from tinyagi.plugins.specs import Transformed

MAX_TEXT: Final = 1_000_000
"""Characters that a hook may make of a text; one that was longer before may stay as long."""


def checked(result: object, *, given: str) -> Transformed | None:
    """The result as a text with metadata, None for unchanged; raise InvalidInput for anything else."""
    match result:
        case None:
            return None
        case str(text):
            return Transformed(_text(text, given))
        case tuple((str(text), Mapping() as metadata)):
            return Transformed(_text(text, given), {_entry(key): _entry(value) for key, value in metadata.items()})
    raise InvalidInput(f"It returned {_kind(result)}; return a text, (text, metadata) or None.")


def _text(text: str, given: str) -> str:
    if len(text) > max(MAX_TEXT, len(given)):
        raise InvalidInput(f"It returned {len(text):,} characters; {MAX_TEXT:,} is the most.")
    return _plain(text)


def _entry(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"Its metadata holds {_kind(value)}; keys and values are texts.")
    return _plain(value)


def _plain(text: str) -> str:
    """The text as a str proper, whatever subclass it came as."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidInput("It returned half of a character (a lone surrogate), which nobody can store.") from None
    return str.__str__(text)


def _kind(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(type(part).__name__ for part in value)})"
    return type(value).__name__
