"""The lake as an archive: paged histories, gold tables, and the versions of the manifest."""

import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction

from tests.contract.conftest import CODER, DEV, TESTER, WRITER
from tests.support.lakes import arrow_rows, write_lake
from tinyagi.domain.errors import InvalidInput, NotFound
from tinyagi.domain.ids import ConversationId
from tinyagi.domain.responses import Role
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.manifest import Pin, write_manifest
from tinyagi.pipeline.serve import lake_reader
from tinyagi.pipeline.serve.archive import LakeArchive
from tinyagi.pipeline.serve.lake_reader import PinnedFile, PinnedTable
from tinyagi.pipeline.tables.catalog import find_table
from tinyagi.pipeline.tables.model import Table
from tinyagi.store.archive import ArchiveUnreadable

DAY = date(2026, 3, 1)


@pytest.fixture
def archive(tmp_path: Path) -> LakeArchive:
    return LakeArchive(tmp_path / "lake")


async def test_an_archive_without_a_lake_is_empty(archive: LakeArchive, tmp_path: Path) -> None:
    for folder in (tmp_path / "elsewhere", tmp_path / "lake"):
        folder.mkdir()
        assert await archive.of_agent(CODER) == ()
        assert await archive.of_room(DEV) == ()
        assert await archive.conversation(ConversationId("x")) == ()
        assert await archive.recent() == ()
        assert await archive.tables() == ()
        with pytest.raises(NotFound, match="tinyagi pipeline run"):
            await archive.analytics("agent_hourly")


async def test_a_missing_table_is_read_as_empty(archive: LakeArchive, tmp_path: Path) -> None:
    write_lake(tmp_path / "lake", {"gold.alerts": []})

    assert await archive.of_agent(CODER) == ()
    assert await archive.of_room(DEV) == ()
    assert await archive.conversation(ConversationId("x")) == ()
    assert await archive.recent() == ()
    assert [one.name for one in await archive.tables()] == ["alerts"]
    with pytest.raises(NotFound, match=r"no gold\.agent_hourly yet"):
        await archive.analytics("gold.agent_hourly")


def line(number: int, agent: str = "coder", day: int = 0) -> dict[str, Any]:
    return {
        "id": number,
        "agent_id": agent,
        "role": "user",
        "channel": "web",
        "sender": "Ada",
        "message_id": f"m{number}",
        "content": f"line {number}",
        "created_at": number,
        "date": DAY + timedelta(days=day),
    }


async def test_internal_lines_can_be_left_out(archive: LakeArchive, tmp_path: Path) -> None:
    lines = [
        line(1),
        line(2) | {"from_agent": "writer"},
        line(3) | {"channel": "chatroom"},
        line(4) | {"message_id": "internal_1", "content": None},
        line(5) | {"channel": "chatroom", "role": "assistant"},
    ]
    write_lake(tmp_path / "lake", {"silver.agent_messages": lines})

    assert [one.id for one in await archive.of_agent(CODER, internal=False)] == [5, 1]
    everything = await archive.of_agent(CODER)
    assert [(one.id, one.from_agent) for one in everything][-2:] == [(2, WRITER), (1, None)]
    assert len(everything) == 5


def append(lake: Lake, lines: list[dict[str, Any]]) -> None:
    """A commit that is not in the manifest."""
    rows = arrow_rows(find_table("silver.agent_messages"), lines)
    write_deltalake(lake.path("silver.agent_messages"), rows, mode="append")


class OpenedDays:
    """Records the days of the files that a table opens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.days: list[date] = []
        scan = PinnedTable.scan

        def counted(table: PinnedTable, files: Any, *options: Any) -> pa.Table:
            opened = list(files)
            self.days += [file.day for file in opened]
            return scan(table, opened, *options)

        monkeypatch.setattr(PinnedTable, "scan", counted)


async def test_a_page_opens_only_the_days_it_needs(
    archive: LakeArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lake(
        tmp_path / "lake",
        {"silver.agent_messages": [line(day * 10 + n, day=day) for day in range(60) for n in range(10)]},
    )
    opened = OpenedDays(monkeypatch)

    newest = await archive.of_agent(CODER, limit=5)
    assert [one.id for one in newest] == [599, 598, 597, 596, 595]
    assert opened.days == [DAY + timedelta(days=59)]

    opened.days.clear()
    assert [one.id for one in await archive.of_agent(before=200, since=185, limit=100)] == [*range(199, 185, -1)]
    assert sorted(opened.days) == [DAY + timedelta(days=18), DAY + timedelta(days=19)]

    opened.days.clear()
    assert await archive.of_agent(since=599) == ()
    assert opened.days == []


async def test_pages_have_no_gaps_or_duplicates(archive: LakeArchive, tmp_path: Path) -> None:
    dice = random.Random(3)
    rows = [line(number, dice.choice(["coder", "writer"]), day=number // 40) for number in range(1, 401)]
    # A day may contain a late line, so the id ranges of files overlap.
    rows.append(line(500, day=1))
    write_lake(tmp_path / "lake", {"silver.agent_messages": rows})
    expected = sorted((row["id"] for row in rows if row["agent_id"] == "coder"), reverse=True)

    seen: list[int] = []
    while page := await archive.of_agent(CODER, before=seen[-1] if seen else None, limit=7):
        seen += [one.id for one in page]

    assert seen == expected
    (newest,) = await archive.of_agent(CODER, limit=1)
    assert newest == (500, "coder", Role.USER, "web", "Ada", "m500", "line 500", 500, None)


async def test_files_without_statistics_are_read(archive: LakeArchive, tmp_path: Path) -> None:
    lines = [line(number, day=number // 10) for number in range(1, 31)]
    lake = write_lake(tmp_path / "lake", {"silver.agent_messages": lines})
    path = lake.path("silver.agent_messages")
    rows = arrow_rows(find_table("silver.agent_messages"), (line(100), line(101), line(102)))
    file = f"date={DAY}/late.parquet"
    pq.write_table(rows.drop_columns("date"), path / file)
    handle = DeltaTable(path)
    late = AddAction(file, (path / file).stat().st_size, {"date": str(DAY)}, 0, data_change=True, stats="{}")
    handle.create_write_transaction([late], "append", handle.schema(), ["date"])
    pin_newest(lake, "silver.agent_messages")
    actions = pa.table(DeltaTable(path).get_add_actions(flatten=True)).to_pylist()
    assert sorted(action["max.id"] is None for action in actions) == [False] * 4 + [True]

    assert [one.id for one in await archive.of_agent(limit=5)] == [102, 101, 100, 30, 29]
    assert [one.id for one in await archive.of_agent(before=12, limit=3)] == [11, 10, 9]


def pin_newest(lake: Lake, name: str) -> None:
    """Put the newest version of the table into the manifest."""
    manifest = lake.manifest()
    assert manifest is not None
    pin = Pin(DeltaTable(lake.path(name)).version(), manifest.through_id)
    write_manifest(lake.manifest_file, replace(manifest, tables={**manifest.tables, name: pin}))


async def test_a_room_is_paged_by_its_lines(archive: LakeArchive, tmp_path: Path) -> None:
    rows = [
        {
            "id": n,
            "team_id": "dev" if n % 2 else "ops",
            "from_agent": "coder",
            "message": f"{n}",
            "created_at": n,
            "date": DAY,
        }
        for n in range(1, 10)
    ]
    write_lake(tmp_path / "lake", {"silver.chat_messages": rows})

    assert [one.message for one in await archive.of_room(DEV, before=9, since=1, limit=2)] == ["7", "5"]


async def test_a_new_manifest_is_used_at_once_and_an_unchanged_one_is_cached(
    archive: LakeArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lake(tmp_path / "lake", {"silver.agent_messages": [line(1)]})
    assert [one.id for one in await archive.of_agent()] == [1]
    opens: list[str] = []

    def never(lake: Lake, table: Table, pin: Pin) -> Iterator[PinnedFile]:
        opens.append(table.name)
        return iter(())

    monkeypatch.setattr(lake_reader, "_files", never)
    assert [one.id for one in await archive.of_agent()] == [1]
    assert opens == []
    monkeypatch.undo()

    write_lake(tmp_path / "lake", {"silver.agent_messages": [line(1), line(2)]}, through_id=2_000_000)

    assert [one.id for one in await archive.of_agent()] == [2, 1]


async def test_commits_that_are_not_in_the_manifest_are_ignored(archive: LakeArchive, tmp_path: Path) -> None:
    lake = write_lake(tmp_path / "lake", {"silver.agent_messages": [line(1)]})
    append(lake, [line(2)])

    assert [one.id for one in await archive.of_agent()] == [1]


async def test_a_reader_with_vacuumed_files_reads_the_next_manifest(archive: LakeArchive, tmp_path: Path) -> None:
    lake = write_lake(tmp_path / "lake", {"silver.agent_messages": [line(1)]})
    assert len(await archive.of_agent()) == 1
    write_lake(tmp_path / "lake", {"silver.agent_messages": [line(1), line(2)]})
    DeltaTable(lake.path("silver.agent_messages")).vacuum(0, dry_run=False, enforce_retention_duration=False)
    # As if the reader had read the manifest just before it was replaced.
    assert archive._reader is not None
    state = lake.manifest_file.stat()
    archive._reader._manifest_state = (state.st_ino, state.st_mtime_ns)

    assert [one.id for one in await archive.of_agent()] == [2, 1]


async def test_a_damaged_lake_is_reported_with_the_remedy(archive: LakeArchive, tmp_path: Path) -> None:
    lake = write_lake(tmp_path / "lake", {"silver.agent_messages": [line(1)]})
    for file in lake.path("silver.agent_messages").rglob("*.parquet"):
        file.write_bytes(b"no parquet")

    with pytest.raises(ArchiveUnreadable, match="tinyagi pipeline verify"):
        await archive.of_agent()
    lake.manifest_file.write_text("{")
    with pytest.raises(ArchiveUnreadable, match=r"manifest\.json"):
        await archive.recent()


def of_day(row: dict[str, Any], day: int) -> dict[str, Any]:
    return {**row, "date": DAY + timedelta(days=day)}


async def test_rows_of_a_gold_table_are_newest_first(archive: LakeArchive, tmp_path: Path) -> None:
    rows = [
        of_day({"agent": agent, "hour": day * 24 + hour, "runs": hour, "cost": float("nan"), "wait_hist": [hour]}, day)
        for day in range(3)
        for hour in (1, 2)
        for agent in ("writer", "coder")
    ]
    write_lake(tmp_path / "lake", {"gold.agent_hourly": rows}, through_id=77)

    found = await archive.analytics("agent_hourly", limit=3)

    assert [(row["hour"], row["agent"]) for row in found.rows] == [(50, "coder"), (50, "writer"), (49, "coder")]
    assert (found.rows[0]["wait_hist"], found.rows[0]["cost"], found.rows[0]["date"]) == ([2], None, "2026-03-03")
    assert (found.table.name, found.table.rows, found.table.through_id) == ("agent_hourly", 12, 77)
    assert [field.name for field in found.fields] == list(found.rows[0])
    assert [(one.unit, one.type) for one in found.fields if one.name == "hour"] == [("ms since 1970 UTC", "long")]
    assert found == await archive.analytics("gold.agent_hourly", limit=3)

    only = await archive.analytics("agent_hourly", agent=WRITER, since=DAY, until=DAY + timedelta(days=1))
    assert [row["hour"] for row in only.rows] == [26, 25, 2, 1]
    assert (await archive.analytics("agent_hourly", since=DAY + timedelta(days=3))).rows == ()


async def test_hand_offs_are_filtered_by_either_agent_and_channels_by_none(
    archive: LakeArchive, tmp_path: Path
) -> None:
    edges = [("coder", "tester"), ("tester", "writer"), ("writer", "coder")]
    write_lake(
        tmp_path / "lake",
        {
            "gold.handoff_edges": [{"from_agent": a, "to_agent": b, "handoffs": 1, "date": DAY} for a, b in edges],
            "gold.channel_daily": [{"channel": "web", "messages": 1, "date": DAY}],
        },
    )

    found = await archive.analytics("handoff_edges", agent=TESTER)

    assert [(row["from_agent"], row["to_agent"]) for row in found.rows] == edges[:2]
    with pytest.raises(InvalidInput, match="has no agent column"):
        await archive.analytics("channel_daily", agent=TESTER)
    assert [(one.name, one.rows) for one in await archive.tables()] == [("handoff_edges", 3), ("channel_daily", 1)]


@pytest.mark.parametrize("name", ["memory_chunks", "gold.memory_chunks", "silver.runs", "gold.", "nothing"])
async def test_other_tables_are_not_served(archive: LakeArchive, tmp_path: Path, name: str) -> None:
    write_lake(tmp_path / "lake", {"gold.alerts": [], "gold.memory_chunks": [], "silver.runs": []})

    with pytest.raises(NotFound, match="Choose one of agent_hourly, conversations,"):
        await archive.analytics(name)


async def test_a_column_missing_in_an_older_lake_is_null(archive: LakeArchive, tmp_path: Path) -> None:
    lake = write_lake(tmp_path / "lake", {"gold.alerts": []})
    older = pa.table({"rule": ["backlog"], "agent": ["coder"], "hour": [5], "date": pa.array([DAY], pa.date32())})
    path = lake.path("gold.alerts")
    write_deltalake(path, older, mode="overwrite", schema_mode="overwrite", partition_by=["date"])
    pin_newest(lake, "gold.alerts")

    (row,) = (await archive.analytics("alerts")).rows

    assert (row["rule"], row["hour"], row["text"], row["value"]) == ("backlog", 5, None, None)


def test_the_archive_imports_no_spark_and_arrow_only_for_a_lake(tmp_path: Path) -> None:
    write_lake(tmp_path / "lake", {"gold.alerts": [], "silver.agent_messages": [line(1)]})
    program = f"""
import asyncio, sys
from pathlib import Path
from tinyagi.pipeline.serve.archive import LakeArchive
from tinyagi.api_wiring import open_api
asyncio.run(LakeArchive(Path({str(tmp_path / "nothing")!r})).recent())
assert not {{"pyarrow", "deltalake", "pyspark"}} & set(sys.modules)
assert len(asyncio.run(LakeArchive(Path({str(tmp_path / "lake")!r})).of_agent())) == 1
assert "pyarrow" in sys.modules and "pyspark" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
