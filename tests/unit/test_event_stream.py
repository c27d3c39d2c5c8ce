"""The reader of server-sent events."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagi.domain.event_stream import MAX_EVENT, EventReader, EventTooLong, ServerEvent

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
    ServerEvent("", "one\ntwo", "7"),
    ServerEvent("", ""),
    ServerEvent("", "last"),
]


def _read(*chunks: bytes) -> list[ServerEvent]:
    reader = EventReader()
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    return [*events, *reader.finish()]


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_chunk_boundaries_do_not_change_the_events(ends: str, size: int) -> None:
    data = STREAM.replace("\n", ends).encode()
    assert _read(*(data[start : start + size] for start in range(0, len(data), size))) == EVENTS


@given(st.binary(max_size=300), st.integers(0, 300))
def test_any_bytes_are_read_the_same_in_one_or_two_chunks(data: bytes, cut: int) -> None:
    assert _read(data[:cut], data[cut:]) == _read(data)


@pytest.mark.parametrize("part", [b"x" * 1000, b"data: " + b"x" * 993 + b"\n"], ids=["line", "event"])
def test_an_endless_line_or_event_is_refused(part: bytes) -> None:
    with pytest.raises(EventTooLong):
        _read(*[part] * (MAX_EVENT // 1000 + 2))


def test_comments_do_not_count_towards_the_limit() -> None:
    reader = EventReader()
    for _ in range(MAX_EVENT // 1000 + 2):
        assert list(reader.feed(b": " + b"x" * 998 + b"\n")) == []


def test_an_id_without_data_updates_the_last_id_only() -> None:
    reader = EventReader("40")

    assert list(reader.feed(b"id: 41\ndata: x\n\nid: 42\n\n")) == [ServerEvent("", "x", "41")]
    assert reader.last_id == "42"


def test_an_unfinished_event_does_not_update_the_last_id() -> None:
    reader = EventReader()

    assert list(reader.feed(b"id: 41\ndata: x\n\nid: 42\ndata: y\n")) == [ServerEvent("", "x", "41")]
    assert reader.last_id == "41"


def test_an_event_does_not_inherit_the_id_before_it() -> None:
    assert [event.id for event in _read(b"id: 7\ndata: x\n\ndata: y\n\n")] == ["7", None]


def test_a_line_separator_inside_data_is_data() -> None:
    assert _read("data: a\u2028b\x85c\n\n".encode()) == [ServerEvent("", "a\u2028b\x85c")]


def test_the_limit_applies_to_each_event() -> None:
    reader = EventReader(longest=100)

    assert len(list(reader.feed(b"data: x\n\n" * 100))) == 100
