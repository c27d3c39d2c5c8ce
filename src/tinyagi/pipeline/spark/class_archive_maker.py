"""Makes a class archive: `python -m tinyagi.pipeline.spark.class_archive_maker FOLDER MEMORY`, in the background.

The archive holds the classes that its queries load, so they are of the kinds that a small run of the pipeline has.
"""

import fcntl
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from tinyagi.pipeline.errors import PipelineError
from tinyagi.pipeline.spark.class_archive import (
    ARCHIVE_SIZE,
    archive_file,
    failed_lately,
    making_options,
    note_attempt,
    remove_old,
)
from tinyagi.pipeline.spark.java import find_java
from tinyagi.pipeline.spark.session import open_session
from tinyagi.settings.environment import snapshot
from tinyagi.settings.home import make_private
from tinyagi.system.files import private_files

LONGEST: Final = timedelta(minutes=15)
"""Then the JVM is killed and there is no archive. On a busy machine, a niced JVM gets a tenth of a core."""
LEAST_FREE_BYTES: Final = 1_000_000_000
"""With less room on the disk, no archive is made."""
LOG_FILE: Final = "maker.log"

_LAST_SECONDS: Final = 30.0
_LOCK: Final = ".lock"
_DRAFTS: Final = "making-"
_ROWS: Final = 40
_PAYLOAD: Final = '{"agent": "coder", "tokens": {"input": 5, "output": 7}, "files": ["a", "b"], "cost": 0.25}'
_PAYLOAD_DDL: Final = "agent STRING, tokens STRUCT<input: BIGINT, output: BIGINT>, files ARRAY<STRING>, cost DOUBLE"

log = logging.getLogger("tinyagi.pipeline")


def make(
    folder: Path, memory: str, environment: Mapping[str, str], *, now: float, longest: timedelta = LONGEST
) -> bool:
    """Make the archive of this Java unless there is one; False when nothing was made, and the log says why."""
    with _locked(folder) as is_locked, private_files():
        if not is_locked:
            log.debug("No class archive: another process makes one.")
            return False
        for leftover in folder.glob(f"{_DRAFTS}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        try:
            return _make(folder, memory, environment, now, longest)
        except Exception as error:
            log.debug("No class archive: %s", str(error).partition("\n")[0])
            return False


def _make(folder: Path, memory: str, environment: Mapping[str, str], now: float, longest: timedelta) -> bool:
    java = find_java(environment, folder / "java")
    file = archive_file(folder, java, memory)
    if file.exists() or failed_lately(file, now=now):
        return False
    if shutil.disk_usage(folder).free < LEAST_FREE_BYTES:
        raise PipelineError(f"less than {LEAST_FREE_BYTES // 1_000_000} MB are free in {folder}.")
    note_attempt(file)
    with tempfile.TemporaryDirectory(prefix=_DRAFTS, dir=folder, ignore_cleanup_errors=True) as name:
        draft = Path(name) / file.name
        with (
            _time_limit(longest),
            open_session(
                java=java,
                scratch=Path(name),
                master="local[2]",
                memory=memory,
                size=ARCHIVE_SIZE,
                options=making_options(java, draft),
                stop_seconds=2 * longest.total_seconds(),
            ) as spark,
        ):
            gateway = spark.sparkContext._gateway  # noqa: SLF001 - the only place that has the process
            process: subprocess.Popen[bytes] | None = None if gateway is None else gateway.proc
            run_queries(spark, Path(name))
        code = None if process is None else process.returncode
        if code != 0 or not draft.is_file():
            raise PipelineError(f"Java ended with exit code {code} and wrote no archive.")
        draft.replace(file)
    remove_old(folder)
    log.debug("Made the class archive %s", file)
    return True


def run_queries(spark: SparkSession, folder: Path) -> None:
    """Queries like those of a small pipeline run, over a few rows."""
    rows = pa.table(
        {
            "id": pa.array(range(_ROWS), pa.int64()),
            "type": ["run_started", "run_ended"] * (_ROWS // 2),
            "conversation": [f"c{number % 5}" for number in range(_ROWS)],
            "date": pa.array([number % 4 for number in range(_ROWS)], pa.int32()).cast(pa.date32()),
            "payload": [_PAYLOAD] * (_ROWS - 1) + ["{"],
        }
    )
    paths = []
    for number in range(2):
        paths.append(str(folder / f"events-{number}.parquet"))
        pq.write_table(rows.slice(number * _ROWS // 2, _ROWS // 2), paths[-1], compression="zstd")
    events = spark.createDataFrame(rows)
    stored = spark.read.schema(events.schema).parquet(*paths).where(F.col("date") >= F.lit("1970-01-01").cast("date"))
    parsed = (
        stored.withColumn("read", F.from_json("payload", _PAYLOAD_DDL, {"mode": "PERMISSIVE"}))
        .select("id", "type", "conversation", "date", "payload", "read.*")
        .withColumn("hour", F.date_trunc("hour", F.timestamp_millis(F.col("id") * 3_600_000)))
        .where(F.col("type").isin("run_started", "run_ended"))
    ).cache()
    newest = Window.partitionBy("conversation").orderBy(F.col("id").desc_nulls_last())
    last = parsed.withColumn("place", F.row_number().over(newest)).where("place <= 3").drop("place")
    folded = parsed.groupBy("conversation", "date").agg(
        F.count("*").alias("events"),
        F.count_if(F.col("agent").isNull()).alias("invalid"),
        F.sum("tokens.input").alias("input"),
        F.max_by("type", "id").alias("last_type"),
        F.min(F.struct("id", "type")).alias("first"),
        F.percentile("cost", F.array(F.lit(0.5), F.lit(0.95))).alias("costs"),
        F.collect_list("id").alias("ids"),
        F.collect_set("agent").alias("agents"),
    )
    joined = (
        last.join(folded, ["conversation", "date"], "left")
        .join(events.select("id", F.lit(True).alias("is_new")), "id", "left")
        .join(F.broadcast(last.select("conversation").distinct()), "conversation", "left_semi")
    )
    rounded = joined.select(
        "*",
        F.coalesce(F.round("cost", 2), F.lit(0.0)).alias("price"),
        F.when(F.length("payload") > 9, F.sha2("payload", 256)).otherwise(F.lower("type")).alias("hash"),
        F.regexp_replace("payload", "[0-9]+", "#").alias("text"),
        F.transform("ids", lambda one: one + 1).alias("next"),
        F.to_json(F.struct("id", "tokens")).alias("json"),
    )
    rounded.sort("date", "conversation", "id").toArrow()
    rounded.repartition(F.col("date")).sortWithinPartitions("date", "id").toArrow()
    folded.unionByName(folded.withColumn("events", F.lit(0).cast("long"))).toArrow()
    parsed.select("id", F.explode("files").alias("file")).groupBy("file").agg(F.count_distinct("id")).toArrow()
    last.join(folded, "conversation", "left_anti").select("date").distinct().collect()
    parsed.createOrReplaceTempView("parsed")
    spark.sql("SELECT type, count(*) AS rows FROM parsed GROUP BY type HAVING rows > 1 ORDER BY rows LIMIT 5").collect()
    spark.range(3).count()
    parsed.unpersist()


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Hold the maker's lock in this block; False when another process has it. It ends with its process."""
    make_private(folder)
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


@contextmanager
def _time_limit(longest: timedelta) -> Iterator[None]:
    """Kill this process's children when the block takes too long, which waits for nothing else."""
    timer = threading.Timer(longest.total_seconds(), _give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _give_up() -> None:
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            child.kill()
    # The main thread removes its files and ends the process. PySpark waits forever for some Javas.
    time.sleep(_LAST_SECONDS)
    os._exit(1)


def main(folder: str, memory: str, *, longest: timedelta = LONGEST) -> None:
    make_private(Path(folder))
    # Opened with its first line, so the reason of a failure stays until the next attempt.
    handler = logging.FileHandler(Path(folder) / LOG_FILE, mode="w", encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    make(Path(folder), memory, snapshot(), now=time.time(), longest=longest)


if __name__ == "__main__":
    main(*sys.argv[1:])
