"""Folding: new row = fold(old row, later events). What an event says is itself a row of the table, mostly null.

So a batch of events is a table of such rows, a stored row is one that speaks for all events before it, and one
aggregation serves both: folding in any split of batches gives what folding all at once gives.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows
from pyspark.sql.types import DateType, StructField, StructType

from tinyagi.pipeline.frames import spark_schema
from tinyagi.pipeline.merging import Merging
from tinyagi.pipeline.tables.model import DATE, Merge, Table

LAST_EVENT: Final = "last_event_id"
ARRIVAL: Final = "event_date"
"""The date of the event itself: where a row goes whose beginning is unknown."""


def fold(stored: DataFrame, sayings: DataFrame, table: Table) -> DataFrame:
    """One row per key, from stored rows and from rows that each speak for one later event.

    Columns that a saying does not have are null in it; derived columns are left to the table's own `finish`.
    """
    (key,) = table.key
    merges = {column.name: column.merge for column in table.columns if column.merge is not Merge.DERIVED}
    merges |= {DATE: Merge.FIRST, ARRIVAL: Merge.FIRST}
    shape = StructType(
        [*(field for field in spark_schema(table).fields if field.name in merges), StructField(ARRIVAL, DateType())]
    )
    said = stored.unionByName(sayings, allowMissingColumns=True)
    ordered = (
        # What is said of nothing is no part of any row.
        said.where(F.col(key).isNotNull())
        .select(*(F.col(field.name).cast(field.dataType) for field in shape.fields))
        .repartition(F.col(key))
        .sortWithinPartitions(key, LAST_EVENT)
    )
    merging = Merging(key, tuple((name, merges[name]) for name in shape.names if name != key))
    folded = ordered.mapInArrow(merging, shape)
    last_texts = [column.name for column in table.columns if column.merge is Merge.LAST and column.type == "string"]
    return folded.withColumns(
        {
            **{name: F.nullif(F.col(name), F.lit("")) for name in last_texts},
            DATE: F.coalesce(DATE, ARRIVAL),
        }
    ).drop(ARRIVAL)
