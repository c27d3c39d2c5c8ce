"""The lake's status: size of its tables, freshness, and lag behind the log. Needs no Java and no Spark."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.tables import catalog
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.store.event_reader import EventLogReader


@dataclass(frozen=True, slots=True)
class TableStatus:
    name: str
    meaning: str
    kept: str
    rows: int
    files: int
    bytes: int
    version: int
    through_id: int
    newest: str | None
    """The latest day with rows."""


@dataclass(frozen=True, slots=True)
class LakeStatus:
    folder: str
    floor: int
    through_id: int
    written_at: int
    head_id: int
    """The newest event of the log."""
    tables: tuple[TableStatus, ...]
    last_run: dict[str, Any] | None = field(default=None)

    @property
    def behind(self) -> int:
        return max(0, self.head_id - self.through_id)

    @property
    def bytes(self) -> int:
        return sum(table.bytes for table in self.tables)


def lake_status(lake: Lake, database: Path) -> LakeStatus | None:
    """As of the manifest; None when no run has ended yet."""
    manifest = lake.manifest()
    if manifest is None:
        return None
    with EventLogReader(database) as log:
        head = log.head()
    tables = tuple(_table_status(lake, name) for name in TABLES if name in manifest.tables)
    return LakeStatus(
        str(lake.folder), manifest.floor, manifest.through_id, manifest.written_at, head, tables, _last_run(lake)
    )


def _table_status(lake: Lake, name: str) -> TableStatus:
    handle = lake.delta(name)
    files = pa.table(handle.get_add_actions(flatten=True))
    table = TABLES[name]
    days = files.column("partition.date") if "partition.date" in files.column_names else pa.array([], pa.date32())
    newest = pc.max(days).as_py()
    manifest = lake.manifest()
    return TableStatus(
        name=name,
        meaning=table.meaning,
        kept=table.kept,
        rows=pc.sum(files.column("num_records")).as_py() or 0,
        files=files.num_rows,
        bytes=pc.sum(files.column("size_bytes")).as_py() or 0,
        version=handle.version(),
        through_id=manifest.tables[name].through_id if manifest else 0,
        newest=None if newest is None else str(newest),
    )


def _last_run(lake: Lake) -> dict[str, Any] | None:
    runs = lake.rows(catalog.PIPELINE_RUNS.name).sort_by([("ended_at", "descending")]).slice(0, 1).to_pylist()
    if not runs:
        return None
    found = {name: value for name, value in runs[0].items() if name != "date"}
    return {**found, "rows": json.loads(found["rows"]), "seconds": json.loads(found["seconds"])}
