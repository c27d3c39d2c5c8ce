"""Keeps the lake small and quick to open: few files per day, and none that no reader needs any more."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds

from tinyagi.pipeline.delta.commit import Change, Staged, commit
from tinyagi.pipeline.delta.snapshot import DataFile, Snapshot, open_snapshot
from tinyagi.pipeline.delta.sweep import staging
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.schema import arrow_schema
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.pipeline.tables.model import DATE
from tinyagi.pipeline.writing import FilesByDay
from tinyagi.system.files import sync

SMALL_BYTES: Final = 8 * 1024 * 1024
MOST_SMALL_FILES: Final = 16
"""Of one day; more than that are made one."""
ROW_GROUP: Final = 65_536
"""Rows that a joined file holds together: those of many small files, if need be."""
KEEP: Final = timedelta(hours=24)
"""How long files stay that no table has any more: for readers that opened it before."""
_LAST_VACUUM: Final = ".vacuumed"


def compact(lake: Lake, *, all_days: bool = False) -> dict[str, int]:
    """Join small files of days that have too many of them, or of all days; returns files that went, per table."""
    return {name: gone for name in TABLES if (gone := _compact(open_snapshot(lake, name), all_days=all_days))}


def _compact(snapshot: Snapshot, *, all_days: bool) -> int:
    small = Counter(file.date for file in snapshot.files if file.size < SMALL_BYTES)
    most = 1 if all_days else MOST_SMALL_FILES
    crowded = {day for day, files in small.items() if files > most and day is not None}
    joined = [file for file in snapshot.of_dates(crowded) if file.size < SMALL_BYTES]
    if not joined:
        return 0
    # Our own writer, not `optimize.compact`: that one commits files which are not durable yet.
    with staging(snapshot.folder) as folder:
        (written,) = FilesByDay(str(folder))(_rows(snapshot, joined))
        files = Staged(folder, tuple(written.column("path").to_pylist()))
        done = commit(snapshot, Change(snapshot.through_id, files, joined))
    return len(joined) - done.files


def _rows(snapshot: Snapshot, files: Sequence[DataFile]) -> Iterator[pa.RecordBatch]:
    """The rows of the files, day by day; with the declared schema, so what an older file lacks is null."""
    dataset = ds.dataset(
        sorted(snapshot.locations(files)),
        schema=arrow_schema(snapshot.table),
        format="parquet",
        partitioning=ds.partitioning(pa.schema([pa.field(DATE, pa.date32())]), flavor="hive"),
        partition_base_dir=str(snapshot.folder),
    )
    waiting: list[pa.RecordBatch] = []
    for batch in dataset.to_batches():
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= ROW_GROUP:
            yield pa.concat_batches(waiting)
            waiting = []
    if waiting:
        yield pa.concat_batches(waiting)


def vacuum(lake: Lake, *, keep: timedelta = KEEP, names: Iterable[str] = TABLES) -> int:
    """Delete files that no table has any more, and return how many. Under the writer lock only.

    It goes by what lies in the folders, so it finds what a crash has left as well; what the manifest names stays.
    """
    manifest = lake.manifest()
    gone = 0
    for name in names:
        handle = open_snapshot(lake, name).handle
        pinned = [] if manifest is None or name not in manifest.tables else [manifest.tables[name].version]
        # delta-rs only lists them: it would also write entries to the log, which a power loss could tear.
        needless = handle.vacuum(
            retention_hours=int(keep / timedelta(hours=1)),
            dry_run=True,
            enforce_retention_duration=False,
            full=True,
            keep_versions=pinned,
        )
        # The list also names what an earlier vacuum deleted and the log still remembers.
        paths = [path for file in needless if (path := lake.path(name) / file).exists()]
        for path in paths:
            path.unlink()
        for folder in {path.parent for path in paths}:
            sync(folder)
        handle.cleanup_metadata()
        gone += len(paths)
    return gone


def vacuum_now_and_then(lake: Lake) -> int:
    """`vacuum`, at most once a day."""
    mark = lake.folder / _LAST_VACUUM
    if mark.exists() and time.time() - mark.stat().st_mtime < KEEP.total_seconds():
        return 0
    gone = vacuum(lake)
    mark.touch()
    return gone
