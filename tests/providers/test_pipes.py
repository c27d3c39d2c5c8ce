"""Splitting and keeping the output of a child."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tinyagi.providers.pipes import TAIL, LineSplitter, OutputTail


def lines_of(chunks: list[bytes], longest: int = 100) -> tuple[list[bytes], int]:
    heard: list[bytes] = []
    lines = LineSplitter(heard.append, longest)
    for chunk in chunks:
        lines.feed(chunk)
    lines.close()
    return heard, lines.dropped_lines


@given(st.binary(max_size=60), st.lists(st.integers(0, 60)))
def test_chunk_boundaries_do_not_change_the_lines(stream: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(stream)]
    chunks = [stream[start:end] for start, end in pairwise(places)]
    assert lines_of(chunks)[0] == [line for line in stream.split(b"\n") if line.strip()]


def test_a_line_over_the_limit_is_dropped_and_the_next_one_is_read() -> None:
    assert lines_of([b"one\n" + b"x" * 80, b"x" * 80, b"x\ntwo\n"]) == ([b"one", b"two"], 1)


def test_a_stream_without_a_line_end_is_not_buffered() -> None:
    lines = LineSplitter(lambda line: None, 100)
    for _ in range(1000):
        lines.feed(b"x" * 50)
    assert len(lines._held) <= 100


def test_the_tail_keeps_the_end_without_control_characters() -> None:
    tail = OutputTail()
    tail.feed(b"y" * 10_000)
    tail.feed(b"\x1b[91m\x1b[1mError: \x1b[0mSession\x07 not\x00 found\n\x1b]0;title\x07caf\xc3\xa9 \xff\n")
    assert tail.text().endswith("Error: Session not found\ncafé")
    assert len(tail.text()) <= TAIL
