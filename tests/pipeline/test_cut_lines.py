"""The chunks of many lines at once equal those of each line alone, for any texts. Without Spark."""

import datetime as dt
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tinyagi.pipeline.tables.gold import MEMORY_CHUNKS
from tinyagi.pipeline.tables.schema import arrow_schema
from tinyagi.pipeline.transform import text_chunks
from tinyagi.pipeline.transform.memory_chunks import cut_lines
from tinyagi.pipeline.transform.text_chunks import LONGEST_TERM, MOST_CHARACTERS, SIZE, STOP_WORDS, chunks_of

TODAY: Final = dt.date(2026, 1, 5)
SENT: Final = dt.datetime(2026, 1, 5, 12, tzinfo=dt.UTC)
SHAPE: Final = pa.schema(
    [
        ("agent", pa.string()),
        ("history_id", pa.int64()),
        ("role", pa.string()),
        ("message_id", pa.string()),
        ("conversation_id", pa.string()),
        ("created_at", pa.timestamp("us", tz="UTC")),
        ("content", pa.string()),
        ("date", pa.date32()),
    ]
)
SPACES: Final = "".join(chr(code) for code in range(128) if chr(code).isspace())
CONTROLS: Final = "".join(chr(code) for code in (*range(32), 127))
ODD: Final = "\u00a0\u0085\u2028éßſİıẞσςΣ٣½²नมำ日本ひラ한\u0301\u200d🙂"

Row = dict[str, Any]

ascii_texts = st.text(st.characters(max_codepoint=127), max_size=40)
words = st.one_of(
    st.sampled_from(sorted(STOP_WORDS)),
    st.sampled_from(["a", "Z", "9", "42", "x_y", "_", "__init__", "don't", "A1b2", "THE", "0", "\0", "\0\0"]),
    st.sampled_from([SIZE, LONGEST_TERM, LONGEST_TERM + 1, MOST_CHARACTERS + 1]).map("w".__mul__),
    st.text(SPACES, max_size=3),
    st.text(CONTROLS, max_size=3),
    st.text(ODD, max_size=4),
    ascii_texts,
)
spaced = st.builds(str.join, st.sampled_from([" ", "\n", "\t\r\n ", "\x1c", "-", ""]), st.lists(words, max_size=20))
long = st.builds(
    lambda word, gap, times: (word + gap) * times, words, st.sampled_from(list(SPACES)), st.integers(SIZE - 2, SIZE + 2)
)
texts = st.one_of(st.none(), st.text(max_size=40), ascii_texts, spaced, long)


@settings(deadline=None, max_examples=200)
@given(st.lists(texts, max_size=12), st.lists(st.integers(0, 12), max_size=3))
@example(["one two", "two one", "", "two"], [2])
@example(["the end"], [])
@example(["end", "start"], [])
@example([" ".join(["w"] * SIZE), " ".join(["ww"] * (SIZE + 1)), "\t".join(["ww"] * SIZE)], [])
@example(["the of and", "", "\0", "_", None], [])
@example(["a\0b cc\0dd", "é" * 5, "x" * 64 + " " + "y" * 65], [1])
def test_lines_have_the_same_chunks_together_as_alone(lines: list[str | None], cuts: list[int]) -> None:
    found = [row for batch in cut_lines(iter(batches(lines, cuts))) for row in batch.to_pylist()]

    assert sorted(found, key=lambda row: (row["history_id"], row["chunk"])) == one_by_one(lines)


@settings(deadline=None)
@given(st.one_of(texts.filter(bool), st.text(ODD + SPACES, min_size=SIZE, max_size=2 * SIZE)))
def test_a_text_with_few_words_is_one_piece(text: str) -> None:
    words = text_chunks._BREAK.split(text.strip())

    if len(words) <= SIZE:
        assert list(text_chunks._pieces(text.strip())) == [text.strip()]
    else:
        assert len(text_chunks._pieces(text.strip())) > 1


def test_the_batches_have_the_columns_of_the_table() -> None:
    content = pa.array(["plain words", "größer", None], pa.large_string())
    (batch,) = batches(["", "", None])

    found = list(cut_lines(iter([batch.set_column(6, "content", content)])))

    assert [one.schema for one in found] == [arrow_schema(MEMORY_CHUNKS)] * 2
    assert [row["chunk"] for one in found for row in one.to_pylist()] == ["1.1", "2.1"]


def test_the_driver_can_cut_lines_without_spark() -> None:
    program = "import sys, tinyagi.pipeline.transform.memory_chunks; sys.exit('pyspark' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def batches(lines: Sequence[str | None], cuts: Sequence[int] = ()) -> list[pa.RecordBatch]:
    """Slices of one batch, so that a text's bytes do not begin where the buffer begins."""
    rows = [
        {
            "agent": "coder",
            "history_id": number,
            "role": "user",
            "message_id": f"m{number}",
            "created_at": SENT,
            "content": text,
            "date": TODAY,
        }
        for number, text in enumerate(lines, 1)
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=SHAPE)
    places = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    return [batch.slice(start, end - start) for start, end in pairwise(places)]


def one_by_one(lines: Sequence[str | None]) -> list[Row]:
    rows = [
        {
            "agent": "coder",
            "chunk": f"{number}.{chunk.number}",
            "history_id": number,
            "role": "user",
            "message_id": f"m{number}",
            "conversation_id": None,
            "created_at": SENT,
            "text": chunk.text,
            "terms": [{"term": term, "count": count} for term, count in chunk.terms],
            "length": sum(count for _, count in chunk.terms),
            "date": TODAY,
        }
        for number, text in enumerate(lines, 1)
        if text is not None
        for chunk in chunks_of(number, text)
    ]
    return sorted(rows, key=lambda row: (row["history_id"], row["chunk"]))
