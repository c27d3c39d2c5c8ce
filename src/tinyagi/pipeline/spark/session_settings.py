"""The settings of a Spark session, by the size of its work: JVM options, and SQL settings that can change later."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

LEAST_PARTITIONS: Final = 2
FEW_EVENTS: Final = 50_000
"""A run over fewer events ends before generated code and adaptive plans pay off."""
MIDDLE_EVENTS: Final = 500_000
"""A run over fewer events ends before the JVM's optimizing compiler pays off."""

_LOCAL: Final = re.compile(r"local(\[ *(\*|[1-9][0-9]*) *(, *[1-9][0-9]* *)?\])?")
_LOOPBACK: Final = "127.0.0.1"


class Size(Enum):
    """How much work a session gets."""

    FEW = "few"
    MIDDLE = "middle"
    """Also of a session that stays open for hours."""
    MANY = "many"

    @classmethod
    def of(cls, events: int) -> "Size":
        if events < FEW_EVENTS:
            return cls.FEW
        return cls.MIDDLE if events < MIDDLE_EVENTS else cls.MANY


# One compiler alone gets 48 MiB for its code. A session that stays fills them, and then its JVM only interprets.
_QUICK_COMPILER: Final = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
# The optimizing compiler takes a third of the CPU time of a large run; code that runs ten times as often as Java's
# default asks for is worth it.
_PATIENT_COMPILER: Final = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
# Batch work tolerates pauses: on two cores the parallel collector saves a quarter of the time.
_PARALLEL: Final = "-XX:+UseParallelGC"
# Java ends at its start when an option list names two collectors, so each size names its own.
_JVM_OPTIONS: Final[Mapping[Size, Sequence[str]]] = {
    Size.FEW: ("-XX:+UseSerialGC", *_QUICK_COMPILER),
    Size.MIDDLE: (_PARALLEL, *_QUICK_COMPILER),
    Size.MANY: (_PARALLEL, *_PATIENT_COMPILER),
}


def jvm_options(size: Size) -> Sequence[str]:
    """The collector and the compiler of a session's JVMs."""
    return _JVM_OPTIONS[size]


def sql_settings(size: Size, master: str) -> dict[str, str | None]:
    """The settings that a running session can change; None means Spark's default.

    Few rows are done before generated code is compiled, and each step of an adaptive plan is one more job.
    """
    is_few = size is Size.FEW
    partitions = None
    if is_few:
        partitions = "1"
    elif is_local(master):
        partitions = str(max(LEAST_PARTITIONS, local_cores(master)))
    return {
        "spark.sql.adaptive.enabled": "false" if is_few else "true",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN" if is_few else "FALLBACK",
        "spark.sql.codegen.wholeStage": "false" if is_few else "true",
        "spark.sql.leafNodeDefaultParallelism": partitions,
        "spark.sql.shuffle.partitions": partitions,
    }


@contextmanager
def tuned_for_many(spark: SparkSession) -> Iterator[None]:
    """Give a session the SQL settings of a large run in this block, then its own again.

    For a small run that meets large files. The JVM's options stay, and other threads of the session are affected too.
    """
    # PySpark declares the master as optional, which it is only before the start.
    settings = sql_settings(Size.MANY, spark.sparkContext.master or "")
    before = {name: spark.conf.get(name, None) for name in settings}
    _apply(spark, settings)
    try:
        yield
    finally:
        _apply(spark, before)


def _apply(spark: SparkSession, settings: Mapping[str, str | None]) -> None:
    for name, value in settings.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


def session_settings(
    *, master: str, folder: Path, memory: str, logging: Path, size: Size, options: Sequence[str] = ()
) -> dict[str, str]:
    """All settings of a new session. Its temporary files go into `folder`; `options` are for the driver's JVM only."""
    local, warehouse, temporary = (folder.absolute() / name for name in ("local", "warehouse", "tmp"))
    # Java does not create its folder for temporary files.
    temporary.mkdir()
    driver = (
        f"-Dlog4j2.configurationFile={logging.absolute().as_uri()}",
        # Java unpacks native libraries there.
        f"-Djava.io.tmpdir={temporary}",
        # Otherwise the JVM writes a file into the system's temporary folder.
        "-XX:-UsePerfData",
        *jvm_options(size),
        *options,
    )
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": memory,
        "spark.driver.defaultJavaOptions": " ".join(map(_quoted, driver)),
        "spark.executor.defaultJavaOptions": " ".join(jvm_options(size)),
        # Hadoop sets file modes itself and ignores the process's umask.
        "spark.hadoop.fs.permissions.umask-mode": "077",
        "spark.local.dir": str(local),
        # Otherwise every call that builds a column asks the JVM to record the line of Python that made it.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
        # All generated classes of a run: Spark's default of 100 compiles them again for each slice of events.
        "spark.sql.codegen.cache.maxEntries": "2000",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Percentiles and lists aggregate in memory; with more groups than this, Spark sorts all rows instead.
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "50000",
        "spark.sql.parquet.compression.codec": "zstd",
        # Spark rejects a source that takes filters without this.
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        # Spark gets the exact list of files, so discovery is not worth a job.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        "spark.sql.warehouse.dir": warehouse.as_uri(),
        **{name: value for name, value in sql_settings(size, master).items() if value is not None},
    }
    if is_local(master):
        settings |= {"spark.driver.bindAddress": _LOOPBACK, "spark.driver.host": _LOOPBACK}
        if size is Size.FEW:
            # `createDataFrame` divides its rows by this number, which `tuned_for_many` cannot change.
            settings["spark.default.parallelism"] = "1"
    return settings


def event_log_settings(folder: Path) -> dict[str, str]:
    """Settings that write Spark's event log, one plain file per session, into the folder."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.absolute().as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


def is_local(master: str) -> bool:
    return _LOCAL.fullmatch(master) is not None


def local_cores(master: str) -> int:
    """The N of `local[N]` and `local[N,failures]`; this process's cores for `local[*]`, one for `local`."""
    count = master.removeprefix("local").strip("[]").partition(",")[0].strip()
    if count == "*":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(count) if count.isdecimal() else 1


def _quoted(option: str) -> str:
    """Quote an option for Spark's parser: a folder's name may contain a space."""
    return '"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"'
