"""Tolerant reading of foreign JSON: a field that is missing or has another type counts as absent."""

import json
from typing import Final

from tinyagi.domain.errors import TinyAGIError

_MAX_AMOUNT: Final = 1e9

_MAX_COUNT: Final = 10**12


class NotJson(TinyAGIError):
    """The text is not JSON."""


def parse_json(text: str) -> object:
    """Return the JSON value; raise NotJson when there is none."""
    try:
        # The standard library's parser keeps lone surrogates, which other parsers refuse; `clean` replaces them.
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        raise NotJson("text that is not JSON") from None
    return value


def json_at(value: object, *path: str | int) -> object:
    """Return the value at the path of keys and indexes, or None."""
    for step in path:
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def text_at(value: object, *path: str | int) -> str:
    found = json_at(value, *path)
    return found if isinstance(found, str) else ""


def count_at(value: object, *path: str | int) -> int | None:
    """Return a number of tokens; None for any other value, so that sums stay valid."""
    found = json_at(value, *path)
    return found if type(found) is int and 0 <= found <= _MAX_COUNT else None


def amount_at(value: object, *path: str | int) -> float:
    """An amount of money; 0 for any other value, so that sums stay valid."""
    found = json_at(value, *path)
    return float(found) if isinstance(found, float | int) and 0 <= found < _MAX_AMOUNT else 0.0
