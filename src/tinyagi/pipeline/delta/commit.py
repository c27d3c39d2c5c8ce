"""Commits: new files, the files they replace and the last event id go into a table in one compare-and-swap."""

import contextlib
import datetime as dt
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deltalake import CommitProperties, PostCommitHookProperties, Transaction
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from tinyagi.pipeline.delta.parquet_files import WrittenFile
from tinyagi.pipeline.delta.snapshot import APP, DataFile, Snapshot, differs, repair, sync_version
from tinyagi.pipeline.errors import LakeBroken, LakeChanged
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.pipeline.tables.model import DATE
from tinyagi.pipeline.tables.schema import arrow_schema
from tinyagi.system.files import sync


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a table."""

    through_id: int
    """The last event that the table includes afterwards."""
    files: Sequence[WrittenFile] = ()
    replaced: Sequence[DataFile] = ()
    """Files of the snapshot that the new ones replace."""
    dates: frozenset[dt.date] | None = None
    """The only dates that new files may belong to; None allows any."""
    metadata: Mapping[str, object] = field(default_factory=dict)
    """Stored in the commit."""


@dataclass(frozen=True, slots=True)
class Committed:
    version: int
    rows: int
    files: int


def commit(snapshot: Snapshot, change: Change) -> Committed:
    """Commit the change to the snapshot it was planned on; raise LakeChanged when the table has a newer version.

    Synced in this order: files (by their writer), their folders, the log. So the log never names a file that a power
    loss took. A true compare-and-swap, without retries: delta-rs would accept removals of files that a compaction has
    already replaced, and every row in them would be duplicated.
    """
    _check(snapshot, change)
    planned = snapshot.version
    for folder in sorted({Path(file.path).parent for file in change.files}):
        sync(snapshot.folder / folder)
    if change.files:
        # This folder holds the entries of new days.
        sync(snapshot.folder)
    now = time.time_ns() // 1_000_000
    adds = [
        AddAction(
            path=file.path,
            size=file.size,
            partition_values={DATE: file.day},
            modification_time=now,
            data_change=True,
            stats=file.statistics,
        )
        for file in change.files
    ]
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
    return Committed(version, sum(file.rows for file in change.files), len(adds))


def _check(snapshot: Snapshot, change: Change) -> None:
    name = snapshot.table.name
    if change.files and differs(snapshot.table, snapshot.handle):
        raise LakeBroken(f"{name} is from an earlier version and stores other types. Run `tinyagi pipeline run`.")
    known = {file.path for file in snapshot.files}
    unknown = [file.path for file in change.replaced if file.path not in known]
    if unknown:
        raise LakeBroken(f"{name} does not hold {unknown[0]}, which was to be replaced.")
    for file in change.files:
        if file.day == "None":
            raise LakeBroken(f"Rows of {name} have no date; {file.path} was not added.")
        if change.dates is not None and dt.date.fromisoformat(file.day) not in change.dates:
            raise LakeBroken(f"Rows of {name} are outside the replaced dates: {file.day}.")


def discard(snapshot: Snapshot, files: Iterable[WrittenFile]) -> None:
    """Delete files that were not committed. Those of a killed process stay until `vacuum` finds them."""
    for file in files:
        with contextlib.suppress(OSError):
            (snapshot.folder / file.path).unlink()


def repair_logs(lake: Lake) -> None:
    """Delete log entries that a power loss tore. Call it under the writer lock, so that no commit is in progress."""
    manifest = lake.manifest()
    for name in TABLES:
        pin = manifest.tables.get(name) if manifest else None
        repair(lake.path(name), -1 if pin is None else pin.version)
