"""Parquet files of a table, one or more per day, written in place by pyarrow: within Spark's tasks, or here.

Not by Spark's writer: Hadoop's local file system starts a `chmod` process for every file and folder, which for a
table with a file per day costs more than writing the rows. A file has a unique name and stays invisible until a commit
names it, so it is written where it will stay. Imports pyarrow only, because tasks import it.
"""

import datetime as dt
import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tinyagi.pipeline.tables.model import DATE, TIMESTAMP, Table
from tinyagi.system.files import sync

ROWS_PER_FILE: Final = 250_000
"""About 32 MB of messages. The next run rewrites the whole file of a changed row."""
MOST_OPEN: Final = 200
"""Files that a task keeps open at once."""

Bound = int | float | str | dt.datetime

_BOUNDED: Final = frozenset({"long", "int", "string", TIMESTAMP})
_LONGEST_BOUND: Final = 128
"""Characters; a longer text is not stored as a bound."""
_ID: Final = "id"

WRITTEN: Final = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("statistics", pa.string()),
        pa.field("id_sum", pa.int64()),
    ]
)
WRITTEN_DDL: Final = "path string, size long, statistics string, id_sum long"


@dataclass(frozen=True, slots=True)
class FileStatistics:
    rows: int
    minimum: Mapping[str, Any] = field(default_factory=dict)
    """A `Bound` of the column's own type."""
    maximum: Mapping[str, Any] = field(default_factory=dict)
    nulls: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> str:
        """In the form of Delta's log."""
        return json.dumps(
            {
                "numRecords": self.rows,
                "minValues": dict(self.minimum),
                "maxValues": dict(self.maximum),
                "nullCount": dict(self.nulls),
            },
            default=_in_the_log,
        )


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A durable file in a table's folder that no version of the table names yet."""

    path: str
    """Relative to the table's folder: `date=…/….parquet`."""
    size: int
    statistics: str
    """`FileStatistics` in the form of Delta's log."""
    id_sum: int
    """The sum of the column `id`; 0 in a table without it."""

    @property
    def day(self) -> str:
        """The partition's value; "None" when its rows have no date."""
        return self.path.partition("/")[0].removeprefix(f"{DATE}=")

    @property
    def rows(self) -> int:
        return int(self._known["numRecords"])

    @property
    def last_id(self) -> int:
        """The largest value of the column `id`."""
        return int(self._known["maxValues"][_ID])

    @property
    def _known(self) -> dict[str, Any]:
        known: dict[str, Any] = json.loads(self.statistics)
        return known


def bounded_columns(table: Table) -> frozenset[str]:
    """Columns whose bounds go into the table's log. Never personal ones: `forget` does not rewrite a log."""
    return frozenset(column.name for column in table.columns if column.type in _BOUNDED and not column.personal)


@dataclass(frozen=True, slots=True)
class FilesByDay:
    """For `mapInArrow`: writes rows to `date=…/*.parquet`, syncs the files, and yields what a commit has to know.

    Files of failed or repeated tasks stay; only the yielded ones count, and `vacuum` deletes the others.
    """

    folder: str
    bounded: frozenset[str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        open_files: dict[object, _File] = {}
        written: list[WrittenFile] = []
        for batch in batches:
            for day, rows in _by_day(batch):
                file = open_files.pop(day, None) or _File(Path(self.folder), day, rows.schema)
                file.write(rows)
                if file.rows < ROWS_PER_FILE:
                    # Reinserted last, so the first is the least recently written.
                    open_files[day] = file
                else:
                    written.append(file.close(self.bounded))
                if len(open_files) > MOST_OPEN:
                    written.append(open_files.pop(next(iter(open_files))).close(self.bounded))
        written += [file.close(self.bounded) for file in open_files.values()]
        # Sync at the end: the disk has written most of them by then.
        for one in written:
            sync(Path(self.folder) / one.path)
        columns = [[getattr(one, name) for one in written] for name in WRITTEN.names]
        yield pa.record_batch(columns, schema=WRITTEN)


def write_files(folder: Path, table: Table, batches: Iterator[pa.RecordBatch]) -> list[WrittenFile]:
    """Write rows as files of a table, in this process."""
    (written,) = FilesByDay(str(folder), bounded_columns(table))(batches)
    return [WrittenFile(**row) for row in written.to_pylist()]


class _File:
    def __init__(self, folder: Path, day: object, schema: pa.Schema) -> None:
        self._path = f"{DATE}={day}/part-{uuid.uuid4().hex}.parquet"
        self._target = folder / self._path
        self._target.parent.mkdir(parents=True, exist_ok=True)
        self._footers: list[pq.FileMetaData] = []
        self._writer = pq.ParquetWriter(self._target, schema, compression="zstd", metadata_collector=self._footers)
        self._id_sum = 0
        self.rows = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self._writer.write_batch(rows)
        self.rows += rows.num_rows
        if _ID in rows.schema.names:
            self._id_sum += pc.sum(rows.column(_ID)).as_py() or 0

    def close(self, bounded: frozenset[str]) -> WrittenFile:
        self._writer.close()
        statistics = statistics_of(self._footers[0], bounded)
        return WrittenFile(self._path, self._target.stat().st_size, statistics.to_json(), self._id_sum)


def _by_day(batch: pa.RecordBatch) -> Iterator[tuple[object, pa.RecordBatch]]:
    """The rows of each day, without the date column: the folder's name holds it."""
    days = batch.column(DATE)
    rest = batch.drop_columns([DATE])
    found = pc.unique(days).to_pylist()
    for day in found:
        yield day, rest if len(found) == 1 else rest.filter(pc.is_in(days, pa.array([day], days.type)))


def statistics_of(footer: pq.FileMetaData, bounded: frozenset[str]) -> FileStatistics:
    """Statistics from a file's footer, without reading its rows."""
    found: dict[str, list[pq.Statistics | None]] = {}
    for index in range(footer.num_row_groups):
        row_group = footer.row_group(index)
        for place in range(row_group.num_columns):
            column = row_group.column(place)
            if column.path_in_schema in bounded:
                found.setdefault(column.path_in_schema, []).append(column.statistics)
    minimum: dict[str, Bound] = {}
    maximum: dict[str, Bound] = {}
    nulls: dict[str, int] = {}
    for name, groups in found.items():
        counted = [group for group in groups if group is not None and group.has_null_count]
        if len(counted) < len(groups):
            continue
        nulls[name] = sum(group.null_count for group in counted)
        with_bounds = [group for group in counted if group.has_min_max]
        # If one row group has values but no bounds, the bounds of the others would be wrong for the file.
        if not with_bounds or any(not group.has_min_max and group.num_values for group in counted):
            continue
        low, high = min(group.min for group in with_bounds), max(group.max for group in with_bounds)
        if not isinstance(high, str) or max(len(low), len(high)) <= _LONGEST_BOUND:
            minimum[name], maximum[name] = low, high
    return FileStatistics(footer.num_rows, minimum, maximum, nulls)


def _in_the_log(time: dt.datetime) -> str:
    """A bound as Delta writes it. Readers allow for the microseconds that are cut off."""
    return time.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
