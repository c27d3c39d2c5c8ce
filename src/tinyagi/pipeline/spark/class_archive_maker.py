"""Makes a class archive: `python -m tinyagi.pipeline.spark.class_archive_maker FOLDER MEMORY`, in the background.

The archive holds the classes that its queries load, so these are the transformations of a small run.
"""

import datetime as dt
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
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tinyagi.domain.instants import DAY_MS, day_start
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
from tinyagi.pipeline.tables import silver
from tinyagi.pipeline.tables.catalog import EVENTS, TABLES
from tinyagi.pipeline.tables.gold import AGENT_HOURLY
from tinyagi.pipeline.tables.model import DATE, LAST_EVENT_ID, Table
from tinyagi.pipeline.tables.schema import arrow_schema
from tinyagi.pipeline.transform.alerts import alerts
from tinyagi.pipeline.transform.gold import (
    agent_hourly,
    channel_daily,
    channel_messages,
    conversations,
    dated_handoffs,
    dated_responses,
    dead_by_day,
    dead_letters,
    ended_runs,
    handoff_edges,
    texts_to_cut,
)
from tinyagi.pipeline.transform.parsed_events import parsed_events
from tinyagi.pipeline.transform.quarantine import quarantined
from tinyagi.pipeline.transform.rows import collect
from tinyagi.pipeline.transform.silver import (
    chat_lines,
    handoffs,
    history_lines,
    message_updates,
    response_updates,
    run_updates,
    with_delivery_time,
    with_message_durations,
    with_run_outcome,
)
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
_DAY: Final = dt.date(2026, 1, 5)
_PAYLOAD: Final = '{"history_id": 1, "message": "{\\"id\\": 1, \\"status\\": \\"pending\\"}"}'

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
            run_queries(spark)
        code = None if process is None else process.returncode
        if code != 0 or not draft.is_file():
            raise PipelineError(f"Java ended with exit code {code} and wrote no archive.")
        draft.replace(file)
    remove_old(folder)
    log.debug("Made the class archive %s", file)
    return True


def run_queries(spark: SparkSession) -> None:
    """The queries of a small run, over two rows of each table: its own transformations need exactly its classes."""
    rows = {name: spark.createDataFrame(_two_rows(table)) for name, table in TABLES.items()}
    messages, runs = rows[silver.MESSAGES.name], rows[silver.RUNS.name]
    responses, handed = rows[silver.RESPONSES.name], rows[silver.HANDOFFS.name]
    parsed = parsed_events(rows[EVENTS.name]).persist()
    valid = parsed.where(F.col("invalid_reason").isNull()).drop("invalid_reason")
    updates = (message_updates, run_updates, response_updates, history_lines, chat_lines)
    collect({update.__name__: update(valid) for update in updates})
    collect(
        {
            "messages": with_message_durations(messages),
            "runs": with_run_outcome(runs),
            "responses": with_delivery_time(responses),
        }
    )
    collect({"handoffs": handoffs(messages), "quarantine": quarantined(parsed, runs)})
    collect({"dates": ended_runs(runs).select(DATE).unionAll(dated_handoffs(handed).select(DATE)).distinct()})
    collect(
        {
            "hours": agent_hourly(ended_runs(runs)),
            "conversations": conversations(messages, runs),
            "edges": handoff_edges(dated_handoffs(handed)),
            "channels": channel_daily(channel_messages(messages), dated_responses(responses)),
            "dead": dead_letters(dead_by_day(messages)),
            "texts": texts_to_cut(rows[silver.AGENT_MESSAGES.name]),
        }
    )
    hourly = rows[AGENT_HOURLY.name]
    collect({"alerts": alerts(hourly, messages, dates=[_DAY], until=day_start(_DAY) + DAY_MS)})
    parsed.unpersist()


def _two_rows(table: Table) -> pa.Table:
    """Null in every column but those that a query may not leave out as empty."""
    schema = arrow_schema(table)
    rows = pa.table([pa.nulls(2, field.type) for field in schema], schema=schema).to_pylist()
    for number, row in enumerate(rows, start=1):
        row[DATE] = _DAY
        row |= {name: number for name in ("id", LAST_EVENT_ID.name) if name in schema.names}
        if table is EVENTS:
            row |= {"type": "message_received", "version": 1, "payload": _PAYLOAD, "created_at": day_start(_DAY)}
    return pa.Table.from_pylist(rows, schema)


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
