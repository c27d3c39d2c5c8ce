"""Rows in one of two places: many are a DataFrame, whose functions run in Spark's tasks; few are an Arrow table here.

Every rule that is a Python function on Arrow batches runs in both places, through `apply`. Everything else (parsing,
validity, derived columns, aggregates) is Spark's, so few rows become a DataFrame again for it (`as_frame`) and come
back together (`collect`): a query of one job costs less than a Python process.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

Rows: TypeAlias = DataFrame | pa.Table
ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_PART: Final = "part"


def as_frame(spark: SparkSession, rows: Rows) -> DataFrame:
    if isinstance(rows, DataFrame):
        return rows
    # PySpark does not take columns without a chunk, which a filter may leave.
    return spark.createDataFrame(rows if rows.num_rows else rows.schema.empty_table())


def apply(rows: Rows, function: ArrowFunction, schema: StructType) -> Rows:
    """The function's rows: in tasks, or here."""
    if isinstance(rows, DataFrame):
        return rows.mapInArrow(function, schema)
    arrow = _arrow(schema)
    batches = list(function(iter(rows.to_batches())))
    return cast(pa.Table.from_batches(batches), arrow) if batches else arrow.empty_table()


def ordered(rows: Rows, schema: StructType, key: str, *columns: str) -> Rows:
    """Rows of this schema, those of one key together and in the order of the columns; a missing column is null."""
    if isinstance(rows, DataFrame):
        chosen = rows.select(*(F.col(field.name).cast(field.dataType) for field in schema.fields))
        return chosen.repartition(F.col(key)).sortWithinPartitions(key, *columns)
    return cast(rows, _arrow(schema)).sort_by([(name, "ascending") for name in (key, *columns)])


def union(first: Rows, second: Rows, schema: StructType) -> Rows:
    """The rows of both, which have to be in the same place; a missing column is null."""
    if isinstance(first, DataFrame) and isinstance(second, DataFrame):
        return first.unionByName(second, allowMissingColumns=True)
    arrow = _arrow(schema)
    return pa.concat_tables([cast(first, arrow), cast(second, arrow)])


def cast(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with exactly the columns of the schema; a missing column is null."""
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def distinct(rows: Rows, column: str) -> pa.ChunkedArray:
    """The distinct values, collected, without null."""
    if isinstance(rows, DataFrame):
        return pc.drop_null(rows.select(column).distinct().toArrow().column(0))
    return pa.chunked_array([pc.drop_null(pc.unique(rows.column(column)))])


def collect(frames: Mapping[str, DataFrame]) -> dict[str, pa.Table]:
    """The rows of several frames by one query of one job: each is a column of structs, and a row has one of them."""
    if not frames:
        return {}
    columns = {name: f"frame{place}" for place, name in enumerate(frames)}
    types = {name: _nullable(frame.schema).simpleString() for name, frame in frames.items()}
    parts = [
        frame.selectExpr(
            f"'{columns[name]}' AS {_PART}",
            *(
                f"CAST({'struct(*)' if other == name else 'NULL'} AS {types[other]}) AS {column}"
                for other, column in columns.items()
            ),
        )
        for name, frame in frames.items()
    ]
    together = reduce(DataFrame.unionAll, parts).coalesce(1).toArrow()
    place = together.column(_PART)
    return {
        name: _unpacked(together.filter(pc.equal(place, column)).column(column), column, together.schema)
        for name, column in columns.items()
    }


def _unpacked(column: pa.ChunkedArray, name: str, schema: pa.Schema) -> pa.Table:
    empty = pa.schema(list(schema.field(name).type))
    return pa.Table.from_struct_array(column.combine_chunks()) if len(column) else empty.empty_table()


def _nullable(kind: DataType) -> DataType:
    """With fields that cannot be null, Arrow could not read the null struct of another frame's row."""
    if isinstance(kind, StructType):
        return StructType([StructField(field.name, _nullable(field.dataType)) for field in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType))
    return kind


def _arrow(schema: StructType) -> pa.Schema:
    return to_arrow_schema(schema, timezone="UTC")
