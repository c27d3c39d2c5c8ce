"""A lake of an older version: missing columns are added, and are null in old rows."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake
from pyspark.sql import SparkSession

from tests.pipeline.tables import DAY
from tinyagi.pipeline.delta.snapshot import APP, open_snapshot
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.manifest import LakeManifest, Pin, write_manifest
from tinyagi.pipeline.progress import Progress
from tinyagi.pipeline.spark.lake_session import LakeSession, WritePlan, read_files
from tinyagi.pipeline.tables.catalog import TABLES, find_table
from tinyagi.pipeline.tables.schema import arrow_schema
from tinyagi.pipeline.transform.columns import spark_schema

NAME = "silver.handoffs"
LACKING = ("wait_ms", "latency_ms", "last_event_id")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake with one row, written without the last columns."""
    lake = Lake(tmp_path / "lake")
    schema = arrow_schema(find_table(NAME))
    older = pa.schema([field for field in schema if field.name not in LACKING])
    row = {"id": 1, "from_agent": "coder", "to_agent": "tester", "date": DAY - dt.timedelta(days=1)}
    rows = pa.Table.from_pylist([{name: row.get(name) for name in older.names}], older)
    seen = CommitProperties(app_transactions=[Transaction(APP, 5)])
    lake.path(NAME).parent.mkdir(parents=True)
    write_deltalake(lake.path(NAME), rows, partition_by=["date"], commit_properties=seen)
    write_manifest(lake.manifest_file, LakeManifest(1, 5, 0, {NAME: Pin(0, 5)}))
    return lake


def test_a_missing_column_of_an_older_lake_is_read_as_null(lake: Lake) -> None:
    (row,) = lake.rows(NAME).to_pylist()

    assert (row["to_agent"], row["latency_ms"]) == ("tester", None)


def test_a_column_is_added_before_anything_is_written(lake: Lake, spark: SparkSession) -> None:
    session = LakeSession(spark, lake, Progress())
    row = {"id": 2, "to_agent": "writer", "latency_ms": 12, "wait_ms": 3, "last_event_id": 9, "date": DAY}
    schema = spark_schema(find_table(NAME))
    rows = spark.createDataFrame([{name: row.get(name) for name in schema.names}], schema)

    done = session.write(NAME, lambda _: WritePlan(rows, 9))

    snapshot = open_snapshot(lake, NAME)
    assert done is not None
    assert snapshot.through_id == 9
    assert {field.name for field in snapshot.handle.schema().fields} == {
        column.name for column in find_table(NAME).all_columns
    }
    by_delta = {one["id"]: one["latency_ms"] for one in snapshot.handle.to_pyarrow_table().to_pylist()}
    by_spark = {one["id"]: one["latency_ms"] for one in read_files(spark, snapshot).collect()}
    assert by_delta == by_spark == {1: None, 2: 12}
    # The old file has no statistics for the new column, so no search may skip it.
    assert len(snapshot.reaching("last_event_id", 9)) == 2


def test_a_lake_with_all_columns_is_unchanged(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")

    versions = [open_snapshot(lake, name).version for _ in range(2) for name in TABLES]

    assert set(versions) == {0}
