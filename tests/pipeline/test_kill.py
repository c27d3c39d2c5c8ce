"""kill -9 of a real pipeline at one step after another on one lake: nothing lost, doubled or left behind."""

import os
import shutil
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Final

import psutil
import pytest
from pyspark.sql import SparkSession

from tests.pipeline.support import assert_same, assert_swept, contents, disagreeing, orphans, python_path, run
from tests.pipeline.worlds import traffic
from tinyagi.pipeline.delta.optimize import vacuum
from tinyagi.pipeline.ingest.bronze import BRONZE
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.manifest import LakeManifest
from tinyagi.pipeline.tables.catalog import TABLES

BATCH: Final = 130
"""Half of the new events, so that one batch is committed and the second is not."""
FEW: Final = (
    ("written", BRONZE),
    ("committed", BRONZE),
    ("written", "silver.messages"),
    ("finishing", ""),
)
MANY: Final = (
    ("planned", BRONZE),
    ("written", BRONZE),
    ("committed", BRONZE),
    ("written", "silver.messages"),
    ("committed", "silver.runs"),
    ("written", "silver.handoffs"),
    ("began", "gold"),
    ("written", "gold.conversations"),
    ("committed", "gold.agent_hourly"),
    ("finishing", ""),
)
# Optimizing does not pay off for a JVM that lives for a few seconds.
SHORT_LIVED: Final = (
    "-XX:TieredStopAtLevel=1 -Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [FEW, pytest.param(MANY, marks=pytest.mark.soak)], ids=len)
def test_a_pipeline_killed_repeatedly_ends_with_the_same_tables(
    spark: SparkSession, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, kills: tuple[tuple[str, str], ...]
) -> None:
    history = traffic(spark, tmp_path_factory)
    lake = Lake(tmp_path / "lake")
    shutil.copytree(history.early_lake.folder, lake.folder)
    early = _manifest(lake)
    left: list[str] = []

    for point, of in kills:
        _run_until_killed(lake, history.database, point, of)
        left += [f"{point} {of}"] if any(orphans(lake, name) for name in TABLES) else []
        assert _manifest(lake) == early, f"readers saw a run that was killed: {point} {of}"
    summary = run(spark, lake, history.database, batch_events=BATCH)

    assert {"written bronze.events", "written silver.messages"} <= set(left), "killed too late"
    assert summary.events == 0, "the last process had taken in every event"
    assert _manifest(lake).through_id == history.head
    assert_same(contents(lake), contents(history.lake))
    assert disagreeing(spark, lake, history.database) == []
    vacuum(lake, keep=timedelta(0))
    assert_swept(lake)


def _run_until_killed(lake: Lake, database: Path, point: str, of: str) -> None:
    command = (sys.executable, "-m", "tests.pipeline.killed", lake.folder, database, str(BATCH), point, of)
    environment = {**os.environ, "PYTHONPATH": python_path(), "JDK_JAVA_OPTIONS": SHORT_LIVED}
    ended = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=600)
    assert ended.returncode == -signal.SIGKILL, f"{point} {of}: {ended.stderr.decode()}"
    _, alive = psutil.wait_procs(_processes_of(lake), timeout=60)
    assert alive == [], f"{point} {of}: its JVM lives on"


def _processes_of(lake: Lake) -> list[psutil.Process]:
    """Spark's temporary folder is below the lake, so its command line contains the lake's path."""
    return [process for process in psutil.process_iter() if str(lake.folder) in _command_of(process)]


def _command_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _manifest(lake: Lake) -> LakeManifest:
    manifest = lake.manifest()
    assert manifest is not None
    return manifest
