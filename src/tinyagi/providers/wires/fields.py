"""Reads JSON of endpoints that agree on little: what is missing or of another kind is simply not there."""

import json
from typing import Final

from tinyagi.domain.errors import TinyAGIError

_MOST: Final = 10**12


class NotJson(TinyAGIError):
    """The text is no JSON."""


def parse(text: str) -> object:
    """Return the JSON value; raise NotJson when there is none."""
    try:
        # The standard library's parser keeps halves of characters that other parsers refuse; `clean` mends them.
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        raise NotJson("no JSON") from None
    return value


def at(value: object, *path: str | int) -> object:
    """Return what stands at the end of the path of keys and places, or None."""
    for step in path:
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def text_at(value: object, *path: str | int) -> str:
    found = at(value, *path)
    return found if isinstance(found, str) else ""


def count_at(value: object, *path: str | int) -> int | None:
    """Return a number of tokens; None for what cannot be one, which no sum must meet."""
    found = at(value, *path)
    return found if type(found) is int and 0 <= found <= _MOST else None
