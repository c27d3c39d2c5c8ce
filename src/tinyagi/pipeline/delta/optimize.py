"""Compaction and vacuum: few files per day, and no unreferenced ones."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds

from tinyagi.pipeline.delta.commit import Change, Staged, commit, staging
from tinyagi.pipeline.delta.parquet_files import FilesByDay
from tinyagi.pipeline.delta.snapshot import DataFile, Snapshot, differs, open_snapshot
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.pipeline.tables.model import DATE
from tinyagi.pipeline.tables.schema import arrow_schema
from tinyagi.system.files import sync

SMALL_BYTES: Final = 8 * 1024 * 1024
MOST_SMALL_FILES: Final = 16
"""A day with more small files is compacted."""
ROW_GROUP: Final = 65_536
"""Rows per row group of a compacted file."""
KEEP: Final = timedelta(hours=24)
"""How long unreferenced files stay, for readers of older versions."""
_LAST_VACUUM: Final = ".vacuumed"


def compact(lake: Lake, *, all_days: bool = False) -> dict[str, int]:
    """Join small files of days with too many of them, or of all days; return the number of files removed, per table."""
    return {name: removed for name in TABLES if (removed := _compact(open_snapshot(lake, name), all_days=all_days))}


def _compact(snapshot: Snapshot, *, all_days: bool) -> int:
    if differs(snapshot.table, snapshot.handle):
        # The next run rebuilds the table. Arrow would read its instants as microseconds.
        return 0
    small = Counter(file.date for file in snapshot.files if file.size < SMALL_BYTES)
    most = 1 if all_days else MOST_SMALL_FILES
    crowded = {day for day, files in small.items() if files > most and day is not None}
    joined = [file for file in snapshot.of_dates(crowded) if file.size < SMALL_BYTES]
    if not joined:
        return 0
    # Not delta-rs's `optimize.compact`, which commits files that are not durable yet.
    with staging(snapshot.folder) as folder:
        (written,) = FilesByDay(str(folder))(_rows(snapshot, joined))
        files = Staged(folder, tuple(written.column("path").to_pylist()))
        done = commit(snapshot, Change(snapshot.through_id, files, joined))
    return len(joined) - done.files


def _rows(snapshot: Snapshot, files: Sequence[DataFile]) -> Iterator[pa.RecordBatch]:
    """The rows of the files, day by day, with the declared schema: a column that an older file lacks is null."""
    dataset = ds.dataset(
        sorted(snapshot.locations(files)),
        schema=arrow_schema(snapshot.table),
        format="parquet",
        partitioning=ds.partitioning(pa.schema([pa.field(DATE, pa.date32())]), flavor="hive"),
        partition_base_dir=str(snapshot.folder),
    )
    pending: list[pa.RecordBatch] = []
    for batch in dataset.to_batches():
        pending.append(batch)
        if sum(batch.num_rows for batch in pending) >= ROW_GROUP:
            yield pa.concat_batches(pending)
            pending = []
    if pending:
        yield pa.concat_batches(pending)


def vacuum(lake: Lake, *, keep: timedelta = KEEP, names: Iterable[str] = TABLES) -> int:
    """Delete unreferenced files and return how many. Call it under the writer lock only.

    It lists the folders, so it also finds leftovers of a crash. Files of the manifest's versions stay.
    """
    manifest = lake.manifest()
    removed = 0
    for name in names:
        handle = open_snapshot(lake, name).handle
        pinned = [] if manifest is None or name not in manifest.tables else [manifest.tables[name].version]
        # A dry run: otherwise delta-rs adds entries to the log, which a power loss could tear.
        unreferenced = handle.vacuum(
            retention_hours=int(keep / timedelta(hours=1)),
            dry_run=True,
            enforce_retention_duration=False,
            full=True,
            keep_versions=pinned,
        )
        # The list also names files that an earlier vacuum deleted.
        paths = [path for file in unreferenced if (path := lake.path(name) / file).exists()]
        for path in paths:
            path.unlink()
        for folder in {path.parent for path in paths}:
            sync(folder)
        handle.cleanup_metadata()
        removed += len(paths)
    return removed


def vacuum_daily(lake: Lake) -> int:
    """`vacuum`, at most once a day."""
    marker = lake.folder / _LAST_VACUUM
    if marker.exists() and time.time() - marker.stat().st_mtime < KEEP.total_seconds():
        return 0
    removed = vacuum(lake)
    marker.touch()
    return removed
