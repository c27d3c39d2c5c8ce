"""Runs the pipeline on lakes of tests, and reads them: as rows, as files, as a log of events."""

import asyncio
import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import apsw
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tinyagi.domain.events import RecordedEvent
from tinyagi.pipeline.delta.commit import repair_logs
from tinyagi.pipeline.delta.snapshot import open_snapshot
from tinyagi.pipeline.ingest.log_source import LogSource
from tinyagi.pipeline.lake import Lake, writer_lock
from tinyagi.pipeline.manage.verify import TableCheck, verify
from tinyagi.pipeline.progress import Progress, Summary
from tinyagi.pipeline.run import Pipeline
from tinyagi.pipeline.spark.lake_session import LakeSession
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.pipeline.tables.model import DATE

BENCH: Final = Path(__file__).parents[2] / "bench"
MONDAY: Final = 1_772_409_600_000
"""2026-03-02: in the past of every clock."""
DAY_MS: Final = 86_400_000
COMPARED: Final = tuple(name for name in TABLES if not name.startswith("ops."))

_COLUMNS: Final = tuple(field.name for field in fields(RecordedEvent))

Row = dict[str, Any]


def history() -> ModuleType:
    """The bench's generator of real traffic."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCH))
        return importlib.import_module("pipeline_history")


def write_history(database: Path, events: int, *, seed: int = 7, days: int = 2) -> None:
    asyncio.run(history().write_history(database, events=events, seed=seed, end_at=MONDAY, days=days))


def append_history(database: Path, events: int, *, seed: int = 8, old_share: float = 0.2, hours: int = 12) -> None:
    asyncio.run(history().append_history(database, events=events, seed=seed, old_share=old_share, hours=hours))


def log_of(database: Path) -> LogSource:
    return LogSource({"db": str(database)})


def run(
    spark: SparkSession,
    lake: Lake,
    database: Path,
    progress: Progress | None = None,
    *,
    batch_events: int = 200_000,
    slice_events: int = 500_000,
) -> Summary:
    """As `tinyagi pipeline run` does, in the given session."""
    with writer_lock(lake.folder, "run"):
        repair_logs(lake)
        session = LakeSession(spark, lake, progress or Progress())
        with hurried(spark):
            return Pipeline(session, log_of(database), batch_events=batch_events, slice_events=slice_events).run()


def disagreeing(spark: SparkSession, lake: Lake, database: Path) -> list[TableCheck]:
    """The tables for which `tinyagi pipeline verify` finds a difference."""
    with hurried(spark):
        verdicts = list(verify(LakeSession(spark, lake, Progress(), is_pinned=True), log_of(database)))
    assert {verdict.table for verdict in verdicts} == set(COMPARED)
    return [verdict for verdict in verdicts if not verdict.agrees]


@contextmanager
def hurried(spark: SparkSession) -> Iterator[None]:
    """Spark writes and compiles Java for every query; for a few hundred rows that takes longer than the query."""
    settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, known in before.items():
            spark.conf.set(name, known or "")


def rows_of(lake: Lake, name: str) -> list[Row]:
    """Rows of a table in the order of its key, without the batch time, which differs between lakes."""
    table = TABLES[name]
    found = lake.rows(name).to_pylist()
    for row in found:
        row.pop("batch", None)
    return sorted(found, key=lambda row: tuple((row[column] is None, row[column]) for column in table.key))


def contents(lake: Lake) -> Mapping[str, list[Row]]:
    """Every table that is derived from the log."""
    return {name: rows_of(lake, name) for name in COMPARED}


def assert_same(found: Mapping[str, list[Row]], expected: Mapping[str, list[Row]]) -> None:
    """Table by table, so that a failure names one."""
    for name, rows in expected.items():
        assert len(found[name]) == len(rows), name
        assert [pair for pair in zip(found[name], rows, strict=True) if pair[0] != pair[1]][:2] == [], name


def assert_swept(lake: Lake) -> None:
    """The lake has no files except those of current or earlier table versions."""
    for name in TABLES:
        assert orphans(lake, name) == set(), f"{name} has files that it does not know"


def orphans(lake: Lake, name: str) -> set[str]:
    """Parquet files below a table that belong to no version of it."""
    folder = lake.path(name)
    lying = {path.relative_to(folder).as_posix() for path in folder.glob(f"{DATE}=*/*.parquet")}
    handle = open_snapshot(lake, name).handle
    known = {row["path"] for row in pa.table(handle.get_add_actions(flatten=True)).to_pylist()}
    return lying - known - tombstones(folder)


def tombstones(folder: Path) -> set[str]:
    removed: set[str] = set()
    for commit in (folder / "_delta_log").glob("*.json"):
        for line in commit.read_text().splitlines():
            if "remove" in (action := json.loads(line)):
                removed.add(action["remove"]["path"])
    return removed


def raw_events(database: Path) -> list[RecordedEvent]:
    """Events as stored in the table; an invalid payload is read as an empty object."""
    query = f"SELECT {', '.join(_COLUMNS)} FROM events ORDER BY id"  # noqa: S608
    with closing(apsw.Connection(str(database))) as connection:
        rows = [dict(zip(_COLUMNS, row, strict=True)) for row in connection.execute(query)]
    return [RecordedEvent(**{**row, "payload": _payload(row["payload"])}) for row in rows]


def _payload(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def insert_events(database: Path, events: Sequence[Mapping[str, Any]]) -> list[int]:
    """Insert without any check of the store, and return the ids."""
    plain = {"version": 1, "message_id": None, "conversation_id": None, "conversation_started_at": None, "agent": None}
    names = ("type", "version", "message_id", "conversation_id", "conversation_started_at", "agent", "payload")
    into = f"INSERT INTO events ({', '.join(names)}, created_at) VALUES ({'?, ' * len(names)}?) RETURNING id"  # noqa: S608
    with closing(apsw.Connection(str(database))) as connection:
        return [
            connection.execute(into, [{**plain, **event}[name] for name in (*names, "created_at")]).get
            for event in events
        ]


def python_path() -> str:
    """For child processes: the folder with tests and bench."""
    return str(Path(__file__).parents[2])


def walk(value: object) -> Iterator[str]:
    """Every text in a JSON or Parquet value."""
    match value:
        case str():
            yield value
        case bytes():
            yield value.decode(errors="replace")
        case dict():
            for key, inner in value.items():
                yield from walk(key)
                yield from walk(inner)
        case list() | tuple():
            for inner in value:
                yield from walk(inner)
        case _:
            return
