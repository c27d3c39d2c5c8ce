"""Parses server-sent events from chunks of any size, and keeps the id to resume from."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tinyagi.domain.errors import TinyAGIError

MAX_EVENT: Final = 1_048_576
"""Bytes of one line and of one event's data; a stream with more is not an event stream of this API."""

_BYTE_ORDER_MARK: Final = "\ufeff"


class EventTooLong(TinyAGIError):
    """A line or an event exceeds the limit that keeps memory bounded."""


class ServerEvent(NamedTuple):
    name: str
    """Empty when the stream sends none."""
    data: str
    id: str | None = None
    """None when the event has no id."""


class EventReader:
    """Turns bytes into events. Lines end in CR, LF or both; a chunk may end inside a character."""

    def __init__(self, last_id: str | None = None, *, longest: int = MAX_EVENT) -> None:
        self.last_id = last_id
        """The id to resume from after this connection; an event without data moves it as well."""
        self._longest = longest
        self._line: list[bytes] = []
        self._name = ""
        self._id: str | None = None
        self._data: list[str] = []
        self._line_size = 0
        self._data_size = 0
        self._after_cr = False
        self._at_start = True

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """Yield the events that these bytes complete; raise EventTooLong for an event beyond the limit."""
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._after_cr = False
        for part in chunk.splitlines(keepends=True):
            self._after_cr = part.endswith(b"\r")
            self._line.append(part)
            self._line_size += len(part)
            if self._line_size + self._data_size > self._longest:
                raise EventTooLong(f"an event of more than {self._longest:,} bytes")
            if part.endswith((b"\r", b"\n")):
                yield from self._end_line()

    def finish(self) -> Iterator[ServerEvent]:
        """Yield the last event when the stream ended without its closing empty line."""
        if self._line:
            yield from self._end_line()
        yield from self._dispatch()

    def _end_line(self) -> Iterator[ServerEvent]:
        line = b"".join(self._line).rstrip(b"\r\n").decode("utf-8", "replace")
        size, self._line_size = self._line_size, 0
        self._line.clear()
        if self._at_start:
            line = line.removeprefix(_BYTE_ORDER_MARK)
            self._at_start = False
        if not line:
            yield from self._dispatch()
            return
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
            self._data_size += size
        elif field == "event":
            self._name = value
        elif field == "id" and "\0" not in value:
            self._id = value

    def _dispatch(self) -> Iterator[ServerEvent]:
        event, is_complete = ServerEvent(self._name, "\n".join(self._data), self._id), bool(self._data)
        if self._id is not None:
            self.last_id = self._id
        self._name, self._id, self._data_size = "", None, 0
        self._data.clear()
        if is_complete:
            yield event
