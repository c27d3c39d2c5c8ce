"""A table at one version: its files with their statistics, its last event, and which files may hold a value."""

import bisect
import datetime as dt
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake import Schema as DeltaSchema

from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.tables.catalog import find_table
from tinyagi.pipeline.tables.model import DATE, TIMESTAMP, Table
from tinyagi.pipeline.tables.schema import arrow_schema
from tinyagi.system.files import make_folder, sync

APP: Final = "tinyagi"
"""The application id under which a table's log stores its last event id, as a transaction version."""

Bound = int | float | str | dt.datetime

_BOUNDED: Final = frozenset({"long", "int", "string", TIMESTAMP})
_LONGEST_BOUND: Final = 128
"""Characters; a longer text is not stored as a bound."""

LOG: Final = "_delta_log"
_HINT: Final = "_last_checkpoint"


@dataclass(frozen=True, slots=True)
class FileStatistics:
    rows: int
    minimum: Mapping[str, Any] = field(default_factory=dict)
    """A `Bound` of the column's own type."""
    maximum: Mapping[str, Any] = field(default_factory=dict)
    nulls: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(
            {
                "numRecords": self.rows,
                "minValues": dict(self.minimum),
                "maxValues": dict(self.maximum),
                "nullCount": dict(self.nulls),
            },
            default=_in_the_log,
        )


def _in_the_log(time: dt.datetime) -> str:
    """A bound as Delta writes it. Readers allow for the microseconds that are cut off."""
    return time.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


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

    def _holds(self, file: DataFile, name: str, keys: pa.ChunkedArray) -> bool:
        column = pq.read_table(self.folder / file.path, columns=[name], partitioning=None).column(name)
        return bool(pc.any(pc.is_in(column, keys.combine_chunks())).as_py())


def open_snapshot(lake: Lake, name: str) -> Snapshot:
    """The newest version of a table. Create the table when it does not exist, and add columns that it lacks."""
    table = find_table(name)
    handle = _created(table, lake.path(name))
    _evolve(handle, table, lake.path(name))
    return _snapshot(table, lake.path(name), handle)


def open_pinned(lake: Lake, name: str) -> Snapshot:
    """The table as of the manifest, read-only; raise NotFound when it does not exist."""
    return _snapshot(find_table(name), lake.path(name), lake.delta(name))


def _snapshot(table: Table, folder: Path, handle: DeltaTable) -> Snapshot:
    return Snapshot(table, folder, handle, handle.transaction_version(APP) or 0, tuple(_files(handle)))


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


def renew(lake: Lake, name: str) -> None:
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


def bounded_columns(table: Table) -> frozenset[str]:
    """Columns whose bounds go into the table's log. Never personal ones: `forget` does not rewrite a log."""
    return frozenset(column.name for column in table.columns if column.type in _BOUNDED and not column.personal)


def statistics_of(file: Path, table: Table) -> FileStatistics:
    """Statistics from the file's footer, without reading its rows."""
    footer = pq.read_metadata(file)
    wanted = bounded_columns(table)
    found: dict[str, list[pq.Statistics | None]] = {}
    for index in range(footer.num_row_groups):
        row_group = footer.row_group(index)
        for place in range(row_group.num_columns):
            column = row_group.column(place)
            if column.path_in_schema in wanted:
                found.setdefault(column.path_in_schema, []).append(column.statistics)
    minimum: dict[str, Bound] = {}
    maximum: dict[str, Bound] = {}
    nulls: dict[str, int] = {}
    for name, groups in found.items():
        counted = [group for group in groups if group is not None and group.has_null_count]
        if len(counted) < len(groups):
            continue
        nulls[name] = sum(group.null_count for group in counted)
        bounded = [group for group in counted if group.has_min_max]
        # If one row group has values but no bounds, the bounds of the others would be wrong for the file.
        if not bounded or any(not group.has_min_max and group.num_values for group in counted):
            continue
        low, high = min(group.min for group in bounded), max(group.max for group in bounded)
        if not isinstance(high, str) or max(len(low), len(high)) <= _LONGEST_BOUND:
            minimum[name], maximum[name] = low, high
    return FileStatistics(footer.num_rows, minimum, maximum, nulls)


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
