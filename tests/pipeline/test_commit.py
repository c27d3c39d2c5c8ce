"""Commits to a table: applied to exactly the planned version, or not at all."""

import datetime as dt
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import write_deltalake

from tests.pipeline.support import assert_swept, orphans, rows_of
from tests.pipeline.tables import DAY, put, written
from tinyagi.pipeline.delta.commit import Change, commit, discard
from tinyagi.pipeline.delta.optimize import vacuum
from tinyagi.pipeline.delta.snapshot import open_snapshot
from tinyagi.pipeline.errors import LakeBroken, LakeChanged
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.manifest import LakeManifest, Pin, write_manifest
from tinyagi.pipeline.tables.catalog import TABLES

NAME = "silver.chat_messages"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def line(number: int, text: str = "hello", day: dt.date | None = DAY) -> dict[str, object]:
    return {"id": number, "team_id": "dev", "message": text, "last_event_id": number, "date": day}


def lines(lake: Lake) -> list[tuple[int, str]]:
    """The lines of the newest version."""
    pins = {name: Pin(open_snapshot(lake, name).version, 0) for name in TABLES}
    write_manifest(lake.manifest_file, LakeManifest(1, 0, 0, pins))
    return [(row["id"], row["message"]) for row in rows_of(lake, NAME)]


def test_rows_and_their_last_event_are_committed_together(lake: Lake) -> None:
    put(lake, NAME, [line(1), line(2)], through_id=7)
    done = put(lake, NAME, [line(3, day=DAY + dt.timedelta(days=1))], through_id=9)

    snapshot = open_snapshot(lake, NAME)
    assert (done.rows, done.files) == (1, 1)
    assert snapshot.through_id == 9
    assert {file.date: file.statistics.rows for file in snapshot.files} == {DAY: 2, DAY + dt.timedelta(days=1): 1}
    assert [file.statistics.maximum["id"] for file in snapshot.reaching("id", 3)] == [3]
    assert lines(lake) == [(1, "hello"), (2, "hello"), (3, "hello")]
    assert_swept(lake)


def test_a_commit_on_an_old_version_is_refused_without_leftovers(lake: Lake) -> None:
    put(lake, NAME, [line(1)], through_id=1)
    old = open_snapshot(lake, NAME)
    put(lake, NAME, [line(2)], through_id=2)

    with pytest.raises(
        LakeChanged, match=r"silver\.chat_messages was changed by another writer.*Run the pipeline again"
    ):
        put(lake, NAME, [line(3)], through_id=3, snapshot=old)

    assert lines(lake) == [(1, "hello"), (2, "hello")]
    assert open_snapshot(lake, NAME).through_id == 2
    assert_swept(lake)


def test_files_replaced_by_a_compaction_are_not_replaced_again(lake: Lake) -> None:
    """If accepted, the compacted file and the new files would both be there: every row twice."""
    put(lake, NAME, [line(1)], through_id=1)
    put(lake, NAME, [line(2)], through_id=2)
    old = open_snapshot(lake, NAME)
    new = [line(1, "changed"), line(2, "changed")]
    compacted = open_snapshot(lake, NAME).handle.optimize.compact()

    with pytest.raises(LakeChanged):
        put(lake, NAME, new, through_id=3, snapshot=old, replacing=True)

    assert compacted["numFilesRemoved"] == 2
    assert lines(lake) == [(1, "hello"), (2, "hello")]
    put(lake, NAME, new, through_id=3, replacing=True)
    assert lines(lake) == [(1, "changed"), (2, "changed")]
    assert_swept(lake)


def test_a_concurrent_append_between_write_and_commit_is_detected(lake: Lake) -> None:
    put(lake, NAME, [line(1)], through_id=1)
    foreign = lake.delta(NAME, as_of=1).to_pyarrow_table()

    with pytest.raises(LakeChanged):
        put(
            lake,
            NAME,
            [line(2)],
            through_id=2,
            before_commit=lambda: write_deltalake(lake.path(NAME), foreign, mode="append"),
        )

    assert lines(lake) == [(1, "hello"), (1, "hello")], "the concurrent row, not the new one"
    assert_swept(lake)


def test_unknown_files_cannot_be_replaced(lake: Lake) -> None:
    put(lake, NAME, [line(1)], through_id=1)
    before = open_snapshot(lake, NAME)
    put(lake, NAME, [line(1, "changed")], through_id=2, replacing=True)
    now = open_snapshot(lake, NAME)

    with pytest.raises(LakeBroken, match=r"does not hold date=2026-03-02/"):
        commit(now, Change(3, written(now, [line(1, "again")]), before.files))

    assert lines(lake) == [(1, "changed")]


def test_rows_outside_the_replaced_dates_are_refused(lake: Lake) -> None:
    snapshot = open_snapshot(lake, NAME)
    other = frozenset({DAY + dt.timedelta(days=1)})

    with pytest.raises(LakeBroken, match="outside the replaced dates"):
        commit(snapshot, Change(1, written(snapshot, [line(1)]), dates=other))

    assert lines(lake) == []


def test_rows_without_a_date_are_refused(lake: Lake) -> None:
    snapshot = open_snapshot(lake, NAME)

    with pytest.raises(LakeBroken, match="have no date"):
        commit(snapshot, Change(1, written(snapshot, [line(1, day=None)])))

    assert lines(lake) == []


def test_files_of_a_killed_writer_are_invisible_until_vacuum_deletes_them(lake: Lake) -> None:
    put(lake, NAME, [line(1)], through_id=1)
    snapshot = open_snapshot(lake, NAME)
    written(snapshot, [line(2), line(3, day=DAY + dt.timedelta(days=1))])

    assert lines(lake) == [(1, "hello")]
    assert len(orphans(lake, NAME)) == 2
    assert vacuum(lake) == 0, "another writer may be about to commit young files"
    assert vacuum(lake, keep=timedelta(0)) == 2
    assert lines(lake) == [(1, "hello")]
    assert_swept(lake)


def test_discarded_files_are_deleted(lake: Lake) -> None:
    snapshot = open_snapshot(lake, NAME)
    files = written(snapshot, [line(1)])

    discard(snapshot, files)
    discard(snapshot, files)

    assert_swept(lake)


def test_a_writer_reports_what_its_commit_needs(lake: Lake) -> None:
    snapshot = open_snapshot(lake, NAME)

    (file,) = written(snapshot, [line(4), line(2), line(9)])

    stored = snapshot.folder / file.path
    assert (file.rows, file.id_sum, file.last_id, file.day) == (3, 15, 9, str(DAY))
    assert file.size == stored.stat().st_size
