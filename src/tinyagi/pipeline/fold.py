"""Folding: new row = fold(old row, later events). What an event says is itself a row of the table, mostly null.

So a batch of events is a table of such rows, a stored row is one that speaks for all events before it, and one
aggregation serves both: folding in any split of batches gives what folding all at once gives.
"""

from typing import Final, assert_never

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows

from tinyagi.pipeline.tables.model import DATE, Merge, Table

LAST_EVENT: Final = "last_event_id"
ARRIVAL: Final = "event_date"
"""The date of the event itself: where a row goes whose beginning is unknown."""


def fold(stored: DataFrame, sayings: DataFrame, table: Table) -> DataFrame:
    """One row per key, from stored rows and from rows that each speak for one later event.

    Columns that a saying does not have are null in it; derived columns are left to the table's own `finish`.
    """
    everything = stored.unionByName(sayings, allowMissingColumns=True)
    merging = [column for column in table.columns if column.merge is not Merge.DERIVED and column.name not in table.key]
    folded = everything.groupBy(*table.key).agg(
        *(_merged(column.merge, column.name).alias(column.name) for column in merging),
        F.coalesce(_merged(Merge.FIRST, DATE), _merged(Merge.FIRST, ARRIVAL)).alias(DATE),
    )
    texts = [column.name for column in merging if column.merge is Merge.LAST and column.type == "string"]
    return folded.withColumns({name: F.nullif(F.col(name), F.lit("")) for name in texts})


def _merged(merge: Merge, name: str) -> Column:
    column, order = F.col(name), F.col(LAST_EVENT)
    said = F.when(column.isNotNull(), order)
    match merge:
        case Merge.FIRST:
            return F.min_by(column, said)
        case Merge.LAST:
            return F.max_by(column, said)
        case Merge.SUM:
            return F.sum(column)
        case Merge.MAX:
            return F.max(column)
        case Merge.GATHER:
            in_order = F.array_sort(F.collect_list(F.when(column.isNotNull(), F.struct(order, column))))
            return F.flatten(F.transform(in_order, lambda one: one[name]))
        case Merge.DERIVED:
            raise AssertionError(f"{name} is worked out, not merged")
        case _:
            assert_never(merge)
