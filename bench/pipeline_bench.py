"""The pipeline compared with a plain copy of the same rows; the last line of stdout is one JSON object.

Events of 90 days become bronze, silver and gold on local Spark. Beside it one process copies the same rows from SQLite
to Parquet with pyarrow. Then the cost of 10,000 further events on an empty and on a full lake, the time to read
gold without Spark, and the size of the lake. First of all, a small run from a cold start beside a bare start of
PySpark (see pipeline_small.py).
"""

import argparse
import asyncio
import datetime as dt
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from rich.console import Console
from rich.table import Table

from pipeline_against import side_by_side
from pipeline_history import append_history, write_history
from pipeline_small import QUICK_ROUNDS, ROUNDS, small_run
from tinyagi.pipeline.delta.commit import repair_logs
from tinyagi.pipeline.ingest.log_source import LogSource
from tinyagi.pipeline.ingest.spark_source import SCHEMA
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.progress import Progress, Summary
from tinyagi.pipeline.run import Pipeline
from tinyagi.pipeline.serve.archive import LakeArchive
from tinyagi.pipeline.spark.java import find_java
from tinyagi.pipeline.spark.lake_session import LakeSession
from tinyagi.pipeline.spark.session import open_session
from tinyagi.settings.environment import snapshot
from tinyagi.store.event_reader import EventLogReader

EXAMPLE: Final = """\
example:
  python bench/pipeline_bench.py --quick
  python bench/pipeline_bench.py --json-only | jq .events_per_s_1m
  python bench/pipeline_bench.py --small-only        # small runs beside bare starts of PySpark, nothing else
  python bench/pipeline_bench.py --against ../before # another checkout, round by round
"""
OUT: Final = Path(__file__).parent / "out"
END_AT: Final = 1_794_816_000_000
"""2026-11-16: the same history whenever it is written."""
NEW_EVENTS: Final = 10_000
READS: Final = 50


@dataclass(frozen=True, slots=True)
class Plan:
    sizes: tuple[int, ...]
    rounds: int


FULL: Final = Plan(sizes=(100_000, 1_000_000), rounds=3)
QUICK: Final = Plan(sizes=(100_000,), rounds=1)


class More(NamedTuple):
    """Seconds that further events took."""

    on_nothing: float
    on_all: float


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements of one size of history."""

    events: int
    copy_seconds: float
    summary: Summary
    megabytes: float
    files: int
    gold_read_ms: float
    gold_read_all_ms: float

    @property
    def ingest_seconds(self) -> float:
        return self.summary.seconds["ingest"]

    @property
    def chain_seconds(self) -> float:
        return sum(self.summary.seconds[stage] for stage in ("ingest", "silver", "gold", "tidy"))

    @property
    def bronze_vs_copy(self) -> float:
        return self.copy_seconds / self.ingest_seconds


def copy(database: Path, target: Path) -> float:
    """The floor: the same rows, one process, SQLite to Parquet by way of Arrow; returns the seconds it took."""
    schema = to_arrow_schema(SCHEMA)
    began = time.perf_counter()
    with EventLogReader(database) as log, pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for page in log.pages(0, log.head()):
            columns = zip(*page, strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return time.perf_counter() - began


def run(spark: SparkSession, database: Path, folder: Path) -> Summary:
    """As `tinyagi pipeline run` does, in a warm session."""
    lake = Lake(folder)
    lake.folder.mkdir(parents=True, exist_ok=True)
    repair_logs(lake)
    return Pipeline(LakeSession(spark, lake, Progress()), LogSource({"db": str(database)})).run()


def took(summary: Summary) -> float:
    return sum(summary.seconds[stage] for stage in ("ingest", "silver", "gold", "tidy"))


def gold_reads(lake: Lake) -> tuple[float, float]:
    """Milliseconds for a table of gold, as the API reads it: the last seven days, and the whole 90 days at once."""
    archive = LakeArchive(lake.folder)
    last = dt.datetime.fromtimestamp(END_AT / 1000, dt.UTC).date()

    async def read(since: dt.date | None) -> float:
        spans = []
        for _ in range(READS):
            began = time.perf_counter()
            await archive.analytics("gold.agent_hourly", since=since, limit=10_000)
            spans.append(1000 * (time.perf_counter() - began))
        return median(spans)

    return asyncio.run(read(last - dt.timedelta(days=7))), asyncio.run(read(None))


def measure(console: Console, spark: SparkSession, database: Path, folder: Path, rounds: int) -> Measured:
    """Copy and pipeline in turn, each round on a new lake; returns the medians."""
    copies, summaries = [], []
    for number in range(rounds):
        copies.append(copy(database, folder / "copy.parquet"))
        shutil.rmtree(folder / "lake", ignore_errors=True)
        summaries.append(run(spark, database, folder / "lake"))
        console.print(f"round {number + 1}: copy {copies[-1]:.1f} s, pipeline {took(summaries[-1]):.1f} s", style="dim")
    lake = Lake(folder / "lake")
    sizes = [Path(uri).stat().st_size for name in lake_tables(lake) for uri in lake.delta(name).file_uris()]
    middle = sorted(summaries, key=took)[len(summaries) // 2]
    ingest = sorted(summary.seconds["ingest"] for summary in summaries)[len(summaries) // 2]
    middle.seconds["ingest"] = ingest
    return Measured(middle.events, median(copies), middle, sum(sizes) / 1e6, len(sizes), *gold_reads(lake))


def lake_tables(lake: Lake) -> tuple[str, ...]:
    manifest = lake.manifest()
    return () if manifest is None else tuple(manifest.tables)


def incremental(console: Console, spark: SparkSession, database: Path, folder: Path, rounds: int) -> More:
    """The cost of 10,000 further events on an empty and on the full lake, in turn."""
    empty = folder / "new.db"
    asyncio.run(write_history(empty, events=NEW_EVENTS, seed=7, end_at=END_AT, days=1))
    on_nothing, on_all = [], []
    for number in range(rounds):
        on_nothing.append(took(run(spark, empty, folder / f"new-{number}")))
        asyncio.run(append_history(database, events=NEW_EVENTS, seed=100 + number))
        on_all.append(took(run(spark, database, folder / "lake")))
        spans = f"{on_nothing[-1]:.1f} s on nothing, {on_all[-1]:.1f} s on what is there"
        console.print(f"{NEW_EVENTS:,} more: {spans}", style="dim")
    return More(median(on_nothing), median(on_all))


@contextmanager
def warm_session(folder: Path, memory: str) -> Iterator[SparkSession]:
    """A session that has done everything before, so that compiling is not measured."""
    java = find_java(snapshot(), folder / "java")
    with open_session(java=java, scratch=folder / "spark", memory=memory) as spark:
        database = folder / "warm.db"
        asyncio.run(write_history(database, events=20_000, seed=3, end_at=END_AT, days=7))
        for number in range(2):
            run(spark, database, folder / f"warm-{number}")
        yield spark


def size_name(events: int) -> str:
    return "1m" if events >= 900_000 else f"{round(events / 1000)}k"


def results(found: list[Measured], more: More) -> dict[str, Any]:
    last = found[-1]
    name = size_name(last.events)
    by_size = {
        f"events_per_s_{round(one.events / 1000)}k": round(one.events / one.chain_seconds)
        for one in found
        if one is not last
    }
    return {
        f"bronze_vs_pyarrow_{name}": round(last.bronze_vs_copy, 3),
        f"events_per_s_{name}": round(last.events / last.chain_seconds),
        **by_size,
        f"incremental_{name}_vs_0": round(more.on_all / more.on_nothing, 3),
        "incremental_seconds": round(more.on_all, 2),
        "gold_read_ms": round(last.gold_read_ms, 1),
        "gold_read_all_ms": round(last.gold_read_all_ms, 1),
        "lake_mb_per_million": round(1e6 * last.megabytes / last.events, 1),
        "files_per_million": round(1e6 * last.files / last.events),
        "seconds": {name: round(took, 2) for name, took in last.summary.seconds.items()},
    }


def show(console: Console, found: list[Measured]) -> None:
    table = Table(title="Where the time goes", title_justify="left")
    table.add_column("stage or table")
    for one in found:
        table.add_column(f"{one.events:,} events", justify="right")
    for stage in found[-1].summary.seconds:
        table.add_row(stage, *(f"{one.summary.seconds.get(stage, 0):.1f} s" for one in found))
    table.add_row("copy to Parquet", *(f"{one.copy_seconds:.1f} s" for one in found))
    console.print(table)


def all_figures(console: Console, folder: Path, sizes: Sequence[int], rounds: int, memory: str) -> dict[str, Any]:
    """In a warm session."""
    found = []
    with warm_session(folder, memory) as spark:
        for size in sizes:
            database = folder / f"{size}.db"
            console.print(f"writing {size:,} events of 90 days", style="dim")
            asyncio.run(write_history(database, events=size, seed=1, end_at=END_AT))
            found.append(measure(console, spark, database, folder, rounds))
        more = incremental(console, spark, folder / f"{sizes[-1]}.db", folder, max(rounds, 3))
    from pipeline_plot import draw_stages  # noqa: PLC0415 - the other measurements need no matplotlib

    show(console, found)
    OUT.mkdir(exist_ok=True)
    draw_stages([(one.events, one.summary.seconds, one.copy_seconds) for one in found], OUT / "pipeline_bench.png")
    return results(found, more)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100,000 events, one round: a few minutes")
    parser.add_argument("--events", type=int, help="only this many events")
    parser.add_argument("--rounds", type=int, help="how often each is measured; medians count")
    parser.add_argument("--memory", default="3g", help="of the JVM (default: 3g)")
    parser.add_argument("--small-only", action="store_true", help="measure the small run, nothing else")
    parser.add_argument("--against", type=Path, metavar="PATH", help="compare with another checkout, nothing else")
    parser.add_argument("--json-only", action="store_true", help="print nothing but the last line")
    chosen = parser.parse_args()
    plan = QUICK if chosen.quick else FULL
    sizes = (chosen.events,) if chosen.events else plan.sizes
    rounds = chosen.rounds or plan.rounds
    console = Console(quiet=chosen.json_only, highlight=False)
    with tempfile.TemporaryDirectory(prefix="tinyagi-bench-") as name:
        folder = Path(name)
        if chosen.against is not None:
            size = (size_name(sizes[-1]), sizes[-1])
            figures = side_by_side(console, folder, chosen.against.resolve(), size, rounds, chosen.memory)
        else:
            figures = small_run(console, folder, chosen.rounds or (QUICK_ROUNDS if chosen.quick else ROUNDS))
            if not chosen.small_only:
                figures = all_figures(console, folder, sizes, rounds, chosen.memory) | figures
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
