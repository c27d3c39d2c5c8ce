"""Writes rows into tables of a lake as the pipeline does, without Spark: staged files and one commit."""

import datetime as dt
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.support.lakes import arrow_rows
from tinyagi.pipeline.delta.commit import STAGE, Change, Committed, Staged, commit, discard_stage
from tinyagi.pipeline.delta.snapshot import Snapshot, open_snapshot
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.tables.model import DATE
from tinyagi.system.files import sync

DAY = dt.date(2026, 3, 2)

Rows = Sequence[Mapping[str, Any]]


@contextmanager
def staged(snapshot: Snapshot, rows: Rows) -> Iterator[Staged]:
    """Missing columns are null; a missing date is `DAY`."""
    folder = snapshot.folder / STAGE / uuid.uuid4().hex
    try:
        yield lay_aside(snapshot, folder, rows)
    finally:
        discard_stage(snapshot.folder, folder)


def lay_aside(snapshot: Snapshot, folder: Path, rows: Rows) -> Staged:
    by_date = defaultdict[dt.date | None, list[Mapping[str, Any]]](list)
    for row in rows:
        by_date[row.get(DATE, DAY)].append(row)
    files = {f"{DATE}={day}/{uuid.uuid4().hex}.parquet": ones for day, ones in by_date.items()}
    for file, ones in files.items():
        (folder / file).parent.mkdir(parents=True)
        pq.write_table(arrow_rows(snapshot.table, ones).drop_columns([DATE]), folder / file)
        sync(folder / file)
    return Staged(folder, tuple(files))


def put(
    lake: Lake,
    name: str,
    rows: Rows,
    *,
    through_id: int,
    snapshot: Snapshot | None = None,
    replacing: bool = False,
    moved: Callable[[], None] = lambda: None,
) -> Committed:
    """One commit, planned on the newest snapshot or on an older one."""
    opened = snapshot or open_snapshot(lake, name)
    with staged(opened, rows) as files:
        change = Change(through_id, files, opened.files if replacing else ())
        return commit(opened, change, moved=moved)
