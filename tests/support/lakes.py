"""Writes tables of a lake directly, for tests of readers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tinyagi.pipeline.lake import Lake, LakeManifest, Pin, write_manifest
from tinyagi.pipeline.tables.catalog import find_table
from tinyagi.pipeline.tables.model import DATE
from tinyagi.pipeline.tables.schema import arrow_schema


def write_lake(folder: Path, tables: Mapping[str, Sequence[Mapping[str, Any]]], *, through_id: int = 1_000_000) -> Lake:
    """A lake with these rows; missing columns are null. Written again, a table has the new rows only."""
    lake = Lake(folder)
    pins: dict[str, Pin] = {}
    before = lake.manifest()
    for name, rows in tables.items():
        schema = arrow_schema(find_table(name))
        full = [{column: row.get(column) for column in schema.names} for row in rows]
        lake.path(name).parent.mkdir(parents=True, exist_ok=True)
        write_deltalake(lake.path(name), pa.Table.from_pylist(full, schema), mode="overwrite", partition_by=[DATE])
        pins[name] = Pin(DeltaTable(lake.path(name)).version(), through_id)
    known = dict(before.tables) if before else {}
    write_manifest(lake.manifest_file, LakeManifest(1, through_id, 0, {**known, **pins}))
    return lake
