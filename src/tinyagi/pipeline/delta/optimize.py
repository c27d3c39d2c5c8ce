"""Compaction and vacuum: few files per day, and no unreferenced ones."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Final

import pyarrow as pa

from tinyagi.pipeline.delta.commit import Change, commit, discard
from tinyagi.pipeline.delta.parquet_files import write_files
from tinyagi.pipeline.delta.snapshot import DataFile, Snapshot, differs, open_snapshot
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.system.files import sync

SMALL_BYTES: Final = 8 * 1024 * 1024
MOST_SMALL_FILES: Final = 16
"""A day with more small files is compacted."""
ROW_GROUP: Final = 65_536
"""Rows per row group of a compacted file."""
KEEP: Final = timedelta(hours=24)
"""How long unreferenced files stay, for readers of older versions."""
_LAST_VACUUM: Final = ".vacuumed"


def compact(tables: Iterable[Snapshot], *, all_days: bool = False) -> dict[str, int]:
    """Join small files of days with too many of them, or of all days; return the number of files removed, per table."""
    found = {snapshot.table.name: _compact(snapshot, all_days=all_days) for snapshot in tables}
    return {name: removed for name, removed in found.items() if removed}


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
    files = write_files(snapshot.folder, snapshot.table, _rows(snapshot, joined))
    try:
        done = commit(snapshot, Change(snapshot.through_id, files, joined))
    except BaseException:
        discard(snapshot, files)
        raise
    return len(joined) - done.files


def _rows(snapshot: Snapshot, files: Sequence[DataFile]) -> Iterator[pa.RecordBatch]:
    """The rows of the files, day by day, in batches of a row group's size."""
    pending: list[pa.RecordBatch] = []
    for batch in snapshot.dataset(files).to_batches():
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
