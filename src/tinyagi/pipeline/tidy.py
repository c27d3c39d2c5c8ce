"""Keeps the lake small and quick to open: few files per day, and none that no reader needs any more."""

import time
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from deltalake import CommitProperties

from tinyagi.pipeline.delta.snapshot import Snapshot, open_snapshot
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.pipeline.tables.model import DATE

SMALL_BYTES: Final = 8 * 1024 * 1024
MOST_SMALL_FILES: Final = 16
"""Of one day; more than that are made one."""
TARGET_BYTES: Final = 32 * 1024 * 1024
KEEP: Final = timedelta(hours=24)
"""How long files stay that no table has any more: for readers that opened it before."""
_LAST_VACUUM: Final = ".vacuumed"


def compact(lake: Lake, *, all_days: bool = False) -> dict[str, int]:
    """Join small files of days that have too many of them, or of all days; returns files that went, per table."""
    return {name: gone for name in TABLES if (gone := _compact(open_snapshot(lake, name), all_days=all_days))}


def _compact(snapshot: Snapshot, *, all_days: bool) -> int:
    small = Counter(file.date for file in snapshot.files if file.size < SMALL_BYTES)
    most = 1 if all_days else MOST_SMALL_FILES
    crowded = [day for day, files in small.items() if files > most and day is not None]
    for day in sorted(crowded):
        snapshot.handle.optimize.compact(
            partition_filters=[(DATE, "=", day.isoformat())],
            target_size=TARGET_BYTES,
            commit_properties=CommitProperties(max_commit_retries=0),
        )
    return len(snapshot.files) - len(snapshot.handle.file_uris()) if crowded else 0


def vacuum(lake: Lake, *, keep: timedelta = KEEP, names: Iterable[str] = TABLES) -> int:
    """Delete files that no table has any more, and return how many. Under the writer lock only.

    It goes by what lies in the folders, so it finds what a crash has left as well; what the manifest names stays.
    """
    manifest = lake.manifest()
    gone = 0
    for name in names:
        handle = open_snapshot(lake, name).handle
        pinned = [] if manifest is None or name not in manifest.tables else [manifest.tables[name].version]
        deleted = handle.vacuum(
            retention_hours=int(keep / timedelta(hours=1)),
            dry_run=False,
            enforce_retention_duration=False,
            full=True,
            keep_versions=pinned,
        )
        handle.cleanup_metadata()
        gone += len(deleted)
    return gone


def vacuum_now_and_then(lake: Lake) -> int:
    """`vacuum`, at most once a day."""
    mark = lake.folder / _LAST_VACUUM
    if mark.exists() and time.time() - mark.stat().st_mtime < KEEP.total_seconds():
        return 0
    gone = vacuum(lake)
    mark.touch()
    return gone
