"""The one way into a table: staged files, the files they replace and the last event, in a single commit."""

import datetime as dt
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deltalake import CommitProperties, PostCommitHookProperties, Transaction
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from tinyagi.pipeline.delta.log_files import sync_version
from tinyagi.pipeline.delta.snapshot import APP, DataFile, Snapshot
from tinyagi.pipeline.delta.statistics import FileStatistics, statistics_of
from tinyagi.pipeline.delta.sweep import announce
from tinyagi.pipeline.errors import LakeBroken, LakeChanged
from tinyagi.pipeline.schema import arrow_schema
from tinyagi.pipeline.tables.model import DATE
from tinyagi.system.files import sync


@dataclass(frozen=True, slots=True)
class Staged:
    """Files that are durable and not part of a table yet."""

    folder: Path
    """On the table's file system."""
    files: tuple[str, ...]
    """Below the folder: `date=…/….parquet`."""


@dataclass(frozen=True, slots=True)
class Change:
    """What is to become of a table."""

    through_id: int
    """The last event that is part of the table afterwards."""
    staged: Staged | None = None
    replaced: Sequence[DataFile] = ()
    """Files of the snapshot that the staged ones stand for, together with what they add."""
    dates: frozenset[dt.date] | None = None
    """The only dates that staged files may lie in; None is any."""
    facts: Mapping[str, object] = field(default_factory=dict)
    """Remembered with the commit."""


@dataclass(frozen=True, slots=True)
class Committed:
    version: int
    rows: int
    files: int


def commit(snapshot: Snapshot, change: Change, *, moved: Callable[[], None] = lambda: None) -> Committed:
    """Write the change against the snapshot it was planned on; raise LakeChanged when the table has moved on since.

    Durable in this order: files, their folders, the log. A log never outlives what it names.

    A true compare-and-swap: with retries delta-rs would accept files to remove that a compaction has replaced already,
    and every row in them would stand there twice.
    """
    _check(snapshot, change)
    planned = snapshot.version
    staged = _move(snapshot, change)
    adds = [add for add, _ in staged]
    moved()
    now = time.time_ns() // 1_000_000
    removes = [
        RemoveAction(file.path, True, now, file.size, {DATE: None if file.date is None else file.date.isoformat()})
        for file in change.replaced
    ]
    properties = CommitProperties(
        custom_metadata=dict(change.facts),
        max_commit_retries=0,
        app_transactions=[Transaction(APP, change.through_id)],
    )
    schema = DeltaSchema.from_arrow(arrow_schema(snapshot.table))
    try:
        snapshot.handle.create_write_transaction(
            [*adds, *removes],
            "append",
            schema,
            partition_by=[DATE],
            commit_properties=properties,
            # A vacuum does that, when the checkpoint that makes old entries needless is durable.
            post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=False),
        )
    except CommitFailedError as error:
        raise LakeChanged(
            f"{snapshot.table.name} was changed by somebody else meanwhile: {error}. Nothing was written; run it again."
        ) from error
    # delta-rs leaves the handle at the version before; without retries the new one is the next.
    version = planned + 1
    sync_version(snapshot.folder, version)
    return Committed(version, sum(told.rows for _, told in staged), len(adds))


def _check(snapshot: Snapshot, change: Change) -> None:
    known = {file.path for file in snapshot.files}
    unknown = [file.path for file in change.replaced if file.path not in known]
    if unknown:
        raise LakeBroken(f"{snapshot.table.name} does not hold {unknown[0]}, which was to be replaced.")


def _move(snapshot: Snapshot, change: Change) -> list[tuple[AddAction, FileStatistics]]:
    """Give the staged files their place beside the others. Until the commit nobody sees them there."""
    if change.staged is None:
        return []
    announce(change.staged.folder, list(change.staged.files))
    moved = [_moved(snapshot, change, change.staged.folder / file) for file in change.staged.files]
    for folder in sorted({Path(file).parent for file in change.staged.files}):
        sync(snapshot.folder / folder)
    # The folders of new days have their names here.
    sync(snapshot.folder)
    return moved


def _moved(snapshot: Snapshot, change: Change, file: Path) -> tuple[AddAction, FileStatistics]:
    partition = file.parent.name
    value = partition.removeprefix(f"{DATE}=")
    if value == "None":
        raise LakeBroken(f"Rows of {snapshot.table.name} have no date; {file} was not added.")
    if change.dates is not None and dt.date.fromisoformat(value) not in change.dates:
        raise LakeBroken(f"Rows of {snapshot.table.name} lie outside the dates that are replaced: {partition}.")
    statistics = statistics_of(file, snapshot.table)
    target = snapshot.folder / partition / file.name
    target.parent.mkdir(exist_ok=True)
    file.rename(target)
    status = target.stat()
    add = AddAction(
        path=f"{partition}/{file.name}",
        size=status.st_size,
        partition_values={DATE: value},
        modification_time=status.st_mtime_ns // 1_000_000,
        data_change=True,
        stats=statistics.to_json(),
    )
    return add, statistics
