"""gold.dead_letters: what messages die of, by the shape of the error."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows

from tinyagi.pipeline.clock import day_of
from tinyagi.pipeline.gold.measures import how_many

EXCERPT: Final = 200
# From the special to the general: an address holds a path, a path holds numbers.
VARYING: Final = (
    (r"[a-z][a-z0-9+.-]*://\S+", "<address>"),
    (r"(/[\w.~-]+){2,}/?", "<path>"),
    (r"\b[0-9a-f]{8,}(-[0-9a-f]{4,})*\b", "<id>"),
    (r"\b\w+_[0-9a-z]{8}\b", "<id>"),
    (r"'[^']*'|\"[^\"]*\"|`[^`]*`", "<text>"),
    (r"\d+", "#"),
    (r"\s+", " "),
)


def died(messages: DataFrame) -> DataFrame:
    """Messages that died at least once, each on the day it came: a day that never changes."""
    return messages.where(F.col("deaths") > 0).withColumn("date", day_of(F.col("created_at")))


def dead_letters(messages: DataFrame) -> DataFrame:
    """Of `died`."""
    error = F.substring(F.substring_index(F.trim(F.coalesce("last_error", F.lit(""))), "\n", 1), 1, EXCERPT)
    shaped = messages.withColumn("line", error).withColumn("fingerprint", fingerprint(F.col("line")))
    return shaped.groupBy("agent", "fingerprint", "date").agg(
        F.min_by("error_kind", "id").alias("error_kind"),
        F.min_by("line", "id").alias("error"),
        F.count("*").alias("messages"),
        how_many(F.col("status") == "dead").alias("still_dead"),
        F.min("died_at").alias("first_at"),
        F.max("died_at").alias("last_at"),
        F.min("id").alias("example_id"),
    )


def fingerprint(error: Column) -> Column:
    """The same for errors that differ in numbers, ids, paths and quoted texts only."""
    shape = F.lower(error)
    for varying, stand_in in VARYING:
        shape = F.regexp_replace(shape, varying, stand_in)
    return F.substring(F.sha2(F.trim(shape), 256), 1, 12)
