"""The few keys we read from the front matter of a Markdown file. It is not YAML: what is more than a line is joined."""

from collections.abc import Mapping
from typing import Final

KEYS: Final = frozenset({"name", "summary", "description", "version"})

_FENCE: Final = "---"
_BLOCKS: Final = frozenset({">", "|", ">-", "|-", ">+", "|+"})


def parse(text: str) -> Mapping[str, str]:
    """Return the known keys that have a value; a text that does not start with `---` has none."""
    first, *lines = text.split("\n")
    if first.rstrip() != _FENCE:
        return {}
    parts: dict[str, list[str]] = {}
    open_value: list[str] = []
    for line in lines:
        if line.rstrip() in {_FENCE, "..."}:
            break
        if line[:1].isspace():
            open_value.append(line.strip())
            continue
        key, colon, value = line.partition(":")
        open_value = [value.strip()]
        if colon and key.strip().lower() in KEYS:
            parts[key.strip().lower()] = open_value
    return {key: value for key, lines in parts.items() if (value := _joined(lines))}


def _joined(lines: list[str]) -> str:
    if lines[0] in _BLOCKS:
        lines = lines[1:]
    value = " ".join(filter(None, lines))
    quote = value[:1]
    if quote and quote in "'\"" and len(value) > 1 and value.endswith(quote):
        return value[1:-1].replace("''" if quote == "'" else '\\"', quote).strip()
    return value
