"""Starts and ends Spark: checks the master, finds Java, applies settings, and makes sure that the JVM ends."""

import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

import psutil
import pyspark
from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER, ClientServer, FinalizerWorker
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from tinyagi.pipeline.errors import PipelineError
from tinyagi.pipeline.lake import SPARK, Lake
from tinyagi.pipeline.spark.java import Java, find_java
from tinyagi.settings.environment import snapshot

CONNECT_TIMEOUT: Final = timedelta(seconds=3)
"""For connecting to a cluster's master."""
ANSWER_TIMEOUT: Final = timedelta(seconds=10)
"""For the master's first answer: a busy one takes a second."""

_LOCAL: Final = re.compile(r"local(\[ *(\*|[1-9][0-9]*) *(, *[1-9][0-9]* *)?\])?")
_CLUSTER: Final = re.compile(r"spark://(?P<hosts>[^\s/:,]+:[0-9]+(,[^\s/:,]+:[0-9]+)*)")
_HIGHEST_PORT: Final = 65_535

# A frame of Spark's RPC is its length in 8 bytes, its type in one byte, and a body. A master refuses an unknown stream,
# even when it requires a secret, so the refusal identifies it.
_HEAD: Final = struct.Struct(">qb")
_STREAM_REQUEST, _STREAM_FAILURE = 6, 8
_STREAM: Final = b"/files/tinyagi"
_BODY: Final = struct.pack(">i", len(_STREAM)) + _STREAM
_REQUEST: Final = _HEAD.pack(_HEAD.size + len(_BODY), _STREAM_REQUEST) + _BODY

APP_NAME: Final = "tinyagi"
LEAST_PARTITIONS: Final = 2

# Batch work tolerates pauses: on two cores the parallel collector saves a quarter of the time.
_COLLECTOR: Final = "-XX:+UseParallelGC"
_STOP_SECONDS: Final = 30.0
# A killed process closes its sockets a little before its exit code is available.
_EXIT_SECONDS: Final = 5.0
_LOOPBACK: Final = "127.0.0.1"
# Each of these would select another Spark, another kind of session or other folders.
_CONFLICTING_VARIABLES: Final = (
    "MASTER",
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_PIN_THREAD",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_API_MODE",
    "SPARK_CONNECT_MODE_ENABLED",
    "SPARK_LOCAL_DIRS",
    "SPARK_REMOTE",
)


# One compiler alone gets 48 MiB for its code. A session that stays fills them, and then its JVM only interprets.
_QUICK_COMPILER: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
QUICK_COMPILER: Final = {f"spark.{side}.extraJavaOptions": _QUICK_COMPILER for side in ("driver", "executor")}
"""Settings of a short run: the JVM compiles quickly instead of optimizing."""


@dataclass(frozen=True, slots=True)
class SparkSetup:
    """Which Spark to start, and with what."""

    environment: Mapping[str, str]
    master: str = "local[*]"
    memory: str = "2g"
    is_brief: bool = False
    """True for a short run, which `QUICK_COMPILER` serves."""

    @property
    def is_local(self) -> bool:
        return is_local(self.master)


@contextmanager
def open_spark(lake: Lake, setup: SparkSetup) -> Iterator[SparkSession]:
    check_master(setup.master)
    folder = lake.folder / SPARK
    _remove_stale_scratch(folder)
    java = find_java(setup.environment, folder / "java")
    scratch = folder / str(os.getpid())
    try:
        extra = QUICK_COMPILER if setup.is_brief else {}
        with open_session(java=java, scratch=scratch, master=setup.master, memory=setup.memory, extra=extra) as spark:
            yield spark
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def open_session(
    *,
    java: Java,
    scratch: Path,
    master: str = "local[*]",
    memory: str = "2g",
    extra: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Open a session for the block; its JVM ends with the block, and with this process however that ends.

    Spark's temporary files go into a folder below `scratch` that is removed with the session. `extra` overrides the
    default settings. A process has one session at a time, because Spark keeps it in class attributes.
    """
    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - the only place that tells
        raise PipelineError("This process already has a Spark session. Use that one, or close it first.")
    scratch.mkdir(parents=True, exist_ok=True)
    with (
        # Spark removes its own folders, but not those of a killed JVM.
        tempfile.TemporaryDirectory(prefix="session-", dir=scratch, ignore_cleanup_errors=True) as folder,
        as_file(files("tinyagi.pipeline.spark") / "log4j2.properties") as logging,
    ):
        settings = {**_settings(master, Path(folder), memory, logging), **(extra or {})}
        try:
            with _report_jvm_exit():
                with _spark_environment(java, master):
                    session = _started(master, settings)
                yield session
        finally:
            _end()


def _settings(master: str, folder: Path, memory: str, logging: Path) -> dict[str, str]:
    local, warehouse, temporary = (folder.absolute() / name for name in ("local", "warehouse", "tmp"))
    # Java does not create its folder for temporary files.
    temporary.mkdir()
    options = (
        f"-Dlog4j2.configurationFile={logging.absolute().as_uri()}",
        # Java unpacks native libraries there.
        f"-Djava.io.tmpdir={temporary}",
        # Otherwise the JVM writes a file into the system's temporary folder.
        "-XX:-UsePerfData",
        _COLLECTOR,
    )
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": memory,
        "spark.driver.defaultJavaOptions": " ".join(map(_quoted, options)),
        "spark.executor.defaultJavaOptions": _COLLECTOR,
        # Hadoop sets file modes itself and ignores the process's umask.
        "spark.hadoop.fs.permissions.umask-mode": "077",
        "spark.local.dir": str(local),
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.catalogImplementation": "in-memory",
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
    }
    if is_local(master):
        settings |= {
            "spark.driver.bindAddress": _LOOPBACK,
            "spark.driver.host": _LOOPBACK,
            "spark.sql.shuffle.partitions": str(max(LEAST_PARTITIONS, _local_cores(master))),
        }
    return settings


def _started(master: str, settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.master(master).appName(APP_NAME)
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Py4JJavaError as error:
        # The lines after the first are Java's stack.
        reason = str(error.java_exception).partition("\n")[0].rstrip(". ")
        remedy = "" if is_local(master) else " Check that a Spark master of this version listens there."
        raise PipelineError(f"Spark did not start with the master {master}: {reason}.{remedy}") from error
    except PySparkRuntimeError as error:
        raise PipelineError(
            f"Spark's Java ended at its start; its output is above. Check the master {master} and the memory."
        ) from error


@contextmanager
def _report_jvm_exit() -> Iterator[None]:
    """Raise one clear PipelineError when the JVM is gone: PySpark's own errors vary and speak of sockets."""
    try:
        yield
    except Py4JJavaError:
        raise
    except (Py4JError, ConnectionError, EOFError) as error:
        gateway = SparkContext._gateway  # noqa: SLF001 - the only place that tells
        if gateway is None or not _ends_within(gateway.proc, _EXIT_SECONDS):
            raise
        raise PipelineError(
            f"Spark's Java ended during the work ({_cause(gateway.proc.returncode)}). The lake is intact: run the "
            "command again. If it happens again, the machine may lack memory: see the setting pipeline.driver_memory."
        ) from error


def _cause(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


def _ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _local_cores(master: str) -> int:
    """The N of `local[N]` and `local[N,failures]`; this process's cores for `local[*]`, one for `local`."""
    count = master.removeprefix("local").strip("[]").partition(",")[0].strip()
    if count == "*":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(count) if count.isdecimal() else 1


def _quoted(option: str) -> str:
    """Quote an option for Spark's parser: a folder's name may contain a space."""
    return '"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"'


@contextmanager
def _spark_environment(java: Java, master: str) -> Iterator[None]:
    """Set Spark's environment variables while it starts, then restore the old ones.

    PySpark passes the environment of this process to its JVM and accepts no other, so only this function writes to it.
    """
    before = snapshot()
    variables = {
        "JAVA_HOME": str(java.home),
        # Another Spark installation on the machine has other jars than this PySpark expects.
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        # Otherwise workers run the first `python3`, which may have neither this package nor pyarrow.
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    if is_local(master):
        variables["SPARK_LOCAL_IP"] = _LOOPBACK
    for name in _CONFLICTING_VARIABLES:
        os.environ.pop(name, None)
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in (*variables, *_CONFLICTING_VARIABLES):
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)


def _end() -> None:
    """Stop the session, end the JVM for certain, and clear PySpark's state, so that another session can start."""
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
            thread.join(_STOP_SECONDS)
        _end_process(process)
        gateway.shutdown()
        _clear_class_attributes()


def _stop_finalizers(gateway: ClientServer) -> list[FinalizerWorker]:
    """Ask py4j's threads that release JVM objects to end, and return them.

    py4j prints a traceback when the JVM ends in the middle of such a request.
    """
    tasks = gateway._gateway_client.finalizer_deque  # noqa: SLF001
    tasks.clear()
    tasks.append(SHUTDOWN_FINALIZER_WORKER)
    return [thread for thread in threading.enumerate() if isinstance(thread, FinalizerWorker) and thread.deque is tasks]


def _stop(session: SparkSession) -> None:
    with warnings.catch_warnings():
        # The JVM may be dead; the caller already got an error about it.
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            session.stop()
        except (Py4JError, ConnectionError):
            # The first stop gave up at the dead JVM; the second closes the Python side.
            session.sparkContext.stop()


def _end_process(process: subprocess.Popen[bytes]) -> None:
    """Close the JVM's stdin, which makes it exit; kill it when it hangs."""
    if process.stdin is not None:
        process.stdin.close()
    if not _ends_within(process, _STOP_SECONDS):
        process.kill()
        process.wait()


def _clear_class_attributes() -> None:
    """Clear PySpark's class attributes: otherwise the next session would use the dead gateway."""
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001
    SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001


def _remove_stale_scratch(folder: Path) -> None:
    """Remove scratch folders of ended processes; those of running readers stay."""
    for scratch in folder.glob("[0-9]*"):
        if not psutil.pid_exists(int(scratch.name)):
            shutil.rmtree(scratch, ignore_errors=True)


def is_local(master: str) -> bool:
    return _LOCAL.fullmatch(master) is not None


def check_master(master: str) -> None:
    """Raise PipelineError unless Spark can run there. Spark itself retries for a minute and prints a Java stack."""
    if is_local(master):
        return
    cluster = _CLUSTER.fullmatch(master)
    addresses = [] if cluster is None else [_address(text) for text in cluster["hosts"].split(",")]
    if not addresses or any(port > _HIGHEST_PORT for _, port in addresses):
        raise PipelineError(
            f"`pipeline.master` is {master}, which is not supported. "
            "Set it to local[*], local[N] or spark://host:port in settings.json."
        )
    reasons = []
    for host, port in addresses:
        try:
            with socket.create_connection((host, port), CONNECT_TIMEOUT.total_seconds()) as connection:
                if _may_be_spark(connection):
                    return
                reasons.append(f"{host}:{port} does not answer like a Spark master")
        except OSError as error:
            reasons.append(f"{host}:{port} cannot be reached: {error.strerror or error}")
    raise PipelineError(
        f"`pipeline.master` is {master}, and {'; '.join(reasons)}. "
        "Start that Spark master, or use this machine: set it to local[*] in settings.json."
    )


def _may_be_spark(connection: socket.socket) -> bool:
    connection.settimeout(ANSWER_TIMEOUT.total_seconds())
    answer = b""
    try:
        connection.sendall(_REQUEST)
        while len(answer) < _HEAD.size:
            # Read the whole answer: otherwise the master logs a broken connection.
            more = connection.recv(4096)
            if not more:
                break
            answer += more
    except TimeoutError:
        return False
    except ConnectionError:
        answer = b""
    # A master with TLS closes the connection without an answer.
    return not answer or (len(answer) >= _HEAD.size and _HEAD.unpack_from(answer)[1] == _STREAM_FAILURE)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.partition(":")
    return host, int(port)
