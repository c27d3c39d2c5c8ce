"""Tables of a home's lake in your own Spark session: plain PySpark, no Delta packages.

from tinyagi.pipeline import own_session
own_session.table(spark, "silver.runs").groupBy("agent").count().show()
"""

from pyspark.sql import DataFrame, SparkSession

from tinyagi.pipeline.errors import LakeBroken
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.manage.query import make_views
from tinyagi.pipeline.progress import Progress
from tinyagi.pipeline.spark.lake_session import LakeSession
from tinyagi.settings.home import Home, find_home


def table(spark: SparkSession, name: str, *, home: Home | None = None) -> DataFrame:
    """A table as the last finished run left it, by default of `TINYAGI_HOME`; raise NotFound for an unknown name."""
    reader = _reader(spark, home)
    return reader.read(reader.open(name))


def create_views(spark: SparkSession, *, home: Home | None = None) -> None:
    """Create a temporary view of every table: `silver.runs` becomes `silver_runs`."""
    make_views(_reader(spark, home))


def _reader(spark: SparkSession, home: Home | None) -> LakeSession:
    lake = Lake((home or find_home()).lake)
    if lake.manifest() is None:
        raise LakeBroken(f"There is no lake at {lake.folder} yet. Run `tinyagi pipeline run`.")
    return LakeSession(spark, lake, Progress(), is_pinned=True)
