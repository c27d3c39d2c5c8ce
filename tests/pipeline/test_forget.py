"""Forgetting a person: every file of the home is decoded, and none contains a text of the person."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.contract.conftest import CODER
from tests.support.lakes import write_lake
from tests.support.people import BERT, MARK, OTHER_MARK, ZORA, ZORA_ID, ask, claimed, traffic
from tinyagi.domain.erasure import Identity, Person, Redaction, Scope, SenderAlias, erasure_of
from tinyagi.domain.errors import Conflict, NotFound
from tinyagi.domain.runs import Outcome
from tinyagi.pipeline.forget.erasures import erasure_row, erasures_of, key_file, make_key, redactions_of
from tinyagi.pipeline.forget.lake_eraser import LakeEraser
from tinyagi.pipeline.forget.person import ErasureReport, PersonEraser
from tinyagi.pipeline.ingest.bronze import redact
from tinyagi.pipeline.ingest.log_source import LogSource
from tinyagi.pipeline.ingest.spark_source import SCHEMA
from tinyagi.pipeline.lake import Lake, writer_lock
from tinyagi.pipeline.manage.verify import verify
from tinyagi.pipeline.progress import Progress
from tinyagi.pipeline.run import Pipeline
from tinyagi.pipeline.spark.lake_session import LakeSession
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.pipeline.tables.model import Table
from tinyagi.settings.home import Home
from tinyagi.store.erase import Eraser
from tinyagi.store.event_reader import EventLogReader
from tinyagi.store.store import Store

# The first test runs the whole pipeline and rebuilds all tables twice.
pytestmark = pytest.mark.timeout(600)

Rows = dict[str, list[dict[str, Any]]]


@dataclass
class World:
    """A home before and after."""

    home: Home
    session: LakeSession
    pipeline: Pipeline
    before: Rows
    original: Path
    """The database as it was."""
    forgotten: ErasureReport

    @property
    def lake(self) -> Lake:
        return self.session.lake


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("forget")
    home = inhabited(Home(folder / "home"))
    session = LakeSession(spark, Lake(home.lake), Progress())
    pipeline = Pipeline(session, LogSource({"db": str(home.database)}))
    with writer_lock(home.lake, "run"):
        pipeline.run()
    before = contents(session.lake)
    assert mentioned(home, MARK) == {"tinyagi.db", "lake", "logs", "backups", "chats", "files"}
    original = folder / "original.db"
    shutil.copyfile(home.database, original)
    with writer_lock(home.lake, "forget"), Eraser(home.database) as eraser:
        forgetting = PersonEraser(home, eraser, LakeEraser(session, pipeline.backfill))
        forgotten = forgetting.erase(forgetting.find(Person("telegram", ZORA)), now=1_800_000_000_000)
    return World(home, session, pipeline, before, original, forgotten)


def inhabited(home: Home) -> Home:
    home.prepare()

    async def live() -> None:
        async with await Store.open(home.database) as store:
            await traffic(store, home.files)

    asyncio.run(live())
    (home.logs / "queue.log").write_text(json.dumps({"text": f"{ZORA} wrote", "messageId": "m1"}))
    (home.backups / "settings-20260101T000000.000000Z.json").write_text("{}")
    shutil.copyfile(home.database, home.backups / "tinyagi-1.db")
    (home.chats / "dev").mkdir()
    (home.chats / "dev" / "one.md").write_text("# Conversation m1 of team dev\n\n> zqzq asks\n")
    (home.chats / "dev" / "two.md").write_text("# Conversation m2 of team dev\n\n> kwkw asks\n")
    return home


def contents(lake: Lake) -> Rows:
    tables = [table for table in TABLES.values() if table.layer in {"silver", "gold", "bronze", "quarantine"}]
    return {table.name: in_order(lake, table) for table in tables}


def in_order(lake: Lake, table: Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = lake.rows(table.name).to_pylist()
    return sorted(rows, key=lambda row: [str(row[name]) for name in table.key])


def decoded(home: Home) -> Iterator[tuple[Path, bytes]]:
    """The content of every file, raw and decoded."""
    for path in sorted(home.path.rglob("*")):
        if path.is_file():
            yield path, path.read_bytes()
            if path.suffix == ".parquet":
                file = pq.ParquetFile(path)
                groups = [file.metadata.row_group(number).to_dict() for number in range(file.num_row_groups)]
                yield path, repr((file.metadata.metadata, groups, file.read().to_pylist())).encode()


def mentioned(home: Home, mark: bytes) -> set[str]:
    """The folders of the home with the mark in a file or in a file name."""
    found = {path.relative_to(home.path).parts[0] for path, content in decoded(home) if mark in content}
    return found | {path.relative_to(home.path).parts[0] for path in home.path.rglob(f"*{mark.decode()}*")}


def test_no_file_of_the_home_contains_a_text_of_the_person(world: World) -> None:
    assert mentioned(world.home, MARK) == set()
    assert mentioned(world.home, OTHER_MARK) >= {"tinyagi.db", "lake", "chats"}


def test_rows_ids_and_counts_of_the_lake_stay(world: World) -> None:
    after = contents(world.lake)

    for name, table in TABLES.items():
        if name not in world.before or name in {"gold.dead_letters", "gold.memory_chunks"}:
            continue
        plain = [column.name for column in table.all_columns if not column.personal and column.name != "from_agent"]
        assert [[row[name] for name in plain] for row in after[name]] == [
            [row[name] for name in plain] for row in world.before[name]
        ], name
    for name in ("messages", "still_dead"):
        was, is_ = (sum(row[name] for row in rows["gold.dead_letters"]) for rows in (world.before, after))
        assert is_ == was == 1
    assert sum(row["cost"] for row in after["silver.runs"] if row["cost"]) > 1


def test_only_a_pseudonym_of_the_person_stays(world: World) -> None:
    after = contents(world.lake)
    name = world.forgotten.pseudonym

    theirs = [row for row in after["silver.messages"] if row["sender"] == name]
    assert [row["message_id"] for row in theirs][:1] == ["m1"]
    assert {row["sender_id"] for row in theirs if row["channel"] == "telegram"} == {name}
    assert all(row["message"] is None and row["answer"] is None and row["files"] is None for row in theirs)
    assert {row["thread"] for row in theirs if row["message_id"] == "m1"} == {f"telegram:{name}"}
    assert {row["sender"] for row in after["silver.messages"]} >= {name, BERT}
    assert {row["from_agent"] for row in after["silver.chat_messages"]} == {"coder", name, BERT}
    assert [row["message"] for row in after["silver.messages"] if row["message_id"] == "m2"] == ["kwkw asks"]


def test_the_report_lists_what_was_removed_and_what_remains(world: World) -> None:
    done = world.forgotten

    assert done.pseudonym.startswith("erased-")
    assert done.rows["bronze.events"] >= done.rows["events"] > 20
    assert {path.name for path in done.removed} >= {"queue.log", "tinyagi-1.db", "one.md", "zqzq-attachment.md"}
    assert (world.home.backups / "settings-20260101T000000.000000Z.json").exists()
    assert (world.home.chats / "dev" / "two.md").exists()
    assert any("workspaces of @coder, @tester" in sentence for sentence in done.remaining)
    assert not any("still names" in sentence for sentence in done.remaining)


def test_the_key_is_private_and_the_erasure_has_only_the_pseudonym(world: World) -> None:
    assert key_file(world.home).stat().st_mode & 0o777 == 0o600
    (erasure,) = erasures_of(world.lake)
    assert erasure.pseudonym == world.forgotten.pseudonym
    assert {"m1", "m3", "m4", "m5"} <= erasure.conversations


def test_the_person_is_not_found_in_the_lake(world: World) -> None:
    eraser = LakeEraser(world.session, world.pipeline.backfill)

    assert eraser.sightings(Person(sender=ZORA)) == eraser.sightings(Person(sender_id=ZORA_ID)) == frozenset()
    assert eraser.scope(Identity("telegram", ZORA_ID, frozenset())) == Scope()
    assert eraser.known(frozenset({"m1", "m99"})) == {"m1"}


def test_a_backfill_gives_the_same_tables(world: World, spark: SparkSession, tmp_path: Path) -> None:
    # A copy of the home, because other tests check the state right after the erasure.
    home = Home(tmp_path / "home")
    shutil.copytree(world.home.path, home.path)
    session, log = LakeSession(spark, Lake(home.lake), Progress()), LogSource({"db": str(home.database)})
    pipeline = Pipeline(session, log)

    with writer_lock(home.lake, "backfill"):
        pipeline.backfill()
    assert contents(session.lake) == contents(world.lake)
    with writer_lock(home.lake, "run"):
        pipeline.run()

    assert mentioned(home, MARK) == set()
    assert all(verdict.agrees for verdict in verify(session, log))
    assert [erasure.pseudonym for erasure in erasures_of(session.lake)] == [world.forgotten.pseudonym]


def test_late_events_of_the_person_are_redacted(world: World, spark: SparkSession) -> None:
    with EventLogReader(world.original) as log:
        rows = [row for page in log.pages(0, log.head()) for row in page]
    late = spark.createDataFrame(rows, SCHEMA)

    redacted = late.mapInArrow(redact(redactions_of(world.home, world.lake)), SCHEMA).collect()

    assert [row["id"] for row in redacted] == [row[0] for row in rows]
    assert MARK.decode() in repr(rows)
    assert MARK.decode() not in repr(redacted)
    assert repr(redacted).count(OTHER_MARK.decode()) > 5
    stored = {row["id"]: row["payload"] for row in contents(world.lake)["bronze.events"]}
    assert {row["id"]: row["payload"] for row in redacted}.items() <= stored.items()


def test_events_after_the_last_erasure_are_not_redacted(world: World) -> None:
    head = max(erasure.through_id for erasure in erasures_of(world.lake))

    assert redactions_of(world.home, world.lake, after=head) == ()


def test_a_person_is_forgotten_in_a_home_without_a_lake(tmp_path: Path) -> None:
    home = inhabited(Home(tmp_path / "home"))

    with Eraser(home.database) as eraser:
        forgetting = PersonEraser(home, eraser, None)
        done = forgetting.erase(forgetting.find(Person(sender_id=ZORA_ID)), now=1)
        assert forgetting.find(Person(sender_id=ZORA_ID)).pseudonym == done.pseudonym
        with pytest.raises(NotFound, match="No messages found from 'Nobody'"):
            forgetting.find(Person(sender="Nobody"))

    assert mentioned(home, MARK) == set()
    assert "tinyagi.db" in mentioned(home, OTHER_MARK)
    assert not home.lake.exists()


class Emptied:
    """The lake of an interrupted erasure: it has the erasure, and the person is already gone."""

    def __init__(self) -> None:
        self.erased: list[Redaction] = []

    def sightings(self, person: Person) -> frozenset[SenderAlias]:
        return frozenset()

    def known(self, messages: frozenset[str]) -> frozenset[str]:
        return frozenset()

    def scope(self, identity: Identity) -> Scope:
        return Scope()

    def erase(self, redaction: Redaction) -> dict[str, int]:
        self.erased.append(redaction)
        return {}


def test_an_interrupted_erasure_continues_with_the_same_command(tmp_path: Path) -> None:
    home = inhabited(Home(tmp_path / "home"))
    with Eraser(home.database) as eraser:
        forgetting = PersonEraser(home, eraser, None)
        found = forgetting.find(Person("telegram", ZORA))
        done = forgetting.erase(found, now=1)
    erasure = erasure_of(make_key(home), found.identity, found.scope, through_id=40, now=1)
    write_lake(home.lake, {"ops.erasures": [erasure_row(erasure)]})

    lake = Emptied()
    with Eraser(home.database) as eraser:
        forgetting = PersonEraser(home, eraser, lake)
        again = forgetting.erase(forgetting.find(Person("telegram", ZORA)), now=2)

    assert again.pseudonym == done.pseudonym
    (redaction,) = lake.erased
    assert redaction.erasure.marks == erasure.marks
    assert redaction.erasure.conversations == erasure.conversations
    assert redaction.wrote("telegram", "anything", ZORA_ID)


def test_another_person_of_the_same_name_gets_another_pseudonym(tmp_path: Path) -> None:
    home = inhabited(Home(tmp_path / "home"))
    other = Identity("telegram", "another", frozenset({ZORA}))
    erasure = erasure_of(make_key(home), other, Scope(frozenset({"m2"})), through_id=40, now=1)
    write_lake(home.lake, {"ops.erasures": [erasure_row(erasure)]})

    with Eraser(home.database) as eraser:
        found = PersonEraser(home, eraser, Emptied()).find(Person("telegram", ZORA))

    assert found.pseudonym != erasure.pseudonym
    assert found.marks == frozenset()
    assert "m2" not in found.scope.conversations


def test_ids_that_contain_a_name_are_reported(tmp_path: Path) -> None:
    home = inhabited(Home(tmp_path / "home"))

    async def write() -> None:
        async with await Store.open(home.database) as store:
            await ask(store, f"telegram_{ZORA_ID}_1", "zqzq asks")
            await store.queue.complete(await claimed(store, CODER), Outcome("zqzq answer"))

    asyncio.run(write())
    with Eraser(home.database) as eraser:
        forgetting = PersonEraser(home, eraser, None)
        done = forgetting.erase(forgetting.find(Person(sender_id=ZORA_ID)), now=1)

    assert any("1 message ids contain a name" in sentence for sentence in done.remaining)
    assert f"{home.database} still names the person." in done.remaining


def test_later_messages_of_the_person_are_kept_until_the_next_erasure(tmp_path: Path) -> None:
    home = inhabited(Home(tmp_path / "home"))
    with Eraser(home.database) as eraser:
        forgetting = PersonEraser(home, eraser, None)
        forgetting.erase(forgetting.find(Person("telegram", ZORA)), now=1)

    async def write() -> None:
        async with await Store.open(home.database) as store:
            await ask(store, "m9", "zqzq is back")

    asyncio.run(write())
    with Eraser(home.database) as eraser, pytest.raises(Conflict, match=r"1 messages .* pending"):
        PersonEraser(home, eraser, None).find(Person("telegram", ZORA))

    async def finish() -> None:
        async with await Store.open(home.database) as store:
            await store.queue.complete(await claimed(store, CODER), Outcome("zqzq welcome"))

    asyncio.run(finish())
    connection = apsw.Connection(str(home.database))
    assert connection.execute("SELECT message FROM messages WHERE message_id = 'm9'").get == "zqzq is back"
    connection.close()
    with Eraser(home.database) as eraser:
        forgetting = PersonEraser(home, eraser, None)
        forgetting.erase(forgetting.find(Person("telegram", ZORA)), now=1)
    assert mentioned(home, MARK) == set()
