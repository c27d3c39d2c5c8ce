"""Frames come out the same however the bytes are cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagi.client.sse import Frame, FrameReader, FrameTooLong

STREAM = (
    "\ufeffevent: connected\ndata: {}\n\n"
    ": a comment\nretry: 100\nid: 7\nevent: ä…\ndata: one\r\ndata:two\rdata\n\n"
    "id: 8\n\n"
    "data: no id of its own\n\n"
    "event: nothing\n\n"
    "id: 9\ndata:  two spaces\r\n\r\n"
).encode()
FRAMES = [
    Frame(None, "connected", "{}"),
    Frame("7", "ä…", "one\ntwo\n"),
    Frame(None, "", "no id of its own"),
    Frame("9", "", " two spaces"),
]


def read(*chunks: bytes, longest: int = 1_000) -> tuple[list[Frame], str | None]:
    reader = FrameReader(longest=longest)
    return [frame for chunk in chunks for frame in reader.feed(chunk)], reader.last_id


def test_a_whole_stream() -> None:
    assert read(STREAM) == (FRAMES, "9")


def test_one_byte_at_a_time() -> None:
    assert read(*(STREAM[place : place + 1] for place in range(len(STREAM)))) == (FRAMES, "9")


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_cut_anywhere(places: list[int]) -> None:
    cuts = [0, *sorted(places), len(STREAM)]

    assert read(*(STREAM[start:end] for start, end in pairwise(cuts))) == (FRAMES, "9")


def test_an_id_without_data_moves_the_place_to_resume_and_dispatches_nothing() -> None:
    assert read(b"id: 41\ndata: x\n\nid: 42\n\n") == ([Frame("41", "", "x")], "42")


def test_an_unfinished_frame_does_not_move_the_place_to_resume() -> None:
    assert read(b"id: 41\ndata: x\n\nid: 42\ndata: y\n") == ([Frame("41", "", "x")], "41")


def test_a_line_separator_inside_data_is_data() -> None:
    assert read("data: a\u2028b\x85c\n\n".encode()) == ([Frame(None, "", "a\u2028b\x85c")], None)


@pytest.mark.parametrize("endless", [b"data: " + b"x" * 200, b"data: x\n" * 30])
def test_a_frame_without_end_is_refused(endless: bytes) -> None:
    with pytest.raises(FrameTooLong):
        read(endless, longest=100)


def test_many_frames_are_not_one_long_frame() -> None:
    frames, _ = read(b"data: x\n\n" * 100 + b": comment\n" * 100, longest=100)

    assert len(frames) == 100
