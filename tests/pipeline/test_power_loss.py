"""A power cut at any moment: each event is in a readable file of the lake, or still in the database."""

import asyncio
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from unittest import mock

import apsw
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.pipeline.support import append_history, disagreeing, hurried, raw_events, run, write_history
from tests.pipeline.tables import DAY, put
from tests.support.power import LOSSES, Disk, recorder
from tinyagi.domain.limits import Retention
from tinyagi.lake_service import LakeService
from tinyagi.pipeline.delta.commit import repair_logs
from tinyagi.pipeline.delta.optimize import compact, vacuum
from tinyagi.pipeline.delta.parquet_files import FilesByDay
from tinyagi.pipeline.delta.snapshot import open_snapshot
from tinyagi.pipeline.forget.lake_eraser import purge
from tinyagi.pipeline.ingest.bronze import BRONZE
from tinyagi.pipeline.lake import Lake, writer_lock
from tinyagi.pipeline.manifest import LakeManifest, Pin, write_manifest
from tinyagi.pipeline.progress import Progress
from tinyagi.pipeline.spark import lake_session
from tinyagi.pipeline.spark.lake_session import LakeSession
from tinyagi.pipeline.spark.session import SparkSetup
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.settings.home import Home
from tinyagi.store.store import Store

NAME: Final = "silver.messages"
WATCHED: Final = frozenset({"bronze", "messages", ".manifest.json.new"})
"""A cut happens at syncs of the lake's folder and of these: every table is written the same way."""


@dataclass(frozen=True)
class Cut:
    lake: Lake
    hot: frozenset[int]
    """Events in the database at that time."""
    cursor: int
    before: str
    """The sync that the power cut prevented."""


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk(tmp_path / "journal", monkeypatch)
    monkeypatch.setattr(lake_session, "FilesByDay", lambda *where: _recording(FilesByDay(*where), disk.journal))
    return disk


@pytest.fixture
def home(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home whose pipeline runs in the open session."""

    @contextmanager
    def in_session(lake: Lake, _: SparkSetup, purpose: str, progress: Progress) -> Iterator[LakeSession]:
        with writer_lock(lake.folder, purpose), hurried(spark):
            repair_logs(lake)
            yield LakeSession(spark, lake, progress)

    monkeypatch.setattr("tinyagi.lake_service.open_for_writing", in_session)
    home = Home(tmp_path / "home")
    home.prepare()
    write_history(home.database, 60)
    return home


@pytest.mark.timeout(600)
def test_parquet_log_manifest_and_cursor_are_synced_in_this_order(home: Home, disk: Disk) -> None:
    cursors: list[int] = []
    disk.before_sync = lambda _: cursors.append(_cursor(home))

    LakeService(home).run(Progress())

    lake = Lake(home.lake)
    synced = [one.path for one in disk.syncs()]
    by_inode = {one.inode: place for place, one in enumerate(disk.syncs())}
    published = synced.index(home.lake, synced.index(home.lake / ".manifest.json.new"))
    for name in TABLES:
        snapshot = open_snapshot(lake, name)
        log = snapshot.folder / "_delta_log"
        entries = {version: synced.index(log / f"{version:020}.json") for version in range(snapshot.version + 1)}
        assert list(entries.values()) == sorted(entries.values())
        for entry in entries.values():
            assert entry < synced.index(log, entry) < published, "the folder of the log follows its entry"
        for file in map(Path, snapshot.locations(snapshot.files)):
            content, folder = by_inode[file.stat().st_ino], _last(synced, file.parent)
            assert content < folder < entries[snapshot.version], f"{file} is named by a log that may outlive it"
            assert synced.index(snapshot.folder) < entries[snapshot.version]
        assert synced.index(snapshot.folder.parent) < entries[0], "new folders are synced in the folder above"
    assert set(cursors) == {0}, "the cursor has not moved before the last sync of the lake"
    assert _cursor(home) == raw_events(home.database)[-1].id


@pytest.mark.timeout(900)
def test_every_event_survives_a_power_cut_at_any_sync(
    spark: SparkSession, home: Home, disk: Disk, tmp_path: Path
) -> None:
    cuts: list[Cut] = []
    losses = itertools.cycle(LOSSES)

    def cut(before: Path | None = None) -> None:
        if before is None or before == home.lake or WATCHED.intersection(before.parts):
            folder = disk.cut(home.lake, tmp_path / f"cut-{len(cuts)}", next(losses))
            cuts.append(Cut(Lake(folder), _hot(home), _cursor(home), str(before)))

    disk.before_sync = cut
    LakeService(home).run(Progress())
    cut()
    early = _hot(home)
    append_history(home.database, 60)
    late = asyncio.run(_prune(home))
    assert late.isdisjoint(early), "the events of the first run are in the lake alone"
    cut()
    LakeService(home).run(Progress())
    cut()
    everything = early | _hot(home)
    disk.before_sync = lambda _: None

    assert len(cuts) > 6
    assert {one.cursor for one in cuts} == {0, max(early), max(everything)}
    for one in cuts:
        _assert_pinned_is_readable(one)
        repair_logs(one.lake)
        in_lake = _assert_newest_is_readable(one)
        assert early <= in_lake | one.hot, f"lost by a cut before {one.before}"
        assert {number for number in everything if number <= one.cursor} <= in_lake, one.before
    for one in (_first(cuts, "bronze/events/_delta_log"), _first(cuts, "silver/messages/_delta_log")):
        run(spark, one.lake, home.database)
        assert disagreeing(spark, one.lake, home.database) == []


def test_compaction_vacuum_and_purge_delete_only_after_the_replacement_is_synced(tmp_path: Path, disk: Disk) -> None:
    lake = Lake(tmp_path / "lake")
    numbers = list(range(1, 7))
    for number in numbers:
        put(lake, NAME, [_row(number)], through_id=number)
    cuts: list[tuple[str, Lake]] = []
    losses = itertools.cycle(LOSSES)

    def cut(before: object) -> None:
        cuts.append((str(before), Lake(disk.cut(lake.folder, tmp_path / f"cut-{len(cuts)}", next(losses)))))

    _publish(lake)
    disk.before_sync = cut
    assert compact([open_snapshot(lake, name) for name in TABLES], all_days=True) == {NAME: 5}
    cut("publishing")
    _publish(lake)
    assert vacuum(lake, keep=timedelta()) == 6
    purge(lake)
    cut("the end")
    disk.before_sync = lambda _: None

    assert len(cuts) > 6
    for before, left in cuts:
        assert sorted(left.rows(NAME).column("id").to_pylist()) == numbers, f"the manifest's version, before {before}"
        repair_logs(left)
        newest = open_snapshot(left, NAME).handle.to_pyarrow_table()
        assert sorted(newest.column("id").to_pylist()) == numbers, f"the newest version, before {before}"


@pytest.mark.parametrize("loss", LOSSES)
def test_a_checkpoint_torn_by_a_power_cut_is_dropped(tmp_path: Path, disk: Disk, loss: str) -> None:
    lake = Lake(tmp_path / "lake")
    for number in range(1, 19):
        put(lake, NAME, [_row(number)], through_id=number)
    cuts: list[Lake] = []

    def cut(_: object = None) -> None:
        cuts.append(Lake(disk.cut(lake.folder, tmp_path / f"cut-{len(cuts)}", loss)))

    disk.before_sync = cut
    put(lake, NAME, [_row(19)], through_id=19)
    cut()
    disk.before_sync = lambda _: None
    assert list((lake.path(NAME) / "_delta_log").glob("*19.checkpoint.parquet"))

    found = []
    for left in cuts:
        repair_logs(left)
        snapshot = open_snapshot(left, NAME)
        rows = snapshot.handle.to_pyarrow_table().column("id").to_pylist()
        assert sorted(rows) == list(range(1, snapshot.through_id + 1))
        found.append(snapshot.through_id)
    assert set(found) == {18, 19}
    assert found == sorted(found)


def _recording(write: FilesByDay, journal: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """`FilesByDay` with a task that records its syncs."""
    note = recorder(journal)

    def recorded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with mock.patch.object(os, "fsync", note):
            yield from write(batches)

    return recorded


def _row(number: int) -> dict[str, Any]:
    return {"id": number, "message": f"text {number}", "last_event_id": number, "date": DAY}


def _publish(lake: Lake) -> None:
    """As the end of a run does."""
    opened = {name: open_snapshot(lake, name) for name in TABLES}
    pins = {name: Pin(one.version, one.through_id) for name, one in opened.items()}
    write_manifest(lake.manifest_file, LakeManifest(1, 0, 0, pins))


def _assert_pinned_is_readable(cut: Cut) -> None:
    """Without any repair, as the API reads it after a restart."""
    manifest = cut.lake.manifest()
    assert manifest is not None or cut.cursor == 0, cut.before
    for name in manifest.tables if manifest else ():
        cut.lake.rows(name)


def _assert_newest_is_readable(cut: Cut) -> set[int]:
    """As the next run reads it; returns the events in bronze."""
    for name in TABLES:
        if (cut.lake.path(name) / "_delta_log").is_dir():
            open_snapshot(cut.lake, name).handle.to_pyarrow_table()
    return set(open_snapshot(cut.lake, BRONZE).handle.to_pyarrow_table(columns=["id"]).column("id").to_pylist())


def _first(cuts: list[Cut], folder: str) -> Cut:
    return next(one for one in cuts if folder in one.before and one.cursor)


def _last(synced: list[Path], path: Path) -> int:
    return max(place for place, one in enumerate(synced) if one == path)


def _hot(home: Home) -> frozenset[int]:
    return frozenset(event.id for event in raw_events(home.database))


def _cursor(home: Home) -> int:
    with closing(apsw.Connection(str(home.database))) as connection:
        return int(connection.execute("SELECT position FROM cursors WHERE consumer = 'lake'").get or 0)


async def _prune(home: Home) -> frozenset[int]:
    async with await Store.open(home.database) as store:
        await store.queue.prune(Retention(events=timedelta()))
    return _hot(home)
