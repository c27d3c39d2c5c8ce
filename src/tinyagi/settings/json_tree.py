"""Settings as JSON trees: decoding and encoding in UTF-8 with each name once, objects inside, patches, differences."""

import json
from collections.abc import Collection, Mapping
from typing import Final

from tinyagi.settings.errors import InvalidSettings

MAX_JSON_DEPTH: Final = 64
"""A deeper tree is a mistake, or an attack on code that walks it recursively."""
_TOO_DEEP: Final = f"objects are nested more than {MAX_JSON_DEPTH} deep"


def merged(stored: Mapping[str, object], patch: Mapping[str, object]) -> dict[str, object]:
    """Return the stored object with the patch applied; neither is changed, and names keep their order."""
    result = dict(stored)
    for name, value in patch.items():
        if value is None:
            # A null in the patch does not remove a null in the file.
            if result.get(name) is not None:
                del result[name]
        elif isinstance(value, Mapping):
            before = result.get(name)
            result[name] = merged(before if isinstance(before, Mapping) else {}, value)
        else:
            result[name] = value
    return result


def replacing(stored: Mapping[str, object], wanted: Mapping[str, object]) -> dict[str, object]:
    """Return the patch that turns the stored object into the wanted one."""
    patch: dict[str, object] = dict.fromkeys(name for name in stored if name not in wanted)
    for name, value in wanted.items():
        before = stored.get(name)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            patch[name] = replacing(before, value)
        else:
            patch[name] = value
    return patch


def object_at(raw: Mapping[str, object], *path: str) -> Mapping[str, object]:
    """Return the object at this path; empty when there is none or the value is not an object."""
    found: object = raw
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def changed_names(before: object, after: object, prefix: str) -> tuple[str, ...]:
    """Return the dotted names of the values that differ, each starting with the prefix."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return () if before == after else (prefix,)
    names = dict.fromkeys([*before, *after])
    return tuple(
        changed for name in names for changed in changed_names(before.get(name), after.get(name), f"{prefix}.{name}")
    )


class JsonSyntaxError(Exception):
    """The text is not valid settings JSON; says where."""

    def __init__(self, reason: str, line: int = 1, column: int = 1) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.column = column


def decode(content: bytes) -> dict[str, object]:
    """Return the object in the text; raise JsonSyntaxError when it is not a valid one."""
    try:
        # Some editors write a byte order mark first.
        text = content.decode("utf-8-sig")
        found = json.loads(text, object_pairs_hook=_each_name_once, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise JsonSyntaxError(error.msg, error.lineno, error.colno) from None
    except UnicodeDecodeError as error:
        before = content[: error.start]
        column = error.start - before.rfind(b"\n")
        raise JsonSyntaxError("this is not UTF-8", before.count(b"\n") + 1, column) from None
    except RecursionError:
        raise JsonSyntaxError(_TOO_DEEP) from None
    except ValueError as error:
        raise JsonSyntaxError(str(error)) from None
    if not isinstance(found, dict):
        raise JsonSyntaxError("the settings are one object: begin with {")
    if _is_too_deep(found):
        raise JsonSyntaxError(_TOO_DEEP)
    return found


def encode(raw: Mapping[str, object]) -> bytes:
    """Return the text of an object; raise InvalidSettings for values that JSON in UTF-8 cannot hold."""
    check_depth(raw)
    try:
        return f"{json.dumps(raw, indent=2, ensure_ascii=False, allow_nan=False)}\n".encode()
    except UnicodeEncodeError:
        raise InvalidSettings(
            ["a text holds half of a character (a lone surrogate), which no file can store"]
        ) from None
    except ValueError:
        raise InvalidSettings(["a number is infinite or NaN, which JSON cannot hold"]) from None


def check_depth(patch: Mapping[str, object]) -> None:
    """Raise InvalidSettings when the object is nested too deep."""
    if _is_too_deep(patch):
        raise InvalidSettings([_TOO_DEEP])


def _is_too_deep(raw: object) -> bool:
    layer = [raw]
    for _ in range(MAX_JSON_DEPTH):
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
        raise ValueError(f"{twice!r} occurs twice in one object; remove one")
    return found


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number in JSON")
