"""One Spark session for a piece of work: how it is set up, and that its JVM is gone afterwards."""

import os
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

import pyspark
from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER, ClientServer, FinalizerWorker
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from tinyagi.pipeline.errors import PipelineError
from tinyagi.pipeline.java import Java
from tinyagi.settings.environment import snapshot

APP: Final = "tinyagi"
LEAST_PARTITIONS: Final = 2

# Nobody waits for a single answer here, so pauses do not matter: on two cores a quarter of the time is saved.
_COLLECTOR: Final = "-XX:+UseParallelGC"
_PATIENCE: Final = 30.0
# A killed process's sockets close a little before it can be asked how it ended.
_MOMENT: Final = 5.0
_LOOPBACK: Final = "127.0.0.1"
# Each of these would lead to another Spark, another kind of session or other folders than the ones asked for.
_STRAY: Final = (
    "MASTER",
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_PIN_THREAD",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_API_MODE",
    "SPARK_CONNECT_MODE_ENABLED",
    "SPARK_LOCAL_DIRS",
    "SPARK_REMOTE",
)


@contextmanager
def open_session(
    *,
    java: Java,
    scratch: Path,
    master: str = "local[*]",
    memory: str = "2g",
    extra: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """A session for the block; its JVM ends with the block, and with this process however that ends.

    `scratch` takes what Spark writes while it works, in a folder that is removed with the session. `extra` goes before
    every setting of ours.
    One at a time in a process: Spark keeps its session in class attributes.
    """
    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - the only place that tells
        raise PipelineError("This process has a Spark session already. Use that one, or close it first.")
    scratch.mkdir(parents=True, exist_ok=True)
    with (
        # Spark sweeps its own folders, but not those of a JVM that was killed.
        tempfile.TemporaryDirectory(prefix="session-", dir=scratch, ignore_cleanup_errors=True) as own,
        as_file(files("tinyagi.pipeline") / "log4j2.properties") as logging,
    ):
        settings = {**_settings(master, Path(own), memory, logging), **(extra or {})}
        try:
            with _told_of_its_end():
                with _spark_environment(java, master):
                    session = _started(master, settings)
                yield session
        finally:
            _end()


def _settings(master: str, folder: Path, memory: str, logging: Path) -> dict[str, str]:
    local, warehouse, temporary = (folder.absolute() / name for name in ("local", "warehouse", "tmp"))
    # Java does not make its own folder for temporary files.
    temporary.mkdir()
    options = (
        f"-Dlog4j2.configurationFile={logging.absolute().as_uri()}",
        # Native libraries are unpacked there.
        f"-Djava.io.tmpdir={temporary}",
        # Else there is a file about this JVM in the system's folder for temporary files.
        "-XX:-UsePerfData",
        _COLLECTOR,
    )
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": memory,
        "spark.driver.defaultJavaOptions": " ".join(map(_quoted, options)),
        "spark.executor.defaultJavaOptions": _COLLECTOR,
        "spark.local.dir": str(local),
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Percentiles and lists are gathered in memory; beyond so many groups all rows would be sorted instead.
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "50000",
        "spark.sql.parquet.compression.codec": "zstd",
        # A source that takes filters is refused without it.
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        # We hand Spark the exact files, so there is nothing worth a job of its own to discover.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        "spark.sql.warehouse.dir": warehouse.as_uri(),
    }
    if _is_local(master):
        settings |= {
            "spark.driver.bindAddress": _LOOPBACK,
            "spark.driver.host": _LOOPBACK,
            "spark.sql.shuffle.partitions": str(max(LEAST_PARTITIONS, _local_cores(master))),
        }
    return settings


def _started(master: str, settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.master(master).appName(APP)
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Py4JJavaError as error:
        raise PipelineError(f"Spark did not start with the master {master}: {error.java_exception}") from error
    except PySparkRuntimeError as error:
        raise PipelineError(
            f"Spark's Java ended at its start; what it said is above. Check the master {master} and the memory."
        ) from error


@contextmanager
def _told_of_its_end() -> Iterator[None]:
    """Say in a sentence that the JVM is gone: what PySpark raises then depends on the moment and names sockets."""
    try:
        yield
    except Py4JJavaError:
        raise
    except (Py4JError, ConnectionError, EOFError) as error:
        gateway = SparkContext._gateway  # noqa: SLF001 - the only place that tells
        if gateway is None or not _ends_within(gateway.proc, _MOMENT):
            raise
        raise PipelineError(
            f"Spark's Java ended during the work ({_cause(gateway.proc.returncode)}). Nothing half done counts: run it "
            "again. If it happens again, the machine may lack memory: see the setting pipeline.driver_memory."
        ) from error


def _cause(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


def _ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _is_local(master: str) -> bool:
    return master.startswith("local")


def _local_cores(master: str) -> int:
    """The N of `local[N]` and `local[N,failures]`; this process's own cores for `local[*]`, one for `local`."""
    count = master.removeprefix("local").strip("[]").partition(",")[0].strip()
    if count == "*":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(count) if count.isdecimal() else 1


def _quoted(option: str) -> str:
    """As Spark splits a line of options: a folder's name may hold a space."""
    return '"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"'


@contextmanager
def _spark_environment(java: Java, master: str) -> Iterator[None]:
    """Lend Spark its variables while it starts.

    PySpark hands its JVM the environment of this process and takes no other, so this is the one place that writes to
    it; afterwards it is as before.
    """
    before = snapshot()
    lent = {
        "JAVA_HOME": str(java.home),
        # A Spark that is installed elsewhere on the machine has other jars than this PySpark expects.
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        # Otherwise the workers take whatever `python3` is, where neither this package nor pyarrow may be installed.
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    if _is_local(master):
        lent["SPARK_LOCAL_IP"] = _LOOPBACK
    for name in _STRAY:
        os.environ.pop(name, None)
    os.environ.update(lent)
    try:
        yield
    finally:
        for name in (*lent, *_STRAY):
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)


def _end() -> None:
    """Stop what runs, end the JVM for sure, and forget both, so that this process can open another session."""
    gateway, session = SparkContext._gateway, SparkSession._instantiatedSession  # noqa: SLF001
    if gateway is None:
        return
    process: subprocess.Popen[bytes] = gateway.proc
    finalizers = _stop_finalizers(gateway)
    try:
        if session is not None:
            _stop(session)
    finally:
        for thread in finalizers:
            thread.join(_PATIENCE)
        _end_process(process)
        gateway.shutdown()
        _forget()


def _stop_finalizers(gateway: ClientServer) -> list[FinalizerWorker]:
    """Ask py4j's thread that releases objects of the JVM to end, and return it.

    A JVM that ends in the middle of such a request makes py4j print a traceback.
    """
    tasks = gateway._gateway_client.finalizer_deque  # noqa: SLF001
    tasks.clear()
    tasks.append(SHUTDOWN_FINALIZER_WORKER)
    return [thread for thread in threading.enumerate() if isinstance(thread, FinalizerWorker) and thread.deque is tasks]


def _stop(session: SparkSession) -> None:
    with warnings.catch_warnings():
        # The JVM may have died under it; whoever was at work has been told by an error of its own.
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            session.stop()
        except (Py4JError, ConnectionError):
            # It gave up at the dead JVM; the second time it closes what is left on this side.
            session.sparkContext.stop()


def _end_process(process: subprocess.Popen[bytes]) -> None:
    """The JVM ends by itself once its input does; one that hangs is killed."""
    if process.stdin is not None:
        process.stdin.close()
    if not _ends_within(process, _PATIENCE):
        process.kill()
        process.wait()


def _forget() -> None:
    """PySpark never forgets a gateway, and would talk to the dead one next time."""
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001
    SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001
