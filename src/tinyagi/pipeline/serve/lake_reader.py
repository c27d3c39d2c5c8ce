"""Tables of the lake at the manifest's versions, cached until the manifest changes. Reads with Arrow only."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pafs
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tinyagi.pipeline.errors import LakeBroken
from tinyagi.pipeline.instants import During, in_millis, stored_schema
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.manifest import LakeManifest, Pin
from tinyagi.pipeline.tables.catalog import find_table
from tinyagi.pipeline.tables.model import DATE, Table
from tinyagi.store.archive import ArchiveUnreadable

Answer = TypeVar("Answer")
Row = Mapping[str, Any]
Order = Sequence[tuple[str, str]]
"""Columns, each `ascending` or `descending`."""

DESCENDING: Final = "descending"
ASCENDING: Final = "ascending"
_LARGEST_BATCH: Final = 16
"""The largest batch of files that are opened together."""
_DAMAGED: Final = (OSError, pa.ArrowException, DeltaError, LakeBroken)


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """One Parquet file of a table."""

    fragment: ds.ParquetFileFragment
    day: date
    rows: int
    lowest: int | None
    """The range of the column `id`; None without statistics or without the column."""
    highest: int | None


class PinnedTable:
    """One table at one version."""

    def __init__(self, lake: Lake, table: Table, pin: Pin) -> None:
        self.table = table
        self.pin = pin
        handle = lake.delta(table.name, as_of=pin.version)
        self._schema = stored_schema(table, handle)
        # `newest_by_day` needs the files grouped by day, last day first.
        self.files = sorted(_files(lake, table, handle), key=lambda file: file.day, reverse=True)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def of_days(self, first: date | None, last: date | None) -> list[PinnedFile]:
        return [
            file for file in self.files if (first is None or file.day >= first) and (last is None or file.day <= last)
        ]

    def scan(
        self, files: Iterable[PinnedFile], where: pc.Expression | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Rows of these files, with instants in milliseconds; a column that an older file lacks is null."""
        fragments = [file.fragment for file in files]
        found = ds.FileSystemDataset(fragments, self._schema, ds.ParquetFileFormat())
        return in_millis(found.to_table(columns=list(columns or self._schema.names), filter=where))

    def during(self, column: str, first: int | None, last: int | None) -> pc.Expression:
        """A filter on an instant: from `first` to `last` in ms, both included; None is no limit."""
        return During(column, first, last).expression(self._schema)

    def newest_by_id(self, where: pc.Expression, *, since: int, before: int | None, limit: int) -> list[Row]:
        """Rows between two ids, highest first, from as few files as the statistics allow."""
        page = where & (pc.field("id") > since)
        if before is not None:
            page &= pc.field("id") < before
        files = [
            file
            for file in self.files
            if (file.highest is None or file.highest > since)
            and (file.lowest is None or before is None or file.lowest < before)
        ]
        # Files without statistics may hold any id, so they come first.
        files.sort(key=lambda file: (file.highest is None, file.highest or 0), reverse=True)
        found = in_millis(self._schema.empty_table())
        for batch in _doubling_batches(files):
            if found.num_rows == limit and _ends_below(batch[0], found["id"][-1].as_py()):
                break
            joined = pa.concat_tables([found, self.scan(batch, page)])
            found = joined.sort_by([("id", DESCENDING)]).slice(0, limit)
        return plain_rows(found)

    def newest_by_day(
        self, where: pc.Expression | None, order: Order, limit: int, files: Sequence[PinnedFile]
    ) -> pa.Table:
        """Rows of these files, last day first, then in this order, from as few days as needed."""
        days = [list(of_day) for _, of_day in groupby(files, key=lambda file: file.day)]
        found = in_millis(self._schema.empty_table())
        for batch in _doubling_batches(days):
            found = pa.concat_tables([found, self.scan([file for day in batch for file in day], where)])
            if found.num_rows >= limit:
                break
        return found.sort_by([(DATE, DESCENDING), *order]).slice(0, limit)


@dataclass(frozen=True, slots=True)
class PinnedLake:
    """All tables at the versions of one manifest: the view of one request."""

    manifest: LakeManifest
    open: Callable[[str, Pin], PinnedTable]

    def table(self, name: str) -> PinnedTable | None:
        """None when no run has created it yet."""
        pin = self.manifest.tables.get(name)
        return None if pin is None else self.open(name, pin)


class LakeReader:
    """Reads one lake at its current manifest. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._lake = Lake(folder)
        self._lock = threading.Lock()
        self._manifest_state: tuple[int, int] | None = None
        self._manifest: LakeManifest | None = None
        self._tables: dict[str, PinnedTable] = {}

    def read(self, read: Callable[[PinnedLake], Answer]) -> Answer | None:
        """Call `read` with the current lake; None without a lake; raise ArchiveUnreadable for a damaged one."""
        try:
            return self._read_once(read)
        except _DAMAGED:
            # A run and a vacuum may have replaced the files meanwhile: read the new manifest and try again.
            self._reset()
        try:
            return self._read_once(read)
        except _DAMAGED as error:
            raise ArchiveUnreadable(
                f"The lake {self._lake.folder} cannot be read: {error}. See `tinyagi pipeline verify`."
            ) from error

    def _read_once(self, read: Callable[[PinnedLake], Answer]) -> Answer | None:
        with self._lock:
            manifest = self._current()
        return None if manifest is None else read(PinnedLake(manifest, self._open))

    def _current(self) -> LakeManifest | None:
        """The manifest, reread when its file has changed."""
        try:
            state = self._lake.manifest_file.stat()
        except FileNotFoundError:
            return None
        current = (state.st_ino, state.st_mtime_ns)
        if current != self._manifest_state:
            self._manifest = self._lake.manifest()
            self._manifest_state = current
        return self._manifest

    def _open(self, name: str, pin: Pin) -> PinnedTable:
        with self._lock:
            table = self._tables.get(name)
            if table is None or table.pin != pin:
                table = self._tables[name] = PinnedTable(self._lake, find_table(name), pin)
            return table

    def _reset(self) -> None:
        with self._lock:
            self._manifest_state = None
            self._tables.clear()


def _files(lake: Lake, table: Table, handle: DeltaTable) -> Iterator[PinnedFile]:
    # These fragments know only their day. Those of deltalake also carry column statistics, and a truncated bound would
    # hide rows.
    local = pafs.SubTreeFileSystem(str(lake.path(table.name)), pafs.LocalFileSystem())
    file_format = ds.ParquetFileFormat(default_fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=True))
    actions = pa.table(handle.get_add_actions(flatten=True))
    for action in actions.to_pylist():
        day = action[f"partition.{DATE}"]
        fragment = file_format.make_fragment(
            unquote(action["path"]), local, pc.field(DATE) == pa.scalar(day, pa.date32())
        )
        rows = action.get("num_records")
        yield PinnedFile(
            fragment,
            day,
            fragment.count_rows() if rows is None else rows,
            action.get("min.id"),
            action.get("max.id"),
        )


def _doubling_batches(items: Sequence[Answer]) -> Iterator[list[Answer]]:
    """One item, then two, four, …: most reads need only the first, and a long search stays fast."""
    rest, size = iter(items), 1
    while batch := list(islice(rest, size)):
        yield batch
        size = min(size * 2, _LARGEST_BATCH)


def _ends_below(file: PinnedFile, lowest: int) -> bool:
    return file.highest is not None and file.highest <= lowest


def plain_rows(found: pa.Table) -> list[Row]:
    """Rows as mappings, built by column and through NumPy: Arrow's own conversion is several times slower."""
    names, columns = found.column_names, [_values(column.combine_chunks()) for column in found.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.Array) -> list[Any]:
    values: list[Any]
    if pa.types.is_list(column.type) and pa.types.is_integer(column.type.value_type):
        flat = iter(_values(column.flatten()))
        lengths = _values(pc.list_value_length(column))
        return [None if length is None else list(islice(flat, length)) for length in lengths]
    if (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)) and not column.null_count:
        values = column.to_numpy().tolist()
    else:
        values = column.to_pylist()
    return values
