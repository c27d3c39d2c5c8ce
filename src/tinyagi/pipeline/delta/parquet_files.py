"""Parquet files per day, written by Spark's tasks with pyarrow.

Not with Spark's writer: Hadoop's local file system starts a `chmod` process for every file and folder, which for a
table with a file per day costs more than writing the rows. Imports pyarrow only, because tasks import it.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tinyagi.pipeline.tables.model import DATE
from tinyagi.system.files import sync

ROWS_PER_FILE: Final = 250_000
"""About 32 MB of messages. The next run rewrites the whole file of a changed row."""
MOST_OPEN: Final = 200
"""Files that a task keeps open at once."""

WRITTEN: Final = pa.schema([pa.field("path", pa.string()), pa.field("rows", pa.int64())])
WRITTEN_DDL: Final = "path string, rows long"


@dataclass(frozen=True, slots=True)
class FilesByDay:
    """For `DataFrame.mapInArrow`: writes a task's rows to `date=…/*.parquet`, syncs the files, and yields their paths.

    Files of failed or repeated tasks stay in the folder; only the yielded ones count.
    """

    folder: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        open_files: dict[object, _File] = {}
        written: list[tuple[str, int]] = []
        for batch in batches:
            for day, rows in _by_day(batch):
                file = open_files.pop(day, None) or _File(Path(self.folder), day, rows.schema)
                file.write(rows)
                if file.rows < ROWS_PER_FILE:
                    # Reinserted last, so the first is the least recently written.
                    open_files[day] = file
                else:
                    written.append(file.close())
                if len(open_files) > MOST_OPEN:
                    written.append(open_files.pop(next(iter(open_files))).close())
        written += [file.close() for file in open_files.values()]
        # Sync at the end: the disk has written most of them by then.
        for path, _ in written:
            sync(Path(self.folder) / path)
        paths, counts = zip(*written, strict=True) if written else ((), ())
        yield pa.record_batch([pa.array(paths, pa.string()), pa.array(counts, pa.int64())], schema=WRITTEN)


class _File:
    def __init__(self, folder: Path, day: object, schema: pa.Schema) -> None:
        self._path = f"{DATE}={day}/part-{uuid.uuid4().hex}.parquet"
        target = folder / self._path
        target.parent.mkdir(parents=True, exist_ok=True)
        self._writer = pq.ParquetWriter(target, schema, compression="zstd")
        self.rows = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self._writer.write_batch(rows)
        self.rows += rows.num_rows

    def close(self) -> tuple[str, int]:
        self._writer.close()
        return self._path, self.rows


def _by_day(batch: pa.RecordBatch) -> Iterator[tuple[object, pa.RecordBatch]]:
    """The rows of each day, without the date column: the folder's name holds it."""
    days = batch.column(DATE)
    rest = batch.drop_columns([DATE])
    found = pc.unique(days).to_pylist()
    for day in found:
        yield day, rest if len(found) == 1 else rest.filter(pc.is_in(days, pa.array([day], days.type)))
