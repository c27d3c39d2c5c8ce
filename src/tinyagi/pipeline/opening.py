"""Opens a lake for work with Spark: for the one writer, or for a reader that sees what the manifest names."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
from pyspark.sql import SparkSession

from tinyagi.pipeline.delta.sweep import sweep
from tinyagi.pipeline.errors import LakeBroken
from tinyagi.pipeline.java import find_java
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.lock import writer_lock
from tinyagi.pipeline.progress import Progress, Silent
from tinyagi.pipeline.session import open_session
from tinyagi.pipeline.workshop import Workshop

SPARK: Final = "_spark"
"""The folder below a lake that Spark works in."""


@dataclass(frozen=True, slots=True)
class SparkSetup:
    """Which Spark, and what it is given."""

    environment: Mapping[str, str]
    master: str = "local[*]"
    memory: str = "2g"
    is_brief: bool = False
    """True when there is little to do: the JVM then compiles quickly instead of well."""

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")


@contextmanager
def open_for_writing(lake: Lake, setup: SparkSetup, purpose: str, progress: Progress) -> Iterator[Workshop]:
    """Hold the writer lock, sweep what a killed writer left, then start Spark; raise LakeBusy before any of it."""
    with writer_lock(lake.folder, purpose):
        sweep(lake)
        with _session(lake, setup) as spark:
            yield Workshop(spark, lake, progress)


@contextmanager
def open_for_reading(lake: Lake, setup: SparkSetup) -> Iterator[Workshop]:
    """Every table as of the manifest; raise LakeBroken when there is none yet."""
    if lake.manifest() is None:
        raise LakeBroken(f"There is no lake at {lake.folder} yet. Run `tinyagi pipeline run`.")
    with _session(lake, setup) as spark:
        yield Workshop(spark, lake, Silent(), is_pinned=True)


@contextmanager
def _session(lake: Lake, setup: SparkSetup) -> Iterator[SparkSession]:
    folder = lake.folder / SPARK
    _clear(folder)
    java = find_java(setup.environment, folder / "java")
    scratch = folder / str(os.getpid())
    try:
        brief = {f"spark.{side}.extraJavaOptions": "-XX:TieredStopAtLevel=1" for side in ("driver", "executor")}
        extra = brief if setup.is_brief else {}
        with open_session(java=java, scratch=scratch, master=setup.master, memory=setup.memory, extra=extra) as spark:
            yield spark
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _clear(folder: Path) -> None:
    """Remove what Spark left in folders of processes that are gone; readers may be at work beside a writer."""
    for scratch in folder.glob("[0-9]*"):
        if not psutil.pid_exists(int(scratch.name)):
            shutil.rmtree(scratch, ignore_errors=True)
