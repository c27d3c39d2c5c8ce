"""The pipeline on a Spark cluster: a real master and a real worker, which read the events from a real daemon."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread
from typing import Final

import pyspark
import pytest

from tests.support.histories import write_history
from tinyagi.pipeline.spark.java import find_java
from tinyagi.settings.environment import snapshot
from tinyagi.settings.home import Home

pytestmark = pytest.mark.timeout(600)

LOOPBACK: Final = "127.0.0.1"
SPARK: Final = Path(pyspark.__file__).parent
ANYWHERE: Final = ("--host", LOOPBACK, "--port", "0", "--webui-port", "0")
GRACE: Final = 30


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Keeps all of Spark on loopback, and finds a Java on machines without one."""
    java = find_java(snapshot(), tmp_path / "java")
    return {**snapshot(), "JAVA_HOME": str(java.home), "SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": LOOPBACK}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.prepare()
    write_history(home.database, events=600, days=2)
    return home


@contextmanager
def spark_process(name: str, *options: str, says: str, environment: dict[str, str]) -> Iterator[str]:
    """A process of the cluster; yields the line that contains `says`. Its children end with it."""
    command = [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *ANYWHERE, *options]
    process = subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True
    )
    assert process.stderr is not None
    heard: list[str] = []
    # Later output has to be read, or a full pipe would block the process.
    drain = Thread(target=deque, args=(process.stderr, 0))
    try:
        for line in process.stderr:
            heard.append(line)
            if says in line:
                break
        else:
            pytest.fail(f"{name} ended: {''.join(heard)}")
        drain.start()
        yield heard[-1]
    finally:
        _end(process)
        if drain.ident is not None:
            drain.join()
        process.stderr.close()


def _end(process: subprocess.Popen[str]) -> None:
    """End the process and its group."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def cluster(tmp_path: Path, environment: dict[str, str]) -> Iterator[tuple[str, Path]]:
    """The address of a master with one worker, and the worker's folder."""
    folder = tmp_path / "work"
    with spark_process("master.Master", says="Starting Spark master at spark://", environment=environment) as line:
        address = line.split()[-1]
        sizes = ("--cores", "2", "--memory", "1g", "--work-dir", str(folder), address)
        with spark_process("worker.Worker", *sizes, says="registered with master", environment=environment):
            yield address, folder


def tinyagi(home: Home, environment: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "tinyagi", *command]
    here = {**environment, "TINYAGI_HOME": str(home.path)}
    return subprocess.run(words, check=False, env=here, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def test_a_cluster_reads_the_daemon_and_writes_the_lake(
    home: Home, environment: dict[str, str], cluster: tuple[str, Path]
) -> None:
    address, folder = cluster
    settings = {"server": {"port": 0}, "pipeline": {"master": address, "enabled": False, "class_archive": False}}
    home.settings_file.write_text(json.dumps(settings), encoding="utf-8")

    alone = tinyagi(home, environment, "pipeline", "run")
    started = tinyagi(home, environment, "start")
    try:
        ran = tinyagi(home, environment, "pipeline", "run", "--json")
    finally:
        stopped = tinyagi(home, environment, "stop")

    assert alone.returncode == 1
    assert "no daemon runs on this home. Start it: `tinyagi start`." in alone.stderr
    assert (started.returncode, stopped.returncode) == (0, 0), started.stderr + stopped.stderr
    assert ran.returncode == 0, ran.stderr
    assert list(folder.glob("app-*/0")), "the worker started no executor"
    tables = json.loads(tinyagi(home, environment, "pipeline", "tables", "--json").stdout)
    rows = {table["name"]: table["rows"] for table in tables}
    assert (rows["bronze.events"], rows["silver.messages"]) == _recorded(home, json.loads(ran.stdout)["through_id"])
    assert min(rows["silver.runs"], rows["gold.agent_hourly"], rows["gold.memory_chunks"]) > 0


def _recorded(home: Home, through: int) -> tuple[int, int]:
    """The number of events up to this id, and of messages among them."""
    query = "SELECT count(*), count(*) FILTER (WHERE type = 'message_received') FROM events WHERE id <= ?"
    with closing(sqlite3.connect(home.database)) as database:
        events, messages = database.execute(query, (through,)).fetchone()
    return events, messages
