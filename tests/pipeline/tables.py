"""Writes rows into tables of a lake as the pipeline does, without Spark: files in place and one commit."""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.support.lakes import arrow_rows
from tinyagi.pipeline.delta.commit import Change, Committed, commit, discard
from tinyagi.pipeline.delta.parquet_files import WrittenFile, write_files
from tinyagi.pipeline.delta.snapshot import Snapshot, open_snapshot
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.tables.model import DATE

DAY = dt.date(2026, 3, 2)

Rows = Sequence[Mapping[str, Any]]


def written(snapshot: Snapshot, rows: Rows) -> list[WrittenFile]:
    """Missing columns are null; a missing date is `DAY`."""
    dated = [{DATE: DAY, **row} for row in rows]
    return write_files(snapshot.folder, snapshot.table, iter(arrow_rows(snapshot.table, dated).to_batches()))


def put(
    lake: Lake,
    name: str,
    rows: Rows,
    *,
    through_id: int,
    snapshot: Snapshot | None = None,
    replacing: bool = False,
    before_commit: Callable[[], None] = lambda: None,
) -> Committed:
    """One commit, planned on the newest snapshot or on an older one."""
    opened = snapshot or open_snapshot(lake, name)
    files = written(opened, rows)
    before_commit()
    try:
        return commit(opened, Change(through_id, files, opened.files if replacing else ()))
    except BaseException:
        discard(opened, files)
        raise
