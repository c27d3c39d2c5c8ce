"""Merges the rows of each key into one, column by column, in Arrow: within Spark's tasks, or here for few rows.

Spark's own aggregation falls back to sorting and merges row by row for text columns: a third more work for tables
this wide, and rules that only a JVM can test.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DateType, StructField, StructType

from tinyagi.pipeline.tables.model import DATE, LAST_EVENT_ID, Merge, Table
from tinyagi.pipeline.transform.columns import spark_schema
from tinyagi.pipeline.transform.rows import Rows, apply, ordered, union

LAST_EVENT: Final = LAST_EVENT_ID.name
ARRIVAL: Final = "event_date"
"""The date of the event itself: the partition of a row whose conversation start is unknown."""

Positions = npt.NDArray[np.int64]


def fold(stored: Rows, updates: Rows, table: Table) -> Rows:
    """One row per key, from stored rows and from update rows, one per later event; both in the same place.

    A column that an update lacks is null there. Derived columns are not filled in here.
    """
    (key,) = table.key
    merges = {column.name: column.merge for column in table.columns if column.merge is not Merge.DERIVED}
    merges |= {DATE: Merge.FIRST, ARRIVAL: Merge.FIRST}
    fields = [field for field in spark_schema(table).fields if field.name in merges]
    shape = StructType([*fields, StructField(ARRIVAL, DateType())])
    last_texts = {column.name for column in table.columns if column.merge is Merge.LAST and column.type == "string"}
    merge_rows = MergeRows(key, tuple((name, merges[name]) for name in shape.names if name != key))
    rows = ordered(union(stored, updates, shape), shape, key, LAST_EVENT)
    folded = StructType([field for field in shape.fields if field.name != ARRIVAL])
    return apply(rows, FoldRows(merge_rows, frozenset(last_texts)), folded)


@dataclass(frozen=True, slots=True)
class FoldRows:
    """For `mapInArrow`: takes rows ordered by key and event, and yields the folded ones."""

    merge: "MergeRows"
    last_texts: frozenset[str]
    """Columns in which an empty text means null."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Drop rows without a key.
        with_key = (batch.filter(batch.column(self.merge.key).is_valid()) for batch in batches)
        for merged in self.merge(with_key):
            columns = dict(zip(merged.schema.names, merged.columns, strict=True))
            # A row without a conversation's day gets the day of its first event.
            arrival = columns.pop(ARRIVAL)
            columns[DATE] = pc.coalesce(columns[DATE], arrival)
            for name in self.last_texts:
                text = columns[name]
                columns[name] = pc.if_else(pc.equal(text, ""), pa.scalar(None, text.type), text)
            yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


@dataclass(frozen=True, slots=True)
class MergeRows:
    """For `DataFrame.mapInArrow`: takes a task's rows, ordered by key and event, and yields one row per key."""

    key: str
    merges: tuple[tuple[str, Merge], ...]
    """Every other column, and how it merges."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        open_row: pa.RecordBatch | None = None
        for batch in batches:
            if not batch.num_rows:
                continue
            # The last key may continue in the next batch. Merging is associative, so one merged row is enough to carry
            # over.
            merged = self.merge(batch if open_row is None else pa.concat_batches([open_row, batch]))
            yield merged.slice(0, merged.num_rows - 1)
            open_row = merged.slice(merged.num_rows - 1)
        if open_row is not None:
            yield open_row

    def merge(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """One row per key; `rows` must not be empty."""
        keys = rows.column(self.key)
        is_new = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)
        starts = np.concatenate(([0], np.flatnonzero(is_new) + 1))
        columns = [_merged(merge, rows.column(name), starts) for name, merge in self.merges]
        names = [self.key, *(name for name, _ in self.merges)]
        return pa.RecordBatch.from_arrays([keys.take(pa.array(starts)), *columns], names=names)


def _merged(merge: Merge, column: pa.Array, starts: Positions) -> pa.Array:
    match merge:
        case Merge.FIRST:
            return _first_or_last(column, starts, np.minimum, nowhere=len(column))
        case Merge.LAST:
            return _first_or_last(column, starts, np.maximum, nowhere=-1)
        case Merge.SUM:
            return _aggregated(column, starts, "sum")
        case Merge.MAX:
            return _aggregated(column, starts, "max")
        case Merge.GATHER:
            return _concatenated(column, starts)
        case Merge.DERIVED:
            raise AssertionError("a derived column is computed, not merged")
        case _:
            assert_never(merge)


def _first_or_last(column: pa.Array, starts: Positions, choose: np.ufunc, nowhere: int) -> pa.Array:
    """The first or last value of each group that is not null; null when all are."""
    has_value = column.is_valid().to_numpy(zero_copy_only=False)
    positions = choose.reduceat(np.where(has_value, np.arange(len(column)), nowhere), starts)
    return column.take(pa.array(np.where(positions == nowhere, starts, positions)))


def _aggregated(column: pa.Array, starts: Positions, function: str) -> pa.Array:
    """Null for a group without a value."""
    sizes = np.diff(starts, append=len(column))
    groups = pa.table({"group": np.repeat(np.arange(len(starts)), sizes), "value": column})
    found = groups.group_by("group", use_threads=False).aggregate([("value", function)])
    return found.column(f"value_{function}").combine_chunks().cast(column.type)


def _concatenated(column: pa.Array, starts: Positions) -> pa.Array:
    """The arrays of each group, concatenated; empty for a group without any."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    ends = np.concatenate(([0], np.cumsum(lengths)))
    offsets = pa.array(np.append(ends[starts], ends[-1]), pa.int32())
    return pa.ListArray.from_arrays(offsets, column.flatten(), type=column.type)
