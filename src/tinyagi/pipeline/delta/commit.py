"""Commits: staged files, the files they replace and the last event id go into a table in one compare-and-swap.

Also owns the staging folders and removes what a killed writer left.
"""

import datetime as dt
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from tinyagi.pipeline.delta.snapshot import (
    APP,
    DataFile,
    FileStatistics,
    Snapshot,
    differs,
    repair,
    statistics_of,
    sync_version,
)
from tinyagi.pipeline.errors import LakeBroken, LakeChanged
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.pipeline.tables.model import DATE
from tinyagi.pipeline.tables.schema import arrow_schema
from tinyagi.system.files import sync

STAGE: Final = "_stage"
"""The folder below a table for files that are not committed yet; Delta readers ignore it."""
CHECKPOINTS: Final = "_checkpoints"
_MOVES: Final = "moving.txt"


@dataclass(frozen=True, slots=True)
class Staged:
    """Durable files that are not part of a table yet."""

    folder: Path
    """On the table's file system."""
    files: tuple[str, ...]
    """Below the folder: `date=…/….parquet`."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a table."""

    through_id: int
    """The last event that the table includes afterwards."""
    staged: Staged | None = None
    replaced: Sequence[DataFile] = ()
    """Files of the snapshot that the staged ones replace."""
    dates: frozenset[dt.date] | None = None
    """The only dates that staged files may belong to; None allows any."""
    metadata: Mapping[str, object] = field(default_factory=dict)
    """Stored in the commit."""


@dataclass(frozen=True, slots=True)
class Committed:
    version: int
    rows: int
    files: int


def commit(snapshot: Snapshot, change: Change, *, moved: Callable[[], None] = lambda: None) -> Committed:
    """Commit the change to the snapshot it was planned on; raise LakeChanged when the table has a newer version.

    Synced in this order: files, their folders, the log. So the log never names a file that a power loss took.

    A true compare-and-swap, without retries: delta-rs would accept removals of files that a compaction has already
    replaced, and every row in them would be duplicated.
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
        custom_metadata=dict(change.metadata),
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
            # `vacuum` deletes old entries, once the checkpoint that replaces them is durable.
            post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=False),
        )
    except CommitFailedError as error:
        raise LakeChanged(
            f"{snapshot.table.name} was changed by another writer: {error}. Nothing was written. "
            "Run the pipeline again."
        ) from error
    # delta-rs leaves the handle at the old version; without retries the new one is the next.
    version = planned + 1
    sync_version(snapshot.folder, version)
    return Committed(version, sum(statistics.rows for _, statistics in staged), len(adds))


def _check(snapshot: Snapshot, change: Change) -> None:
    if change.staged is not None and differs(snapshot.table, snapshot.handle):
        raise LakeBroken(
            f"{snapshot.table.name} is from an earlier version and stores other types. Run `tinyagi pipeline run`."
        )
    known = {file.path for file in snapshot.files}
    unknown = [file.path for file in change.replaced if file.path not in known]
    if unknown:
        raise LakeBroken(f"{snapshot.table.name} does not hold {unknown[0]}, which was to be replaced.")


def _move(snapshot: Snapshot, change: Change) -> list[tuple[AddAction, FileStatistics]]:
    """Move the staged files into the table's folder, where readers ignore them until the commit."""
    if change.staged is None:
        return []
    record_moves(change.staged.folder, list(change.staged.files))
    moved = [_moved(snapshot, change, change.staged.folder / file) for file in change.staged.files]
    for folder in sorted({Path(file).parent for file in change.staged.files}):
        sync(snapshot.folder / folder)
    # This folder holds the entries of new days.
    sync(snapshot.folder)
    return moved


def _moved(snapshot: Snapshot, change: Change, file: Path) -> tuple[AddAction, FileStatistics]:
    partition = file.parent.name
    value = partition.removeprefix(f"{DATE}=")
    if value == "None":
        raise LakeBroken(f"Rows of {snapshot.table.name} have no date; {file} was not added.")
    if change.dates is not None and dt.date.fromisoformat(value) not in change.dates:
        raise LakeBroken(f"Rows of {snapshot.table.name} are outside the replaced dates: {partition}.")
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


@contextmanager
def staging(table: Path) -> Iterator[Path]:
    """A folder for new files; files that are not committed are deleted with it."""
    folder = table / STAGE / uuid.uuid4().hex
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
    finally:
        discard_stage(table, folder)


def record_moves(stage: Path, targets: list[str]) -> None:
    """Record the files about to be moved into the table, so that `remove_leftovers` finds them after a crash."""
    (stage / _MOVES).write_text("\n".join(targets))


def remove_leftovers(lake: Lake) -> None:
    """Remove what a killed writer left. Call it under the writer lock only, so that no commit is in progress."""
    shutil.rmtree(lake.folder / CHECKPOINTS, ignore_errors=True)
    manifest = lake.manifest()
    for name in TABLES:
        pin = manifest.tables.get(name) if manifest else None
        repair(lake.path(name), -1 if pin is None else pin.version)
        for stage in (lake.path(name) / STAGE).glob("*"):
            discard_stage(lake.path(name), stage)


def discard_stage(table: Path, stage: Path) -> None:
    """Remove a staging folder and the files moved out of it, unless they were committed."""
    moves = stage / _MOVES
    if moves.is_file():
        handle = DeltaTable(table)
        known = {Path(uri).relative_to(table).as_posix() for uri in handle.file_uris()}
        for target in moves.read_text().splitlines():
            # A power loss may have cut the list within a name.
            if target not in known and (table / target).is_file():
                (table / target).unlink()
    shutil.rmtree(stage, ignore_errors=True)
