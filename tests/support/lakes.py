"""Writes tables of a lake directly, for tests of readers."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tinyagi.pipeline.delta.snapshot import APP
from tinyagi.pipeline.instants import time_of
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.manifest import LakeManifest, Pin, write_manifest
from tinyagi.pipeline.tables.catalog import find_table
from tinyagi.pipeline.tables.model import DATE, TIMESTAMP, Column, Table
from tinyagi.pipeline.tables.schema import arrow_schema

Row = Mapping[str, Any]


def full_rows(table: Table, rows: Iterable[Row]) -> list[dict[str, Any]]:
    """The rows with every column: missing ones are null, and instants in milliseconds are times where stored so."""
    return [{column.name: _stored(column, row.get(column.name)) for column in table.all_columns} for row in rows]


def arrow_rows(table: Table, rows: Iterable[Row]) -> pa.Table:
    return pa.Table.from_pylist(full_rows(table, rows), arrow_schema(table))


def _stored(column: Column, value: Any) -> Any:
    return time_of(value) if column.type == TIMESTAMP and isinstance(value, int) else value


def write_old_lake(folder: Path, tables: Mapping[str, Sequence[Row]], *, through_id: int = 7) -> Lake:
    """As an earlier version wrote it: with instants as integer milliseconds in silver and gold."""
    lake = Lake(folder)
    pins: dict[str, Pin] = {}
    for name, rows in tables.items():
        schema = pa.schema(
            [
                field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) else field
                for field in arrow_schema(find_table(name))
            ]
        )
        full = [{column: row.get(column) for column in schema.names} for row in rows]
        lake.path(name).parent.mkdir(parents=True, exist_ok=True)
        seen = CommitProperties(app_transactions=[Transaction(APP, through_id)])
        write_deltalake(
            lake.path(name), pa.Table.from_pylist(full, schema), partition_by=[DATE], commit_properties=seen
        )
        pins[name] = Pin(0, through_id)
    write_manifest(lake.manifest_file, LakeManifest(1, through_id, 0, pins))
    return lake


def write_lake(folder: Path, tables: Mapping[str, Sequence[Row]], *, through_id: int = 1_000_000) -> Lake:
    """A lake with these rows; missing columns are null. Written again, a table has the new rows only."""
    lake = Lake(folder)
    pins: dict[str, Pin] = {}
    before = lake.manifest()
    for name, rows in tables.items():
        lake.path(name).parent.mkdir(parents=True, exist_ok=True)
        write_deltalake(lake.path(name), arrow_rows(find_table(name), rows), mode="overwrite", partition_by=[DATE])
        pins[name] = Pin(DeltaTable(lake.path(name)).version(), through_id)
    known = dict(before.tables) if before else {}
    write_manifest(lake.manifest_file, LakeManifest(1, through_id, 0, {**known, **pins}))
    return lake
