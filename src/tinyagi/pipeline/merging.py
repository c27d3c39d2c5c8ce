"""Rows of one key merged into one, a column at a time, in the tasks that have them.

Spark's own aggregation cannot keep texts in place and falls back to sorting and merging row by row: a third more work
for tables as wide as ours, and rules that only a JVM can try.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tinyagi.pipeline.tables.model import Merge

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Merging:
    """For `DataFrame.mapInArrow`: takes a task's rows, ordered by key and event, and yields one row per key."""

    key: str
    merges: tuple[tuple[str, Merge], ...]
    """Every other column, and how it merges."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        open_row: pa.RecordBatch | None = None
        for batch in batches:
            if not batch.num_rows:
                continue
            # The last key may go on in the next batch. A merged row stands for the rows it was made of, so it waits as
            # one, however many there are.
            merged = self.merge(batch if open_row is None else pa.concat_batches([open_row, batch]))
            yield merged.slice(0, merged.num_rows - 1)
            open_row = merged.slice(merged.num_rows - 1)
        if open_row is not None:
            yield open_row

    def merge(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """One row per key, of at least one row."""
        keys = rows.column(self.key)
        is_new = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)
        starts = np.concatenate(([0], np.flatnonzero(is_new) + 1))
        columns = [_merged(merge, rows.column(name), starts) for name, merge in self.merges]
        names = [self.key, *(name for name, _ in self.merges)]
        return pa.RecordBatch.from_arrays([keys.take(pa.array(starts)), *columns], names=names)


def _merged(merge: Merge, column: pa.Array, starts: Places) -> pa.Array:
    match merge:
        case Merge.FIRST:
            return _chosen(column, starts, np.minimum, nowhere=len(column))
        case Merge.LAST:
            return _chosen(column, starts, np.maximum, nowhere=-1)
        case Merge.SUM:
            return _aggregated(column, starts, "sum")
        case Merge.MAX:
            return _aggregated(column, starts, "max")
        case Merge.GATHER:
            return _gathered(column, starts)
        case Merge.DERIVED:
            raise AssertionError("a derived column is worked out, not merged")
        case _:
            assert_never(merge)


def _chosen(column: pa.Array, starts: Places, choose: np.ufunc, nowhere: int) -> pa.Array:
    """Of each group the value at its lowest or highest place that has one; null where all its places are."""
    is_said = column.is_valid().to_numpy(zero_copy_only=False)
    places = choose.reduceat(np.where(is_said, np.arange(len(column)), nowhere), starts)
    return column.take(pa.array(np.where(places == nowhere, starts, places)))


def _aggregated(column: pa.Array, starts: Places, function: str) -> pa.Array:
    """Null for a group without a value."""
    sizes = np.diff(starts, append=len(column))
    groups = pa.table({"group": np.repeat(np.arange(len(starts)), sizes), "value": column})
    found = groups.group_by("group", use_threads=False).aggregate([("value", function)])
    return found.column(f"value_{function}").combine_chunks().cast(column.type)


def _gathered(column: pa.Array, starts: Places) -> pa.Array:
    """The arrays of each group one after another; empty for a group without any."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    ends = np.concatenate(([0], np.cumsum(lengths)))
    offsets = pa.array(np.append(ends[starts], ends[-1]), pa.int32())
    return pa.ListArray.from_arrays(offsets, column.flatten(), type=column.type)
