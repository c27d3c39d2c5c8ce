"""gold.memory_chunks: what agents were asked and have answered, in pieces that a search can weigh.

Every line is cut by itself, so the chunks of a day follow from the lines of that day alone. It is cut in Python, where
questions are taken apart too: what a term is has one definition.
"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows

from tinyagi.pipeline.frames import spark_schema
from tinyagi.pipeline.tables.gold import MEMORY_CHUNKS
from tinyagi.pipeline.terms import IDEOGRAPHS, terms_of

SIZE: Final = 120
"""Words in a chunk."""
OVERLAP: Final = 30
"""Words that a chunk repeats of the one before it: what is found should not stand on an edge."""
MOST_CHARACTERS: Final = 4_000
"""Of the text that is shown; its words are all there."""

_STEP: Final = SIZE - OVERLAP
# Keeps the blanks with the word before them, so that the pieces joined are the text again.
_BREAK: Final = re.compile(rf"(?<=\s)(?=\S)|(?<=[{IDEOGRAPHS}])(?=[{IDEOGRAPHS}])")


class _Chunk(NamedTuple):
    line: int
    """Its place in the batch."""
    number: int
    text: str
    terms: list[tuple[str, int]]


def memory_chunks(lines: DataFrame) -> DataFrame:
    """Of rows of silver.agent_messages; what was erased, and what has no words, leaves nothing."""
    told = lines.where(F.col("content").isNotNull()).select(
        F.col("agent_id").alias("agent"),
        F.col("id").alias("history_id"),
        "role",
        "message_id",
        "conversation_id",
        "created_at",
        "content",
        "date",
    )
    return told.mapInArrow(_cut_lines, spark_schema(MEMORY_CHUNKS))


def _cut_lines(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for lines in batches:
        texts = lines.column("content").to_pylist()
        chunks = [chunk for line, text in enumerate(texts) for chunk in _cut(line, text)]
        # Without the text: a long one would be there once for each of its chunks.
        others = lines.drop_columns(["content"]).take(pa.array([chunk.line for chunk in chunks], pa.int64()))
        ids = others.column("history_id").to_pylist()
        columns = dict(zip(others.schema.names, others.columns, strict=True)) | {
            "chunk": pa.array([f"{line}.{chunk.number}" for line, chunk in zip(ids, chunks, strict=True)], pa.string()),
            "text": pa.array([chunk.text for chunk in chunks], pa.string()),
            "terms": _terms([chunk.terms for chunk in chunks]),
            "length": pa.array([sum(count for _, count in chunk.terms) for chunk in chunks], pa.int32()),
        }
        names = [column.name for column in MEMORY_CHUNKS.all_columns]
        yield pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)


def _cut(line: int, text: str) -> Iterator[_Chunk]:
    for number, piece in enumerate(_pieces(text.strip()), 1):
        terms = sorted(Counter(terms_of(piece)).items())
        if terms:
            yield _Chunk(line, number, piece[:MOST_CHARACTERS], terms)


def _pieces(text: str) -> list[str]:
    """Overlapping runs of words; the last one is not shorter than the overlap."""
    # Most lines are short, and finding the breaks is most of the work.
    if text.isascii() and len(text.split()) <= SIZE:
        return [text]
    words = _BREAK.split(text)
    return ["".join(words[start : start + SIZE]).strip() for start in range(0, max(len(words) - OVERLAP, 1), _STEP)]


def _terms(by_chunk: list[list[tuple[str, int]]]) -> pa.Array:
    """Column by column: Arrow takes ten times as long for nested objects."""
    words = pa.array([term for terms in by_chunk for term, _ in terms], pa.string())
    counts = pa.array([count for terms in by_chunk for _, count in terms], pa.int32())
    offsets = pa.array([0, *accumulate(map(len, by_chunk))], pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays([words, counts], names=["term", "count"]))
