"""One line of a log: JSON for programs, and the same for people. What a text holds never becomes a line of its own."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from tinyagi.domain.texts import one_line

LONGEST: Final = 16_384
"""Characters of a text or a trace; what is longer loses its middle."""
# Characters that JSON leaves as they are, and that a terminal or a reader of lines would obey.
_UNRULY: Final = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_KEYS: Final = {"agent": "agent", "message_id": "messageId", "conversation_id": "conversationId"}


@dataclass(frozen=True, slots=True)
class Line:
    """What one call of a logger leaves."""

    time: float
    """Seconds since the epoch."""
    level: str
    logger: str
    text: str
    about: Mapping[str, str]
    """Agent, message and conversation, where the line is about a run."""
    trace: str | None = None
    """Where an exception came from."""


def as_json(line: Line) -> str:
    """The line as one JSON object, without a line break in it or at its end."""
    fields: dict[str, object] = {
        "time": instant(line.time),
        "level": line.level,
        "logger": line.logger,
        "text": _shortened(line.text),
    }
    fields |= {key: line.about[name] for name, key in _KEYS.items() if name in line.about}
    if line.trace:
        fields["trace"] = _shortened(line.trace)
    return _UNRULY.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(fields, ensure_ascii=False))


def as_text(line: Line) -> str:
    """The line for a person in front of a terminal; a trace follows on indented lines."""
    time = datetime.fromtimestamp(line.time, UTC).astimezone().strftime("%H:%M:%S")
    return for_people(time, line.level, line.logger, line.text, line.about.get("agent"), line.trace)


def for_people(time: str, level: str, logger: str, text: str, agent: str | None, trace: str | None) -> str:
    whom = f" @{one_line(agent)}" if agent else ""
    first = f"{time} {level:<7} {one_line(logger).removeprefix('tinyagi.')}{whom}: {one_line(text, LONGEST)}"
    return "\n".join((first, *(f"    {visible(part)}" for part in (trace or "").splitlines())))


def visible(text: str) -> str:
    """The text with its blanks, and without characters that a terminal obeys."""
    return "".join(character if character.isprintable() else " " for character in text)


def instant(seconds: float) -> str:
    """A point in time as the logs write it: UTC, with milliseconds, so that lines sort as texts."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _shortened(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return f"{text[:half]} … {len(text) - LONGEST:,} characters … {text[-half:]}"
