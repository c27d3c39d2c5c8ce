"""Starts and ends Spark: checks the master, finds Java, and makes sure that the JVM ends."""

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
from collections.abc import Iterator, Mapping, Sequence
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
from tinyagi.pipeline.spark.class_archive import ARCHIVE_SIZE, ClassArchives
from tinyagi.pipeline.spark.gateway import keep_objects, remember_functions
from tinyagi.pipeline.spark.java import Java, find_java
from tinyagi.pipeline.spark.session_settings import Size, event_log_settings, is_local, session_settings
from tinyagi.settings.environment import snapshot
from tinyagi.settings.home import make_private

CONNECT_TIMEOUT: Final = timedelta(seconds=3)
"""For connecting to a cluster's master."""
ANSWER_TIMEOUT: Final = timedelta(seconds=10)
"""For the master's first answer: a busy one takes a second."""

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
STOP_SECONDS: Final = 30.0
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


@dataclass(frozen=True, slots=True)
class SparkSetup:
    """Which Spark to start, and with what."""

    environment: Mapping[str, str]
    master: str = "local[*]"
    memory: str = "2g"
    size: Size = Size.MANY
    archives: ClassArchives | None = None
    """Where a small session finds its classes ready to use."""
    event_log: Path | None = None
    """The folder for Spark's event log, which is off without it."""

    @property
    def is_local(self) -> bool:
        return is_local(self.master)

    @property
    def ends_at_once(self) -> bool:
        """True when nothing is lost by killing the JVM: Spark's own stop costs a small run a tenth of its time."""
        return self.size is Size.FEW and self.is_local and self.event_log is None


@contextmanager
def open_spark(lake: Lake, setup: SparkSetup) -> Iterator[SparkSession]:
    check_master(setup.master)
    folder = lake.folder / SPARK
    _remove_stale_scratch(folder)
    java = find_java(setup.environment, folder / "java")
    archived: Sequence[str] = ()
    if setup.archives is not None and setup.size is ARCHIVE_SIZE:
        archived = setup.archives.options(java, setup.memory)
    scratch = folder / str(os.getpid())
    try:
        with open_session(
            java=java,
            scratch=scratch,
            master=setup.master,
            memory=setup.memory,
            size=setup.size,
            options=archived,
            extra={} if setup.event_log is None else event_log_settings(_event_log_folder(setup.event_log)),
            stop_seconds=0 if setup.ends_at_once else STOP_SECONDS,
        ) as spark:
            yield spark
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _event_log_folder(folder: Path) -> Path:
    try:
        make_private(folder)
    except OSError as error:
        raise PipelineError(
            f"Spark's event log cannot be written to {folder}: {error.strerror or error}. "
            "Set `pipeline.event_log` to a folder that you can write, or remove the setting."
        ) from error
    return folder


@contextmanager
def open_session(
    *,
    java: Java,
    scratch: Path,
    master: str = "local[*]",
    memory: str = "2g",
    size: Size = Size.MANY,
    options: Sequence[str] = (),
    extra: Mapping[str, str] | None = None,
    stop_seconds: float = STOP_SECONDS,
) -> Iterator[SparkSession]:
    """Open a session for the block; its JVM ends with the block, and with this process however that ends.

    Spark's temporary files go into a folder below `scratch` that is removed with the session. `options` go to the
    driver's JVM, `extra` overrides the default settings. A JVM that takes longer than `stop_seconds` to end is killed,
    with 0 at once.
    A process has one session at a time, because Spark keeps it in class attributes.
    """
    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - the only place that tells
        raise PipelineError("This process already has a Spark session. Use that one, or close it first.")
    scratch.mkdir(parents=True, exist_ok=True)
    with (
        # Spark removes its own folders, but not those of a killed JVM.
        tempfile.TemporaryDirectory(prefix="session-", dir=scratch, ignore_cleanup_errors=True) as folder,
        as_file(files("tinyagi.pipeline.spark") / "log4j2.properties") as logging,
    ):
        settings = session_settings(
            master=master, folder=Path(folder), memory=memory, logging=logging, size=size, options=options
        )
        try:
            with _report_jvm_exit():
                with _spark_environment(java, master):
                    session = _started(master, {**settings, **(extra or {})})
                remember_functions(session)
                if size is Size.FEW:
                    keep_objects(session)
                yield session
        finally:
            _end(stop_seconds)


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


def _end(seconds: float) -> None:
    """Stop the session, end the JVM for certain, and clear PySpark's state, so that another session can start."""
    gateway, session = SparkContext._gateway, SparkSession._instantiatedSession  # noqa: SLF001
    if gateway is None:
        return
    process: subprocess.Popen[bytes] = gateway.proc
    finalizers = _stop_finalizers(gateway)
    try:
        if not seconds:
            process.kill()
        if session is not None:
            _stop(session, is_alive=bool(seconds))
    finally:
        for thread in finalizers:
            thread.join(STOP_SECONDS)
        _end_process(process, seconds)
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


def _stop(session: SparkSession, *, is_alive: bool) -> None:
    if not is_alive:
        # Then Spark closes the Python side only.
        session.sparkContext._jsc = None  # noqa: SLF001
        session.sparkContext.stop()
        return
    with warnings.catch_warnings():
        # The JVM may be dead; the caller already got an error about it.
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            session.stop()
        except (Py4JError, ConnectionError):
            # The first stop gave up at the dead JVM; the second closes the Python side.
            session.sparkContext.stop()


def _end_process(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Close the JVM's stdin, which makes it exit; kill it when it hangs."""
    if process.stdin is not None:
        process.stdin.close()
    if not _ends_within(process, seconds):
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
