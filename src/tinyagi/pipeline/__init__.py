"""The lake of a home for programs: `lake.table` reads a table without Java, `register` serves your own Spark session.

from tinyagi.pipeline import register
register(spark)
spark.table("silver_runs").groupBy("agent").count().show()
"""
# ruff: noqa: PLC0415 - the command line imports this package, and must not load Spark

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tinyagi.settings.home import Home


def register(spark: "SparkSession", *, home: "Home | None" = None) -> None:
    """Make a home's lake known to a Spark session: a view of every table, and the source `tinyagi_events`.

    `silver.runs` becomes the view `silver_runs`, as the last finished run left it; a later call shows a newer state.
    The home is by default that of `TINYAGI_HOME`. Plain PySpark is enough, no Delta packages.
    """
    from tinyagi.pipeline.errors import LakeBroken
    from tinyagi.pipeline.ingest.spark_source import EventSource
    from tinyagi.pipeline.lake import Lake
    from tinyagi.pipeline.progress import Progress
    from tinyagi.pipeline.spark.lake_session import LakeSession
    from tinyagi.pipeline.spark.shell import make_views
    from tinyagi.settings.home import find_home

    lake = Lake((home or find_home()).lake)
    if lake.manifest() is None:
        raise LakeBroken(f"There is no lake at {lake.folder} yet. Run `tinyagi pipeline run`.")
    spark.dataSource.register(EventSource)
    make_views(LakeSession(spark, lake, Progress(), is_pinned=True))
