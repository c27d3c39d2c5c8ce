"""How settings are written: JSON in UTF-8, each name once."""

import json
from collections.abc import Collection, Mapping
from typing import Final

from tinyagi.settings.errors import InvalidSettings

DEEPEST: Final = 64
"""Objects within objects; what is deeper is a mistake, or an attack on whoever walks through it."""
_TOO_DEEP: Final = f"objects stand more than {DEEPEST} deep within each other"


class Unreadable(Exception):
    """Where the text stops being JSON."""

    def __init__(self, reason: str, line: int = 1, column: int = 1) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.column = column


def decode(content: bytes) -> dict[str, object]:
    """Return the object that the text holds; raise Unreadable when it is none."""
    try:
        # Editors of some systems put a byte order mark in front.
        text = content.decode("utf-8-sig")
        found = json.loads(text, object_pairs_hook=_each_name_once, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise Unreadable(error.msg, error.lineno, error.colno) from None
    except UnicodeDecodeError as error:
        before = content[: error.start]
        column = error.start - before.rfind(b"\n")
        raise Unreadable("this is not UTF-8", before.count(b"\n") + 1, column) from None
    except RecursionError:
        raise Unreadable(_TOO_DEEP) from None
    except ValueError as error:
        raise Unreadable(str(error)) from None
    if not isinstance(found, dict):
        raise Unreadable("the settings are one object: begin with {")
    if _is_too_deep(found):
        raise Unreadable(_TOO_DEEP)
    return found


def encode(raw: Mapping[str, object]) -> bytes:
    """Return the text for an object; raise InvalidSettings for what JSON in UTF-8 cannot hold."""
    check_depth(raw)
    try:
        return f"{json.dumps(raw, indent=2, ensure_ascii=False, allow_nan=False)}\n".encode()
    except UnicodeEncodeError:
        raise InvalidSettings(
            ["a text holds half of a character (a lone surrogate), which no file can store"]
        ) from None
    except ValueError:
        raise InvalidSettings(["a number is infinite or none at all, which JSON cannot hold"]) from None


def check_depth(patch: Mapping[str, object]) -> None:
    """Raise InvalidSettings when whoever walks through the object might get lost."""
    if _is_too_deep(patch):
        raise InvalidSettings([_TOO_DEEP])


def _is_too_deep(raw: object) -> bool:
    layer = [raw]
    for _ in range(DEEPEST):
        layer = [item for value in layer for item in _inside(value)]
    return bool(layer)


def _inside(value: object) -> Collection[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _each_name_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise ValueError(f"{twice!r} stands twice in one object, and only one can count")
    return found


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no number that JSON knows")
