"""Cuts lines of the history into the rows of gold.memory_chunks, in Arrow, without Spark.

Short ASCII texts, which most lines are, get their terms column by column from the bytes of all texts: a third of the
work of the rules in text_chunks.py, and the same terms. The other texts go through those rules one by one.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tinyagi.pipeline.tables.gold import MEMORY_CHUNKS
from tinyagi.pipeline.tables.schema import arrow_schema
from tinyagi.pipeline.transform.text_chunks import (
    LONGEST_TERM,
    MOST_CHARACTERS,
    SHORTEST_TERM,
    SIZE,
    STOP_WORDS,
    chunks_of,
)

_SCHEMA: Final = arrow_schema(MEMORY_CHUNKS)
_TERMS: Final = _SCHEMA.field("terms").type
_STOP_WORDS: Final = pa.array(sorted(STOP_WORDS), pa.string())

# Tables over all bytes; those from 128 occur in texts that are not ASCII only.
_IS_SPACE: Final = np.array([chr(byte).isspace() for byte in range(256)])
_IS_TERM: Final = np.array([byte < 128 and chr(byte).isalnum() for byte in range(256)])
_LOWER: Final = np.frombuffer(bytes(range(256)).lower(), np.uint8)

Counts = npt.NDArray[np.int64]


class _Bytes(NamedTuple):
    """Texts as Arrow stores them: their bytes one after the other, and where each text begins and ends."""

    values: npt.NDArray[np.uint8]
    bounds: npt.NDArray[np.int32]


def cut_lines(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The chunks of the lines: columns of the table, and `content` in place of the columns that are computed.

    Lines without words give no chunks, nor do lines whose content is null.
    """
    for lines in batches:
        texts = lines.column("content").cast(pa.string())
        others = lines.drop_columns(["content"])
        is_short = _is_short(texts)
        # A filter drops the rows for which it is null.
        for is_cut, cut in ((is_short, _cut_short), (pc.invert(is_short), _cut_others)):
            chosen = texts.filter(is_cut)
            if len(chosen):
                yield cut(chosen, others.filter(is_cut))


def _is_short(texts: pa.StringArray) -> pa.BooleanArray:
    """Whether a text is ASCII and one chunk; null for null."""
    values, bounds = _bytes_of(texts)
    begins, _ = _runs(~_IS_SPACE[values], bounds)
    return pc.and_(pc.string_is_ascii(texts), pa.array(_per_text(begins, bounds) <= SIZE))


def _cut_short(texts: pa.StringArray, others: pa.RecordBatch) -> pa.RecordBatch:
    terms, lengths = _terms_of_short(texts)
    has_terms = pa.array(lengths > 0)
    lines = others.filter(has_terms)
    stored = pc.utf8_slice_codeunits(pc.utf8_trim_whitespace(texts.filter(has_terms)), 0, MOST_CHARACTERS)
    chunks = pc.binary_join_element_wise(lines.column("history_id").cast(pa.string()), "1", ".")
    return _rows(lines, chunks, stored, terms.filter(has_terms), pa.array(lengths, pa.int32()).filter(has_terms))


def _terms_of_short(texts: pa.StringArray) -> tuple[pa.ListArray, Counts]:
    """For each ASCII text its terms with their counts, sorted, and the sum of the counts."""
    words, words_per_text = _lower_words(texts)
    coded = words.dictionary_encode()
    known = coded.dictionary
    size = pc.binary_length(known)
    is_term = pc.and_not(
        pc.and_(pc.greater_equal(size, SHORTEST_TERM), pc.less_equal(size, LONGEST_TERM)), pc.is_in(known, _STOP_WORDS)
    )
    # A number per pair of text and word, in the order of the result: sorting numbers is cheaper than sorting words.
    order = pc.sort_indices(known)
    rank = np.empty(len(known), np.int64)
    rank[order.to_numpy()] = np.arange(len(known))
    codes = coded.indices.to_numpy()
    pairs = np.repeat(np.arange(len(texts)), words_per_text) * len(known) + rank[codes]
    pairs = pairs[is_term.to_numpy(zero_copy_only=False)[codes]]
    found, counts = np.unique(pairs, return_counts=True)
    text, word = np.divmod(found, max(len(known), 1))
    terms = _term_lists(np.bincount(text, minlength=len(texts)), known.take(order).take(pa.array(word)), counts)
    return terms, np.bincount(text, weights=counts, minlength=len(texts)).astype(np.int64)


def _lower_words(texts: pa.StringArray) -> tuple[pa.StringArray, Counts]:
    """The runs of letters and digits of ASCII texts, in lower case and in order, and their number per text."""
    values, bounds = _bytes_of(texts)
    is_inside = _IS_TERM[values]
    begins, ends = _runs(is_inside, bounds)
    offsets = np.concatenate(([0], np.cumsum(ends - begins))).astype(np.int32)
    letters = _LOWER[values[is_inside]]
    words = pa.StringArray.from_buffers(len(begins), pa.py_buffer(offsets), pa.py_buffer(letters))
    return words, _per_text(begins, bounds)


def _bytes_of(texts: pa.StringArray) -> _Bytes:
    _, places, data = texts.buffers()
    bounds = np.frombuffer(places, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    stored = np.frombuffer(b"" if data is None else data, np.uint8)
    return _Bytes(stored[bounds[0] : bounds[-1]], bounds - bounds[0])


def _runs(is_inside: npt.NDArray[np.bool_], bounds: npt.NDArray[np.int32]) -> tuple[Counts, Counts]:
    """Where the runs of true values begin and end. A run never goes on into the next text."""
    joined = is_inside[1:] & is_inside[:-1]
    between = bounds[(bounds > 0) & (bounds < len(is_inside))] - 1
    joined[between] = False
    is_first, is_last = is_inside.copy(), is_inside.copy()
    is_first[1:] &= ~joined
    is_last[:-1] &= ~joined
    return np.flatnonzero(is_first), np.flatnonzero(is_last) + 1


def _per_text(begins: Counts, bounds: npt.NDArray[np.int32]) -> Counts:
    return np.diff(np.searchsorted(begins, bounds))


def _cut_others(texts: pa.StringArray, others: pa.RecordBatch) -> pa.RecordBatch:
    cut = [chunk for line, text in enumerate(texts.to_pylist()) for chunk in chunks_of(line, text)]
    lines = others.take(pa.array([chunk.line for chunk in cut], pa.int64()))
    ids = lines.column("history_id").to_pylist()
    chunks = pa.array([f"{line}.{chunk.number}" for line, chunk in zip(ids, cut, strict=True)], pa.string())
    stored = pa.array([chunk.text for chunk in cut], pa.string())
    words = pa.array([word for chunk in cut for word, _ in chunk.terms], pa.string())
    counts = [count for chunk in cut for _, count in chunk.terms]
    terms = _term_lists([len(chunk.terms) for chunk in cut], words, counts)
    lengths = pa.array([sum(count for _, count in chunk.terms) for chunk in cut], pa.int32())
    return _rows(lines, chunks, stored, terms, lengths)


def _term_lists(sizes: Iterable[int], words: pa.StringArray, counts: Sequence[int] | Counts) -> pa.ListArray:
    """Lists of terms, built column by column: Arrow needs ten times as long for nested objects."""
    offsets = pa.array([0, *accumulate(sizes)], pa.int32())
    items = pa.StructArray.from_arrays([words, pa.array(counts, pa.int32())], fields=list(_TERMS.value_type))
    return pa.ListArray.from_arrays(offsets, items, type=_TERMS)


def _rows(
    lines: pa.RecordBatch, chunks: pa.StringArray, texts: pa.StringArray, terms: pa.ListArray, lengths: pa.Int32Array
) -> pa.RecordBatch:
    columns = dict(zip(lines.schema.names, lines.columns, strict=True))
    columns |= {"chunk": chunks, "text": texts, "terms": terms, "length": lengths}
    return pa.RecordBatch.from_arrays([columns[name] for name in _SCHEMA.names], names=_SCHEMA.names).cast(_SCHEMA)
