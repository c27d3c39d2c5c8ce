"""Tables of the lake as Spark's DataFrames, and frames as staged files. The only place that reads or writes Parquet."""

import datetime as dt
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tinyagi.pipeline.delta.commit import Staged
from tinyagi.pipeline.delta.snapshot import DataFile, Snapshot
from tinyagi.pipeline.delta.sweep import staging
from tinyagi.pipeline.schema import arrow_schema
from tinyagi.pipeline.tables.model import DATE, Table
from tinyagi.pipeline.writing import WRITTEN_DDL, FilesByDay


def spark_schema(table: Table) -> StructType:
    return from_arrow_schema(arrow_schema(table))


def read_files(spark: SparkSession, snapshot: Snapshot, files: Iterable[DataFile] | None = None) -> DataFrame:
    """The rows of these files, or of all; with the declared schema, so what an older file lacks is null."""
    locations = snapshot.locations(snapshot.files if files is None else files)
    schema = spark_schema(snapshot.table)
    if not locations:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", str(snapshot.folder)).parquet(*locations)


@contextmanager
def staged(rows: DataFrame, snapshot: Snapshot, *, arranged: bool = True) -> Iterator[Staged]:
    """The rows as Parquet files below the table's folder, one folder per date; what is not taken from there goes.

    Arranged: one file per date, sorted, unless a date has very many rows. Otherwise each task writes as it reads.
    """
    table = snapshot.table
    # Cast: what Spark infers for a computed column may be wider or narrower than what is declared.
    schema = spark_schema(table)
    chosen = rows.select(*(F.col(field.name).cast(field.dataType) for field in schema.fields))
    if arranged:
        chosen = chosen.repartition(F.col(DATE)).sortWithinPartitions(DATE, *table.order)
    with staging(snapshot.folder) as folder:
        written = chosen.mapInArrow(FilesByDay(str(folder)), WRITTEN_DDL).collect()
        yield Staged(folder, tuple(sorted(row["path"] for row in written)))


def dates_in(rows: DataFrame) -> frozenset[dt.date]:
    """The distinct values of the column `date`, on the driver: a lake has few hundred of them."""
    return frozenset(row[0] for row in rows.select(DATE).distinct().collect() if row[0] is not None)
