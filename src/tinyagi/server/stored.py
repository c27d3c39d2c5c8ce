"""JSON that stands in a column as text. Other programs write such rows too, so nothing is expected of it."""

import msgspec
from pydantic import JsonValue
from pydantic_core import PydanticSerializationError, to_json


def files_of(text: str | None) -> tuple[str, ...]:
    """The paths in a JSON array; whatever is no path is left out."""
    found = _decoded(text)
    return tuple(path for path in found if isinstance(path, str)) if isinstance(found, list) else ()


def metadata_of(text: str | None) -> dict[str, JsonValue]:
    """A JSON object; empty when it is none."""
    found = _decoded(text)
    return found if isinstance(found, dict) else {}


def _decoded(text: str | None) -> JsonValue:
    if not text:
        return None
    try:
        value: JsonValue = msgspec.json.decode(text)
        # What is nested too deeply can be read and not be sent.
        to_json(value)
    except (ValueError, RecursionError, PydanticSerializationError):
        return None
    return value
