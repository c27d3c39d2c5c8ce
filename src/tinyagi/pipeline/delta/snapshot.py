"""A table at one version: its files with their statistics, its last event, and which files may hold a value."""

import bisect
import datetime as dt
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake import Schema as DeltaSchema

from tinyagi.pipeline.delta.parquet_files import Bound, FileStatistics, bounded_columns
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.manifest import LOG
from tinyagi.pipeline.tables.catalog import find_table
from tinyagi.pipeline.tables.model import DATE, Table
from tinyagi.pipeline.tables.schema import arrow_schema
from tinyagi.system.files import make_folder, sync

APP: Final = "tinyagi"
"""The application id under which a table's log stores its last event id, as a transaction version."""

_HINT: Final = "_last_checkpoint"


@dataclass(frozen=True, slots=True)
class DataFile:
    path: str
    """Relative to the table's folder."""
    date: dt.date | None
    size: int
    statistics: FileStatistics


@dataclass(frozen=True, slots=True)
class Snapshot:
    table: Table
    folder: Path
    handle: DeltaTable
    through_id: int
    files: tuple[DataFile, ...]

    @property
    def version(self) -> int:
        return self.handle.version()

    def has_successor(self) -> bool:
        """True when the table has a newer version than this one."""
        return _entry(self.folder / LOG, self.version + 1).exists()

    def reached(self, through_id: int) -> "Snapshot":
        """The same version, known to include more events."""
        return replace(self, through_id=max(self.through_id, through_id))

    def of_dates(self, dates: Collection[dt.date]) -> tuple[DataFile, ...]:
        return tuple(file for file in self.files if file.date in dates)

    def reaching(self, column: str, low: Bound, high: Bound | None = None) -> tuple[DataFile, ...]:
        """Files that may hold a value of the column between the bounds, both included."""
        return tuple(file for file in self.files if _overlaps(file.statistics, column, low, high))

    def holding(self, keys: pa.ChunkedArray) -> tuple[DataFile, ...]:
        """Files that hold at least one of these keys: first by statistics, then by reading the key column."""
        name = self.table.key[0]
        ordered = sorted(keys.to_pylist())
        near = [file for file in self.files if _any_between(ordered, file.statistics, name)]
        return tuple(file for file in near if self._holds(file, name, keys))

    def locations(self, files: Iterable[DataFile]) -> list[str]:
        return [str(self.folder / file.path) for file in files]

    def dataset(self, files: Iterable[DataFile]) -> ds.Dataset:
        """The rows of these files, with the declared schema: a column that an older file lacks is null."""
        schema = arrow_schema(self.table)
        locations = sorted(self.locations(files))
        if not locations:
            return ds.dataset(schema.empty_table())
        return ds.dataset(
            locations,
            schema=schema,
            format="parquet",
            partitioning=ds.partitioning(pa.schema([schema.field(DATE)]), flavor="hive"),
            partition_base_dir=str(self.folder),
        )

    def _holds(self, file: DataFile, name: str, keys: pa.ChunkedArray) -> bool:
        column = pq.read_table(self.folder / file.path, columns=[name], partitioning=None).column(name)
        return bool(pc.any(pc.is_in(column, keys.combine_chunks())).as_py())


def open_snapshot(lake: Lake, name: str) -> Snapshot:
    """The newest version of a table. Create the table when it does not exist, and add columns that it lacks."""
    table = find_table(name)
    handle = _created(table, lake.path(name))
    _evolve(handle, table, lake.path(name))
    return _snapshot(table, lake, handle)


def open_pinned(lake: Lake, name: str) -> Snapshot:
    """The table as of the manifest, read-only; raise NotFound when it does not exist."""
    return _snapshot(find_table(name), lake, lake.delta(name))


def _snapshot(table: Table, lake: Lake, handle: DeltaTable) -> Snapshot:
    return Snapshot(table, lake.path(table.name), handle, _through_id(table, lake, handle), tuple(_files(handle)))


def _through_id(table: Table, lake: Lake, handle: DeltaTable) -> int:
    """The last event that this version includes.

    Of its last commit, or of the manifest: a run without news for a table leaves the table alone and raises its pin.
    """
    through_id = handle.transaction_version(APP) or 0
    manifest = lake.manifest()
    pin = None if manifest is None else manifest.tables.get(table.name)
    return through_id if pin is None or pin.version != handle.version() else max(through_id, pin.through_id)


def _created(table: Table, folder: Path) -> DeltaTable:
    if not DeltaTable.is_deltatable(str(folder)):
        make_folder(folder, 0o700)
        handle = _create(table, folder, "error")
        sync(folder)
        return handle
    return DeltaTable(folder)


def has_old_types(lake: Lake, name: str) -> bool:
    """True when the newest version of the table stores a column in another type than declared."""
    return lake.exists(name) and differs(find_table(name), lake.newest(name))


def differs(table: Table, handle: DeltaTable) -> bool:
    """True when this version of the table stores a column in another type than declared."""
    declared = {field.name: field.type for field in DeltaSchema.from_arrow(arrow_schema(table)).fields}
    return any(field.type != declared.get(field.name, field.type) for field in handle.schema().fields)


def recreate(lake: Lake, name: str) -> None:
    """Empty the table and give it the declared schema, in one commit; earlier versions stay readable.

    It includes no event afterwards, so the next update rebuilds it. Call it under the writer lock only.
    """
    _create(find_table(name), lake.path(name), "overwrite")


def _create(table: Table, folder: Path, mode: Literal["error", "overwrite"]) -> DeltaTable:
    handle = DeltaTable.create(
        folder,
        DeltaSchema.from_arrow(arrow_schema(table)),
        mode=mode,
        partition_by=[DATE],
        name=table.name,
        description=table.meaning,
        configuration={
            # Every run commits to every table, so a log without checkpoints soon opens slowly.
            "delta.checkpointInterval": "20",
            "delta.logRetentionDuration": "interval 7 days",
            # For files that other writers add.
            "delta.dataSkippingStatsColumns": ",".join(sorted(bounded_columns(table))),
        },
        commit_properties=CommitProperties(max_commit_retries=0, app_transactions=[Transaction(APP, 0)]),
        # As for every commit: `vacuum` deletes old entries.
        post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=False),
    )
    sync_version(folder, handle.version())
    return handle


def _evolve(handle: DeltaTable, table: Table, folder: Path) -> None:
    """Add new columns to the table: otherwise Delta accepts a file with a new column but hides the column."""
    declared = DeltaSchema.from_arrow(arrow_schema(table))
    known = {field.name for field in handle.schema().fields}
    missing = [field for field in declared.fields if field.name not in known]
    if missing:
        handle.alter.add_columns(missing)
        sync_version(folder, handle.version())


def _files(handle: DeltaTable) -> Iterable[DataFile]:
    for row in pa.table(handle.get_add_actions()).to_pylist():
        bounds = (_known(row, name) for name in ("min", "max", "null_count"))
        statistics = FileStatistics(row["num_records"] or 0, *bounds)
        yield DataFile(row["path"], row["partition"][DATE], row["size_bytes"], statistics)


def _known(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    """One kind of statistics from the log; a table without any has no such column."""
    return {column: value for column, value in (row.get(name) or {}).items() if value is not None}


def _overlaps(statistics: FileStatistics, column: str, low: Bound, high: Bound | None) -> bool:
    smallest, largest = statistics.minimum.get(column), statistics.maximum.get(column)
    if smallest is None or largest is None:
        # All values are null, or the file has no statistics.
        return statistics.nulls.get(column) != statistics.rows
    if isinstance(low, dt.datetime) and not isinstance(smallest, dt.datetime):
        # An older lake stores this instant as milliseconds.
        return True
    return largest >= low and (high is None or smallest <= high)


def _any_between(keys: Sequence[object], statistics: FileStatistics, column: str) -> bool:
    smallest, largest = statistics.minimum.get(column), statistics.maximum.get(column)
    if smallest is None or largest is None:
        return True
    return bisect.bisect_left(keys, smallest) < bisect.bisect_right(keys, largest)


def sync_version(table: Path, version: int) -> None:
    """Sync a version. Every writer calls this before the next version, so only the newest can be torn."""
    log = table / LOG
    checkpoints = _checkpoints(log, version)
    hint = log.glob(_HINT) if checkpoints else ()
    for file in (_entry(log, version), *checkpoints, *hint):
        sync(file)
    sync(log)


def repair(table: Path, durable: int) -> None:
    """Delete torn files of a version newer than the durable one, and sync the rest."""
    log = table / LOG
    newest = max((int(file.stem) for file in log.glob("*.json") if file.stem.isdigit()), default=-1)
    if newest <= durable:
        return
    # The hint goes first: it makes a table without that checkpoint unreadable. Without it, readers list the folder.
    (log / _HINT).unlink(missing_ok=True)
    is_torn = not _is_json(_entry(log, newest))
    for file in _checkpoints(log, newest):
        if is_torn or not _is_parquet(file):
            file.unlink()
    if is_torn:
        _entry(log, newest).unlink()
        sync(log)
    else:
        sync_version(table, newest)


def _entry(log: Path, version: int) -> Path:
    return log / f"{version:020}.json"


def _checkpoints(log: Path, version: int) -> list[Path]:
    return sorted(log.glob(f"{version:020}.checkpoint*.parquet"))


def _is_json(file: Path) -> bool:
    lines = file.read_bytes().splitlines()
    try:
        return bool([json.loads(line) for line in lines])
    except ValueError:
        return False


def _is_parquet(file: Path) -> bool:
    try:
        pq.read_table(file)
    except (pa.ArrowException, OSError):
        return False
    return True
