"""Server-sent events out of bytes that arrive in pieces of any size, with the id to go on from."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tinyagi.client.errors import ClientError

MAX_FRAME: Final = 16_777_216
"""Bytes of one frame; the server's largest is an answer of the length that its settings allow."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class FrameTooLong(ClientError):
    """A line or a frame does not end; reading on would fill the memory."""


class Frame(NamedTuple):
    """What a stream dispatches."""

    id: str | None
    """None when the frame has no id of its own."""
    event: str
    """Empty when the frame names none."""
    data: str


class FrameReader:
    """Takes bytes, gives frames. Lines end in CR, LF or both; a character may be cut anywhere."""

    def __init__(self, last_id: str | None = None, *, longest: int = MAX_FRAME) -> None:
        self.last_id = last_id
        """Where to go on after this connection; a frame without data moves it as well."""
        self._longest = longest
        self._rest = bytearray()
        self._after_cr = False
        self._at_start = True
        self._id: str | None = None
        self._event = ""
        self._data: list[str] = []
        self._held = 0

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """Yield the frames that these bytes complete; raise FrameTooLong rather than keep too much."""
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._after_cr = False
        for part in chunk.splitlines(keepends=True):
            self._after_cr = part.endswith(b"\r")
            self._rest += part
            if len(self._rest) + self._held > self._longest:
                raise FrameTooLong(f"The daemon sent an event of more than {self._longest:,} bytes.")
            if part.endswith((b"\r", b"\n")):
                line = bytes(self._rest).rstrip(b"\r\n")
                self._rest.clear()
                yield from self._take(line)

    def _take(self, line: bytes) -> Iterator[Frame]:
        if self._at_start:
            line = line.removeprefix(_BYTE_ORDER_MARK)
            self._at_start = False
        if not line:
            yield from self._dispatch()
            return
        field, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
            self._held += len(line)
        elif field == "event":
            self._event = value
        elif field == "id" and "\0" not in value:
            self._id = value
        # Comments, `retry` and what a later version sends are passed over.

    def _dispatch(self) -> Iterator[Frame]:
        frame, is_complete = Frame(self._id, self._event, "\n".join(self._data)), bool(self._data)
        if self._id is not None:
            self.last_id = self._id
        self._id, self._event, self._held = None, "", 0
        self._data.clear()
        if is_complete:
            yield frame
