"""Maintenance of a lake: few files, no unused ones, and no personal text in its logs."""

import datetime as dt
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.pipeline.support import walk
from tests.pipeline.tables import DAY, put
from tinyagi.pipeline.delta.optimize import MOST_SMALL_FILES, compact, vacuum, vacuum_daily
from tinyagi.pipeline.delta.parquet_files import bounded_columns
from tinyagi.pipeline.delta.snapshot import Snapshot, open_snapshot
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.manifest import LakeManifest, Pin, write_manifest
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.pipeline.tables.model import Column, Table
from tinyagi.pipeline.tables.schema import arrow_type

NAME = "silver.messages"
MARK = "zqzq"
NEXT_DAY = DAY + timedelta(days=1)
AT_ONCE = timedelta()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def pin(lake: Lake) -> None:
    """As the end of a run does."""
    pins = {name: Pin(open_snapshot(lake, name).version, open_snapshot(lake, name).through_id) for name in TABLES}
    write_manifest(lake.manifest_file, LakeManifest(1, 0, 0, pins))


def fill(lake: Lake, commits: int, day: dt.date = DAY) -> None:
    first = open_snapshot(lake, NAME).through_id + 1
    for number in range(first, first + commits):
        row = {"id": number, "message": f"text {number}", "last_event_id": number, "date": day}
        put(lake, NAME, [row], through_id=number)


def texts(lake: Lake) -> list[str]:
    pin(lake)
    return sorted(lake.rows(NAME).column("message").to_pylist(), key=len)


def files_of(lake: Lake, day: dt.date) -> int:
    return len(open_snapshot(lake, NAME).of_dates({day}))


def test_a_day_of_many_small_files_becomes_one_file(lake: Lake) -> None:
    fill(lake, MOST_SMALL_FILES + 2)
    fill(lake, 3, NEXT_DAY)
    before = texts(lake)

    gone = compact(_opened(lake))

    assert gone == {NAME: MOST_SMALL_FILES + 1}
    assert (files_of(lake, DAY), files_of(lake, NEXT_DAY)) == (1, 3)
    assert sorted(texts(lake)) == sorted(before)
    assert open_snapshot(lake, NAME).through_id == MOST_SMALL_FILES + 5
    (joined,) = open_snapshot(lake, NAME).of_dates({DAY})
    assert joined.statistics.rows == MOST_SMALL_FILES + 2
    assert joined.statistics.maximum["id"] == MOST_SMALL_FILES + 2, "searches still skip it by its bounds"
    assert compact(_opened(lake)) == {}
    assert compact(_opened(lake), all_days=True) == {NAME: 2}
    assert files_of(lake, NEXT_DAY) == 1


def test_vacuum_keeps_the_files_of_the_manifest_and_deletes_others(lake: Lake) -> None:
    fill(lake, 4)
    pin(lake)
    pinned = {path.name for path in lake.path(NAME).glob("date=*/*.parquet")}
    compact(_opened(lake), all_days=True)
    orphan = lake.path(NAME) / f"date={DAY}" / "orphan.parquet"
    orphan.write_bytes(b"left by a crash")

    gone = vacuum(lake, keep=AT_ONCE)

    assert gone == 1
    assert not orphan.exists()
    assert pinned < {path.name for path in lake.path(NAME).glob("date=*/*.parquet")}
    assert lake.rows(NAME).num_rows == 4, "a reader continues with its version"
    pin(lake)
    assert vacuum(lake, keep=AT_ONCE) == len(pinned)
    assert len(list(lake.path(NAME).glob("date=*/*.parquet"))) == 1
    assert lake.rows(NAME).num_rows == 4


def test_recently_replaced_files_are_kept_for_running_readers(lake: Lake) -> None:
    fill(lake, 3)
    compact(_opened(lake), all_days=True)
    pin(lake)

    assert vacuum(lake) == 0
    assert len(list(lake.path(NAME).glob("date=*/*.parquet"))) == 4


def test_a_vacuum_runs_once_a_day(lake: Lake) -> None:
    fill(lake, 1)
    pin(lake)
    orphan = lake.path(NAME) / f"date={DAY}" / "orphan.parquet"

    def leave_an_orphan() -> None:
        orphan.write_bytes(b"left by a crash")
        os.utime(orphan, (0, 0))

    leave_an_orphan()
    first = vacuum_daily(lake)
    leave_an_orphan()
    again = vacuum_daily(lake)
    os.utime(lake.folder / ".vacuumed", (0, 0))
    next_day = vacuum_daily(lake)

    assert (first, again, next_day) == (1, 0, 1)


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_no_personal_value_is_in_a_tables_log(lake: Lake, table: Table) -> None:
    """Neither as a bound in a commit or a compaction, nor in a checkpoint."""
    for number in range(1, 4):
        row = {column.name: _value(column, number) for column in table.columns}
        put(lake, table.name, [row], through_id=number)
    personal = [column.name for column in table.columns if column.personal]
    compact(_opened(lake), all_days=True)
    handle = open_snapshot(lake, table.name).handle
    handle.create_checkpoint()
    log = lake.path(table.name) / "_delta_log"
    checkpoints = list(log.glob("*.checkpoint.parquet"))

    logged = list(_log_texts(log))

    assert checkpoints
    assert any('"numRecords":3' in text.replace(" ", "") for text in logged), "the compaction records its bounds, too"
    assert [text for text in logged if MARK in text] == []
    stored = list(walk(handle.to_pyarrow_table().to_pylist()))
    assert (MARK in " ".join(stored)) == bool(personal)
    assert not bounded_columns(table) & set(personal)


def _log_texts(log: Path) -> Iterator[str]:
    for commit in log.glob("*.json"):
        yield commit.read_text()
    for checkpoint in log.glob("*.parquet"):
        yield from walk(pq.read_table(checkpoint).to_pylist())


def _value(column: Column, number: int) -> Any:
    text = f"{MARK} {number}" if column.personal else f"plain {number}"
    match column.type:
        case "string":
            return text
        case "double" | "long" | "int" | "timestamp":
            return number
        case "boolean":
            return True
        case _:
            # Arrays of numbers, of texts, or of structs.
            inner = arrow_type(column.type).value_type
            names = [inner.field(place).name for place in range(inner.num_fields)]
            plain = {"string": text, "int64": number, "int32": number}
            if names:
                return [{name: plain[str(inner.field(name).type)] for name in names}]
            return [plain[str(inner)]]


def _opened(lake: Lake) -> list[Snapshot]:
    return [open_snapshot(lake, name) for name in TABLES]
