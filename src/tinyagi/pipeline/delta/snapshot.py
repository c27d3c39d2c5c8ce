"""A table as one writer sees it between plan and commit: its files, their bounds, and how far it has come."""

import bisect
import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema

from tinyagi.pipeline.delta.log_files import sync_version
from tinyagi.pipeline.delta.statistics import Bound, FileStatistics, bounded_columns
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.schema import arrow_schema
from tinyagi.pipeline.tables.catalog import find_table
from tinyagi.pipeline.tables.model import DATE, Table
from tinyagi.system.files import make_folder, sync

APP: Final = "tinyagi"
"""Under this name each table's log holds the last event that is part of it, as a transaction version."""


@dataclass(frozen=True, slots=True)
class DataFile:
    path: str
    """Below the table's folder."""
    date: dt.date | None
    size: int
    statistics: FileStatistics


@dataclass(frozen=True, slots=True)
class Snapshot:
    table: Table
    folder: Path
    handle: DeltaTable
    through_id: int
    files: tuple[DataFile, ...]

    @property
    def version(self) -> int:
        return self.handle.version()

    def of_dates(self, dates: Collection[dt.date]) -> tuple[DataFile, ...]:
        return tuple(file for file in self.files if file.date in dates)

    def reaching(self, column: str, low: Bound, high: Bound | None = None) -> tuple[DataFile, ...]:
        """Files that may hold a value of the column between the bounds, both included."""
        return tuple(file for file in self.files if _overlaps(file.statistics, column, low, high))

    def holding(self, keys: pa.ChunkedArray) -> tuple[DataFile, ...]:
        """Files that hold at least one of these keys: by their bounds, then by a look at the column."""
        name = self.table.key[0]
        ordered = sorted(keys.to_pylist())
        near = [file for file in self.files if _any_between(ordered, file.statistics, name)]
        return tuple(file for file in near if self._holds(file, name, keys))

    def locations(self, files: Iterable[DataFile]) -> list[str]:
        return [str(self.folder / file.path) for file in files]

    def _holds(self, file: DataFile, name: str, keys: pa.ChunkedArray) -> bool:
        column = pq.read_table(self.folder / file.path, columns=[name], partitioning=None).column(name)
        return bool(pc.any(pc.is_in(column, keys.combine_chunks())).as_py())


def open_snapshot(lake: Lake, name: str) -> Snapshot:
    """The newest state of a table, which is created when it is not there. Columns it lacks are added first."""
    table = find_table(name)
    handle = _created(table, lake.path(name))
    _evolve(handle, table, lake.path(name))
    return _snapshot(table, lake.path(name), handle)


def open_pinned(lake: Lake, name: str) -> Snapshot:
    """The table as of the manifest; nothing is created or changed. Raise NotFound when it is not there."""
    return _snapshot(find_table(name), lake.path(name), lake.delta(name))


def _snapshot(table: Table, folder: Path, handle: DeltaTable) -> Snapshot:
    return Snapshot(table, folder, handle, handle.transaction_version(APP) or 0, tuple(_files(handle)))


def _created(table: Table, folder: Path) -> DeltaTable:
    if not DeltaTable.is_deltatable(str(folder)):
        make_folder(folder, 0o700)
        handle = DeltaTable.create(
            folder,
            DeltaSchema.from_arrow(arrow_schema(table)),
            partition_by=[DATE],
            name=table.name,
            description=table.meaning,
            configuration={
                # A run commits to every table: a log of single commits would soon be slow to open.
                "delta.checkpointInterval": "20",
                "delta.logRetentionDuration": "interval 7 days",
                # Also for files that others write, such as a compaction.
                "delta.dataSkippingStatsColumns": ",".join(sorted(bounded_columns(table))),
            },
        )
        sync_version(folder, handle.version())
        sync(folder)
        return handle
    return DeltaTable(folder)


def _evolve(handle: DeltaTable, table: Table, folder: Path) -> None:
    """Without this a file with a new column is accepted and the column stays invisible."""
    declared = DeltaSchema.from_arrow(arrow_schema(table))
    known = {field.name for field in handle.schema().fields}
    missing = [field for field in declared.fields if field.name not in known]
    if missing:
        handle.alter.add_columns(missing)
        sync_version(folder, handle.version())


def _files(handle: DeltaTable) -> Iterable[DataFile]:
    for row in pa.table(handle.get_add_actions()).to_pylist():
        told = FileStatistics(row["num_records"] or 0, _told(row, "min"), _told(row, "max"), _told(row, "null_count"))
        yield DataFile(row["path"], row["partition"][DATE], row["size_bytes"], told)


def _told(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What the log says; a table without any such statistics has no such column."""
    return {column: value for column, value in (row.get(name) or {}).items() if value is not None}


def _overlaps(statistics: FileStatistics, column: str, low: Bound, high: Bound | None) -> bool:
    smallest, largest = statistics.minimum.get(column), statistics.maximum.get(column)
    if smallest is None or largest is None:
        # All null, or a file of an older lake that says nothing.
        return statistics.nulls.get(column) != statistics.rows
    return largest >= low and (high is None or smallest <= high)  # type: ignore[operator]


def _any_between(keys: Sequence[object], statistics: FileStatistics, column: str) -> bool:
    smallest, largest = statistics.minimum.get(column), statistics.maximum.get(column)
    if smallest is None or largest is None:
        return True
    return bisect.bisect_left(keys, smallest) < bisect.bisect_right(keys, largest)  # type: ignore[type-var]
