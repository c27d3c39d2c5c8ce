"""Events out of bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagi.providers.wires.sse import MAX_EVENT, EventReader, EventTooLong, ServerEvent

STREAM = (
    "\ufeffevent: greeting\ndata: grüße 😀\n\n"
    ": keep-alive\n\n"
    "data: one\ndata:two\nid: 7\nretry: 5\n\n"
    "event: nothing\n\n"
    "data\n\n"
    "data: last"
)
EVENTS = [
    ServerEvent("greeting", "grüße 😀"),
    ServerEvent("", "one\ntwo"),
    ServerEvent("", ""),
    ServerEvent("", "last"),
]


def _read(*chunks: bytes) -> list[ServerEvent]:
    reader = EventReader()
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    return [*events, *reader.finish()]


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_the_same_however_the_bytes_are_cut(ends: str, size: int) -> None:
    data = STREAM.replace("\n", ends).encode()
    assert _read(*(data[start : start + size] for start in range(0, len(data), size))) == EVENTS


@given(st.binary(max_size=300), st.integers(0, 300))
def test_no_bytes_break_the_reader_and_no_cut_changes_what_it_reads(data: bytes, cut: int) -> None:
    assert _read(data[:cut], data[cut:]) == _read(data)


@pytest.mark.parametrize("part", [b"x" * 1000, b"data: " + b"x" * 993 + b"\n"], ids=["line", "event"])
def test_what_does_not_end_is_refused(part: bytes) -> None:
    with pytest.raises(EventTooLong):
        _read(*[part] * (MAX_EVENT // 1000 + 2))


def test_comments_are_never_too_many() -> None:
    reader = EventReader()
    for _ in range(MAX_EVENT // 1000 + 2):
        assert list(reader.feed(b": " + b"x" * 998 + b"\n")) == []
