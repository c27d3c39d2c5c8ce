"""The event log as a Spark source: complete in batches and in a stream, by file and by API."""

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, In, IsNotNull, LessThanOrEqual, Not
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from tests.server.conftest import Premises
from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import NewMessage
from tinyagi.pipeline.errors import PipelineError
from tinyagi.pipeline.ingest.log_source import SOURCE_NAME, Options
from tinyagi.pipeline.ingest.spark_source import (
    SCHEMA,
    SMALLEST_PARTITION,
    BatchReader,
    EventSource,
    IdRange,
    StreamReader,
    split,
)
from tinyagi.store.event_reader import RangeCount
from tinyagi.store.store import Store

ALL_ROWS = (
    "SELECT id, type, version, message_id, conversation_id, conversation_started_at, agent, payload, created_at "
    "FROM events ORDER BY id"
)
HOSTILE = (
    "🚀 🇦🇶 \u2028\u2029 \u202e right to left",
    "\x00 \x01 \x1f \x7f",
    '{"not": "ours"} \\ \\u0000 "',
    "'; DROP TABLE events; --",
    " \t\r\n ",
    "e\u0301 \ufffd \U0010ffff",
    "long " * 100_000,
)


@pytest.fixture(autouse=True)
def registered(spark: SparkSession) -> None:
    spark.dataSource.register(EventSource)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tinyagi.db"


@pytest.fixture
def premises(tmp_path: Path) -> Premises:
    """Premises that do not serve yet."""
    return Premises(tmp_path)


def write(path: Path, texts: Iterable[str]) -> None:
    """Enqueue through another store, as a daemon does."""

    async def enqueue() -> None:
        async with await Store.open(path) as store:
            messages = [NewMessage(text, AgentId(f"agent{number % 3}")) for number, text in enumerate(texts)]
            if messages:
                await store.queue.enqueue_many(messages)
                await store.lanes.pause(AgentId("agent0"))

    asyncio.run(enqueue())


def run(path: Path, statement: str) -> list[Any]:
    with closing(apsw.Connection(str(path))) as connection:
        return connection.execute(statement).fetchall()


def thin_out(path: Path, dice: random.Random) -> None:
    """Delete the oldest events, and others at random."""
    ids = [row[0] for row in run(path, "SELECT id FROM events")]
    with closing(apsw.Connection(str(path))) as connection, connection:
        connection.executemany(
            "DELETE FROM events WHERE id = ?", [(n,) for n in ids if n < len(ids) / 4 or dice.random() < 0.3]
        )


def batch(spark: SparkSession, **options: object) -> DataFrame:
    texts = {name: str(value) for name, value in options.items()}
    return spark.read.format(SOURCE_NAME).options(**texts).load()


def rows_of(events: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in events.collect())


def stream(
    spark: SparkSession,
    checkpoint: Path,
    seen: Callable[[list[tuple[Any, ...]]], None] = lambda rows: None,
    **options: object,
) -> list[list[tuple[Any, ...]]]:
    """All current events, as the batches of Spark."""
    batches: list[list[tuple[Any, ...]]] = []

    def take(events: DataFrame, _: int) -> None:
        batches.append(rows_of(events))
        seen(batches[-1])

    texts = {name: str(value) for name, value in options.items()}
    events = spark.readStream.format(SOURCE_NAME).options(**texts).load()
    writer = events.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(60), "the stream goes on"
    finally:
        query.stop()
    return batches


@contextmanager
def statements() -> Iterator[list[tuple[str, Any]]]:
    """The SQL statements of this process during the block, with their parameters."""
    asked: list[tuple[str, Any]] = []

    def note(_: apsw.Cursor, statement: str, values: Any) -> bool:
        asked.append((statement, values))
        return True

    def hook(connection: apsw.Connection) -> None:
        connection.exec_trace = note

    apsw.connection_hooks.append(hook)
    try:
        yield asked
    finally:
        apsw.connection_hooks.remove(hook)


def test_a_batch_and_a_stream_have_the_rows_of_the_table(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    write(path, [*HOSTILE, *map(str, range(2 * SMALLEST_PARTITION + 500))])
    thin_out(path, random.Random(5))
    wanted = run(path, ALL_ROWS)

    events = batch(spark, db=path)
    assert events.schema == SCHEMA
    assert rows_of(events) == wanted
    assert rows_of(batch(spark, db=path, partitions=1)) == wanted
    assert [row for rows in stream(spark, tmp_path / "checkpoint", db=path) for row in rows] == wanted
    assert rows_of(batch(spark, db=path, after=9000, through=9500)) == [r for r in wanted if 9000 < r[0] <= 9500]


def test_hostile_texts_are_read_unchanged(spark: SparkSession, path: Path) -> None:
    write(path, HOSTILE)

    texts = batch(spark, db=path).where("type = 'message_received'").orderBy("id")
    found = texts.selectExpr("from_json(payload, 'message struct<message string>').message.message").collect()

    assert [row[0] for row in found] == list(HOSTILE)
    assert rows_of(batch(spark, db=path)) == run(path, ALL_ROWS)


def test_an_empty_log_has_no_rows(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    write(path, [])

    assert rows_of(batch(spark, db=path)) == []
    # Spark begins every new checkpoint with a batch, also with an empty one.
    assert stream(spark, tmp_path / "checkpoint", db=path) == [[]]


def test_the_batch_size_of_a_stream_counts_rows_and_not_ids(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    write(path, map(str, range(200)))
    thin_out(path, random.Random(11))
    wanted = [row[0] for row in run(path, ALL_ROWS)]

    batches = stream(spark, tmp_path / "checkpoint", db=path, max_rows=40)

    assert [row[0] for rows in batches for row in rows] == wanted
    assert [len(rows) for rows in batches[:-1]] == [40] * (len(wanted) // 40)
    assert 0 < len(batches[-1]) <= 40


def test_a_stream_stops_at_the_head_of_its_start(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    write(path, map(str, range(20)))
    head = run(path, "SELECT max(id) FROM events")[0][0]

    def write_more(_: object) -> None:
        write(path, ["more", "and more"])

    first = stream(spark, tmp_path / "checkpoint", write_more, db=path, max_rows=10)
    second = stream(spark, tmp_path / "checkpoint", db=path, max_rows=10)

    assert [row[0] for rows in first for row in rows] == list(range(1, head + 1))
    assert [row for rows in (*first, *second) for row in rows] == run(path, ALL_ROWS)


def test_a_stream_starts_at_the_given_id_and_continues_from_its_checkpoint(
    spark: SparkSession, path: Path, tmp_path: Path
) -> None:
    write(path, map(str, range(9)))
    checkpoint = tmp_path / "checkpoint"

    assert [row[0] for rows in stream(spark, checkpoint, db=path, initial=7) for row in rows] == [8, 9, 10]
    assert stream(spark, checkpoint, db=path, initial=7) == []
    write(path, ["more"])
    assert [row[0] for rows in stream(spark, checkpoint, db=path, initial=7) for row in rows] == [11]
    # A lost checkpoint does no harm: the lake knows its position.
    assert stream(spark, tmp_path / "new", db=path, initial=11) == [[]]


def test_a_log_shorter_than_the_lake_is_refused(path: Path) -> None:
    write(path, ["one"])
    reader = StreamReader(Options.parse({"db": str(path), "initial": "500"}))

    with pytest.raises(
        PipelineError, match="The event log ends at 2, but the lake has read up to 500: this is a different log"
    ):
        reader.latestOffset(reader.initialOffset(), ReadAllAvailable())


def test_the_limit_of_a_stream_is_an_option() -> None:
    assert StreamReader(Options.parse({"db": "x"})).getDefaultReadLimit() == ReadAllAvailable()
    assert StreamReader(Options.parse({"db": "x", "max_rows": "7"})).getDefaultReadLimit() == ReadMaxRows(7)


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("id > 50", True),
        ("id >= 50 AND id < 60", True),
        ("id <= 7", True),
        ("id = 33", True),
        ("id = 33 AND id > 40", True),
        ("id > 1000000", True),
        ("type = 'lane_paused'", True),
        ("type IN ('lane_paused', 'never_heard_of')", True),
        ("type = 'lane_paused' AND type = 'message_received'", True),
        ("type = 'lane_paused' AND id < 5", True),
        ("agent = 'agent1' AND id > 50", False),
        ("type <> 'lane_paused'", False),
        ("id % 2 = 0", False),
        ("id < 5 OR id > 60", False),
        ("conversation_id IS NULL", False),
        ("type LIKE 'lane%'", False),
    ],
)
def test_a_pushed_down_filter_gives_the_same_rows(spark: SparkSession, path: Path, condition: str, kept: bool) -> None:
    write(path, map(str, range(70)))
    events = batch(spark, db=path).where(condition)
    wanted = batch(spark, db=path).localCheckpoint().where(condition)

    assert rows_of(events) == rows_of(wanted)
    plan = events._jdf.queryExecution().optimizedPlan().toString()
    assert ("Filter" not in plan) is kept, plan


def test_pushed_down_filters_reach_sqlite(path: Path) -> None:
    write(path, map(str, range(70)))
    reader = BatchReader(Options.parse({"db": str(path), "after": "10"}))
    back: list[Filter] = [Not(EqualTo(("type",), "x")), IsNotNull(("agent",)), In(("type",), ("a", None))]
    kept: list[Filter] = [
        GreaterThan(("id",), 30),
        LessThanOrEqual(("id",), 60),
        In(("type",), ("lane_paused", "message_received")),
        EqualTo(("type",), "message_received"),
    ]

    assert list(reader.pushFilters([*back, *kept])) == back
    with statements() as asked:
        (partition,) = reader.partitions()
        batches = list(reader.read(partition))

    assert [number for rows in batches for number in rows.column("id").to_pylist()] == list(range(31, 61))
    (values,) = [values for statement, values in asked if "json_each" in statement]
    assert values == {"after": 30, "through": 60, "types": '["message_received"]'}


def test_partitions_cover_all_ids_and_a_small_range_is_one_partition() -> None:
    assert split(10, 10, 4) == [IdRange(10, 10)]
    assert split(10, 5, 4) == [IdRange(10, 10)]
    assert split(0, 2 * SMALLEST_PARTITION - 1, 2) == [IdRange(0, 2 * SMALLEST_PARTITION - 1)]
    for most in (1, 2, 7):
        ranges = split(3, 100_003, most)
        assert len(ranges) == most
        assert (ranges[0].after, ranges[-1].through) == (3, 100_003)
        assert all(one.through == other.after for one, other in pairwise(ranges))


def test_partitions_start_at_the_oldest_event(path: Path) -> None:
    write(path, map(str, range(20)))
    run(path, "DELETE FROM events WHERE id <= 15")

    assert BatchReader(Options.parse({"db": str(path)})).partitions() == [IdRange(15, 21)]


def test_a_missing_file_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere.db"

    with pytest.raises(Exception, match=f"There is no database at {nowhere}. Name the file of a home") as caught:
        batch(spark, db=nowhere).collect()

    assert type(caught.value).__module__.startswith("pyspark.errors")
    assert not nowhere.exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "Set either the option db or the option url"),
        ({"db": "a", "url": "b"}, "Set either the option db or the option url"),
        ({"db": "a", "maxrows": "5"}, "tinyagi_events has no option maxrows. It has db, url, token"),
        ({"db": "a", "max_rows": "0"}, "The option max_rows of tinyagi_events is '0'. Use a whole number, 1 or more"),
        ({"db": "a", "initial": "-1"}, "The option initial of tinyagi_events is '-1'"),
        ({"db": "a", "through": "now"}, "The option through of tinyagi_events is 'now'"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        Options.parse(options)


async def test_the_api_gives_the_same_rows_as_the_file(spark: SparkSession, premises: Premises, tmp_path: Path) -> None:
    premises.token = "sesame-sesame-sesame-sesame"
    async with premises.serve():
        for text in (*HOSTILE, *map(str, range(60))):
            await premises.send(f"@coder {text}")
        await premises.drained()
        path = premises.home.database
        run(path, "DELETE FROM events WHERE id % 11 = 3 OR id < 20")
        there: dict[str, Any] = {"url": f"http://127.0.0.1:{premises.port}", "token": premises.token}
        wanted = run(path, ALL_ROWS)
        assert len(wanted) > 200

        events = batch(spark, **there)
        assert await asyncio.to_thread(rows_of, events) == wanted
        batches = await asyncio.to_thread(lambda: stream(spark, tmp_path / "checkpoint", max_rows=100, **there))
        assert [row for rows in batches for row in rows] == wanted
        assert all(len(rows) <= 100 for rows in batches)
        few = events.where("type IN ('chain_step_done', 'chain_step_start') AND id > 100")
        assert await asyncio.to_thread(rows_of, few) == [
            row for row in wanted if row[1] in {"chain_step_done", "chain_step_start"} and row[0] > 100
        ]
        plan = events._jdf.queryExecution().toString()
        assert "sesame" not in plan


async def test_the_log_is_the_same_by_file_and_by_address(premises: Premises) -> None:
    def answers(options: dict[str, str]) -> list[object]:
        with Options.parse(options).open() as log:
            return [
                log.head(),
                log.first_after(0),
                log.first_after(log.head()),
                log.end_of(0, 20, log.head()),
                log.end_of(50, 1000, 60),
                log.tally(20, 60),
                [row for page in log.pages(20, 60, {"chain_step_done"}) for row in page],
                list(log.pages(log.head(), log.head())),
            ]

    async with premises.serve():
        for number in range(30):
            await premises.send(f"@coder {number}")
        await premises.drained()
        run(premises.home.database, "DELETE FROM events WHERE id < 12 OR id = 40")
        head = (await premises.store.events.bounds()).head

        by_address = await asyncio.to_thread(answers, {"url": f"http://127.0.0.1:{premises.port}/"})

        assert by_address == answers({"db": str(premises.home.database)})
        assert by_address[:6] == [head, 12, None, 31, 60, RangeCount(39, sum(range(21, 61)) - 40)]


async def test_a_refusing_or_unreachable_daemon_is_reported(premises: Premises) -> None:
    premises.token = "sesame-sesame-sesame-sesame"
    async with premises.serve():
        address = f"http://127.0.0.1:{premises.port}"
        with Options.parse({"url": address, "token": "wrong"}).open() as log:
            refused = f"The daemon at {address} refused to send its events: .*token"
            with pytest.raises(PipelineError, match=refused):
                await asyncio.to_thread(log.head)
    with (
        Options.parse({"url": address}).open() as log,
        pytest.raises(PipelineError, match=f"Cannot reach the daemon at {address}"),
    ):
        log.head()
    with pytest.raises(InvalidInput, match="is not a daemon's address"):
        Options.parse({"url": "localhost"}).open()
