"""Instants in silver and gold are timestamps in UTC; Python reads milliseconds, also from an older lake."""

import datetime as dt
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.pipeline.tables import DAY, put
from tests.support.lakes import Row, write_lake, write_old_lake
from tinyagi.domain.ids import AgentId, ConversationId
from tinyagi.pipeline.delta.optimize import compact
from tinyagi.pipeline.delta.snapshot import APP, Snapshot, has_old_types, open_pinned, open_snapshot, recreate
from tinyagi.pipeline.errors import LakeBroken
from tinyagi.pipeline.instants import During, in_millis, time_of
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.manage.replay import Selection, plan_replay
from tinyagi.pipeline.progress import Progress
from tinyagi.pipeline.report.read_report import read_report
from tinyagi.pipeline.serve.archive import LakeArchive
from tinyagi.pipeline.spark.lake_session import LakeSession
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.pipeline.tables.gold import GOLD
from tinyagi.pipeline.tables.model import FIRST_INSTANT, LAST_INSTANT, Table
from tinyagi.pipeline.tables.silver import SILVER

INSTANTS: Final = pa.timestamp("us", tz="UTC")
NOON: Final = 1_772_452_800_123
"""Of `DAY`, with some milliseconds."""
HOUR: Final = NOON // 3_600_000 * 3_600_000
ODD: Final = (FIRST_INSTANT, -1, 0, 1, NOON, LAST_INSTANT)

MESSAGE: Final[Row] = {
    "id": 1,
    "message_id": "m1",
    "conversation_id": "m1",
    "conversation_started_at": NOON,
    "channel": "web",
    "sender": "Ada",
    "agent": "coder",
    "hop": 0,
    "message": "hello",
    "files": "[]",
    "status": "completed",
    "created_at": NOON,
    "updated_at": NOON + 9,
    "completed_at": NOON + 9,
    "available_at": 0,
    "runs": 1,
    "last_event_id": 5,
    "date": DAY,
}
RUN: Final[Row] = {
    "claim_id": "c1",
    "agent": "coder",
    "conversation_id": "m1",
    "conversation_started_at": NOON,
    "ids": [1],
    "attempt": 1,
    "started_at": NOON + 1,
    "ended_at": NOON + 9,
    "is_done": True,
    "outcome": "completed",
    "end_event_id": 5,
    "last_event_id": 5,
    "date": DAY,
}
CONVERSATION: Final[Row] = {
    "conversation_id": "m1",
    "started_at": NOON,
    "updated_at": NOON + 9,
    "first_id": 1,
    "channel": "web",
    "agent": "coder",
    "messages": 1,
    "open": 0,
    "critical_path_ms": 9,
    "date": DAY,
}
ALERT: Final[Row] = {"rule": "backlog", "agent": "coder", "hour": HOUR, "text": "Slow.", "date": DAY}
TABLES_OF_A_LAKE: Final = {
    "silver.messages": [MESSAGE, {**MESSAGE, "id": 2, "message_id": "m2", "created_at": NOON + 500}],
    "silver.runs": [RUN],
    "gold.conversations": [CONVERSATION],
    "gold.alerts": [ALERT],
}


def is_instant(column: str) -> bool:
    return column == "hour" or column.endswith("_at")


def instants_of(table: Table) -> list[str]:
    return [column.name for column in table.columns if is_instant(column.name)]


@pytest.mark.parametrize("table", [*SILVER, *GOLD], ids=lambda table: table.name)
def test_every_instant_of_silver_and_gold_is_a_timestamp_in_utc(table: Table, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    row = {**dict.fromkeys(instants_of(table), NOON), "date": DAY}
    put(lake, table.name, [row], through_id=1)

    snapshot = open_snapshot(lake, table.name)
    (file,) = snapshot.files
    found = snapshot.handle.to_pyarrow_table()
    kinds = {field["name"]: field["type"] for field in json.loads(snapshot.handle.schema().to_json())["fields"]}

    for name in instants_of(table):
        assert kinds[name] == "timestamp", name
        assert found.schema.field(name).type == INSTANTS, name
        assert found[name].to_pylist() == [time_of(NOON)], name
        assert file.statistics.minimum[name] == file.statistics.maximum[name] == time_of(NOON), name
    assert [name for name, kind in kinds.items() if kind == "timestamp"] == instants_of(table)


def test_other_tables_keep_recorded_milliseconds(tmp_path: Path) -> None:
    others = [table for table in TABLES.values() if table.layer not in {"silver", "gold"}]

    kinds = {(column.name, column.type) for table in others for column in table.columns if is_instant(column.name)}

    assert kinds == {(name, "long") for name, _ in kinds}


def test_readers_of_python_get_milliseconds(tmp_path: Path) -> None:
    rows = [{"id": number, "created_at": at, "date": DAY} for number, at in enumerate(ODD)]
    lake = write_lake(tmp_path, {"silver.messages": [*rows, {"id": 99, "date": DAY}]})

    found = lake.rows("silver.messages", columns=["id", "created_at"]).sort_by("id")["created_at"]

    assert found.type == pa.int64()
    assert found.to_pylist() == [*ODD, None]


@pytest.mark.parametrize("write", [write_lake, write_old_lake], ids=["timestamps", "milliseconds"])
@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (None, None, [*ODD]),
        (NOON, NOON, [NOON]),
        (0, None, [0, 1, NOON, LAST_INSTANT]),
        (None, -1, [FIRST_INSTANT, -1]),
        (1, NOON - 1, [1]),
        (-(2**62), 2**62, [*ODD]),
    ],
)
def test_an_instant_is_a_filter(
    write: Any, first: int | None, last: int | None, expected: list[int], tmp_path: Path
) -> None:
    rows = [{"id": number, "created_at": at, "date": DAY} for number, at in enumerate(ODD)]
    lake = write(tmp_path, {"silver.messages": rows})

    found = lake.rows("silver.messages", columns=["created_at"], during=During("created_at", first, last))

    assert sorted(found["created_at"].to_pylist()) == expected


def test_files_are_found_by_time(tmp_path: Path) -> None:
    lake, day = Lake(tmp_path), dt.timedelta(days=1)
    for place in range(3):
        put(lake, "silver.messages", [{"id": place, "created_at": NOON + place * 86_400_000}], through_id=place + 1)
    snapshot = open_snapshot(lake, "silver.messages")
    noon = time_of(NOON)

    assert len(snapshot.reaching("created_at", noon)) == 3
    assert len(snapshot.reaching("created_at", noon + day, noon + day)) == 1
    assert len(snapshot.reaching("created_at", noon + 3 * day)) == 0
    assert len(snapshot.reaching("created_at", time_of(-(2**62)), time_of(2**62))) == 3


async def test_an_older_lake_gives_the_same_answers(tmp_path: Path) -> None:
    """Until a run rebuilds it."""
    answers = []
    for write, folder in ((write_lake, tmp_path / "new"), (write_old_lake, tmp_path / "old")):
        lake = write(folder, TABLES_OF_A_LAKE, through_id=7)
        archive = LakeArchive(folder)
        conversation = await archive.conversation(ConversationId("m1"), started_at=NOON)
        report = read_report(lake, days=2, now=NOON + 1_000)
        alerts = await archive.analytics("alerts", agent=AgentId("coder"))
        replay = plan_replay(lake, Selection(since=NOON, until=NOON + 1))
        rows = {name: lake.rows(name).to_pylist() for name in TABLES_OF_A_LAKE}
        answers.append((conversation, await archive.recent(), report.alerts, report.slowest, alerts, replay, rows))

    assert answers[0] == answers[1]
    conversation, (summary,), (alert,), _, analytics, replay, _ = answers[0]
    assert [len(traced.attempts) for traced in conversation] == [1, 0]
    assert (conversation[0].message.created_at, conversation[0].message.updated_at) == (NOON, NOON + 9)
    assert (summary.started_at, alert.hour) == (NOON, HOUR)
    assert [message.original for message in replay.letters] == [1]
    (hour,) = (field for field in analytics.fields if field.name == "hour")
    assert (hour.type, hour.unit) == ("long", "ms since 1970 UTC")
    assert analytics.rows[0]["hour"] == HOUR


def test_spark_reads_an_older_lake_as_timestamps(tmp_path: Path, spark: SparkSession) -> None:
    lake = write_old_lake(tmp_path, TABLES_OF_A_LAKE)
    session = LakeSession(spark, lake, Progress(), is_pinned=True)

    found = session.read(session.open("silver.messages")).orderBy("id").toArrow()

    assert found.schema.field("created_at").type == INSTANTS
    assert in_millis(found)["created_at"].to_pylist() == [NOON, NOON + 500]


def test_an_older_table_takes_no_new_rows(tmp_path: Path) -> None:
    lake = write_old_lake(tmp_path, TABLES_OF_A_LAKE)

    with pytest.raises(LakeBroken, match=r"silver\.messages is from an earlier version"):
        put(lake, "silver.messages", [MESSAGE], through_id=8)
    assert "silver.messages" not in compact([open_snapshot(lake, name) for name in TABLES], all_days=True)
    assert lake.newest("silver.messages").version() == 0


def test_an_older_table_is_renewed_in_one_commit(tmp_path: Path) -> None:
    lake, name = write_old_lake(tmp_path, TABLES_OF_A_LAKE), "silver.messages"
    before = lake.rows(name)
    assert has_old_types(lake, name)
    assert not has_old_types(lake, "gold.agent_hourly"), "it does not exist"

    recreate(lake, name)

    snapshot, fresh = open_snapshot(lake, name), open_snapshot(Lake(tmp_path / "fresh"), name)
    assert not has_old_types(lake, name)
    assert (snapshot.version, snapshot.through_id, snapshot.files) == (1, 0, ())
    assert _shape(snapshot) == _shape(fresh)
    # Readers keep the pinned version until the manifest names the new one.
    assert lake.rows(name).equals(before)
    assert lake.rows(name, as_of=0)["created_at"].to_pylist() == [NOON, NOON + 500]
    assert open_pinned(lake, name).through_id == 7
    assert lake.rows(name, as_of=1).num_rows == 0

    put(lake, name, [MESSAGE], through_id=9)

    assert lake.newest(name).transaction_version(APP) == 9
    assert lake.rows(name, as_of=2)["created_at"].to_pylist() == [NOON]
    assert lake.newest(name).to_pyarrow_table()["created_at"].to_pylist() == [time_of(NOON)]
    assert lake.rows(name)["created_at"].to_pylist() == [NOON, NOON + 500]


def _shape(snapshot: Snapshot) -> Sequence[object]:
    metadata = snapshot.handle.metadata()
    return (
        snapshot.handle.schema().to_json(),
        metadata.name,
        metadata.description,
        metadata.partition_columns,
        metadata.configuration,
    )
