"""The statements that run for every message use the index they were written for, whatever the size of the table."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import apsw
import pytest

from tinyagi.domain.batching import CHAT_CHANNELS
from tinyagi.domain.traces import RUN_EVENTS
from tinyagi.store.sqlite.connection import connect
from tinyagi.store.sqlite.migrations import migrate
from tinyagi.store.statements import load_statements

SQL = load_statements("sqlite")
PARAMETERS = (
    *("agent", "now", "limit", "primary", "thread", "priority", "channel", "before", "floor", "since"),
    *("passive", "held", "project", "status"),
)

RUNS: Final = " OR ".join(f"type = '{name}'" for name in RUN_EVENTS)
"""What the index of runs holds, as its statements have to spell it."""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    path: Path = tmp_path_factory.mktemp("plans") / "tinyagi.db"
    connection = connect(path, timedelta(seconds=1))
    migrate(connection, SQL, path, path.parent / "backups", 1)
    with connection:
        connection.executemany(
            "INSERT INTO messages (message_id, channel, sender, message, agent, from_agent, thread, conversation_id, "
            "status, created_at, updated_at, last_event_id) VALUES (?, 'api', 'x', 'y', ?, ?, 'api:x', ?, ?, 1, 1, 1)",
            [
                (f"m{n}", f"a{n % 7}", "b" if n % 2 else None, f"m{n}", "pending" if n % 3 else "completed")
                for n in range(50_000)
            ],
        )
        connection.executemany(
            "INSERT INTO conversations (id, open, total, created_at) VALUES (?, 0, 1, 1)",
            [(f"m{n}",) for n in range(50_000)],
        )
        connection.executemany(
            "INSERT INTO events (type, version, message_id, conversation_id, payload, created_at) "
            "VALUES (?, 1, ?, ?, '{}', 1)",
            [
                (event, f"m{n}", f"m{n}")
                for n in range(50_000)
                for event in ("message_received", "chain_step_start", "chain_step_done")
            ],
        )
    connection.execute("ANALYZE")
    yield connection
    connection.close()


def plan(database: apsw.Connection, name: str) -> list[str]:
    statement = f"EXPLAIN QUERY PLAN {SQL[name]}"
    numbered = {int(number) for number in re.findall(r"\?(\d+)", statement)}
    positional = max(numbered, default=statement.count("?"))
    values = (1,) * positional if positional else dict.fromkeys(PARAMETERS, 1)
    return [str(row[3]) for row in database.execute(statement, values)]


def counted(database: apsw.Connection, name: str, parameters: dict[str, int]) -> tuple[list[Any], int]:
    """The rows of a statement, and about how many steps of SQLite's machine it took."""
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 10
        return False

    database.set_progress_handler(count, 10)
    try:
        return database.execute(SQL[name], parameters).fetchall(), steps
    finally:
        database.set_progress_handler(None)


@pytest.mark.parametrize("name", ["claim_ready", "claim_primary", "claim_room_posts", "claim_everything"])
def test_a_claim_uses_pending_by_lane(database: apsw.Connection, name: str) -> None:
    steps = plan(database, name)

    assert any("USING INDEX pending_by_lane (agent=?" in step for step in steps)
    assert not any(step.startswith("SCAN m") for step in steps), steps


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("claim_ready", "pending_by_lane (agent=? AND priority>?)"),
        ("claim_primary", "pending_by_lane (agent=? AND priority>?)"),
        ("claim_room_posts", "pending_by_lane (agent=? AND priority<?)"),
        ("claimable_lanes", "pending_by_lane (agent=? AND priority>?)"),
        ("claimable_lanes", "waiting_by_lane (agent=? AND available_at>? AND available_at<?)"),
        ("count_from_agents", "agent_to_agent (agent=? AND created_at>?)"),
        ("newest_turns", "turns USING PRIMARY KEY (agent=? AND thread=?)"),
        ("last_turn", "turns USING PRIMARY KEY (agent=? AND thread=?)"),
        ("claim_primary", "waiting_by_lane (agent=? AND available_at>? AND available_at<?)"),
        ("claim_primary", "backing_off (agent=? AND thread=?)"),
        ("claim_thread", "pending_chats (agent=? AND thread=? AND id>?)"),
        ("prune_messages", "finished_by_age (status=? AND updated_at<?)"),
        ("dead_messages", "finished_by_age (status=?)"),
        ("pending_responses", "pending_by_channel (channel=?)"),
        ("history_page", "history_index USING PRIMARY KEY (agent_id=? AND id>? AND id<?)"),
        ("unadopted_messages", "unadopted_messages"),
        ("prune_conversation", "descendants (conversation_id=?)"),
        ("prune_conversation", "sqlite_autoindex_responses_1 (message_id=?)"),
        ("pending_of_lane", "pending_by_lane (agent=?)"),
        ("pending_of_lane", "waiting_by_lane (agent=? AND available_at>?)"),
        ("messages_of_conversation", "descendants (conversation_id=?)"),
        ("runs_of_conversation", "runs_by_conversation (conversation_id=?)"),
        ("recent_conversations", "runs_by_conversation (conversation_id=?)"),
        ("recent_conversations", "descendants (conversation_id=?)"),
        ("due_schedules", "due_schedules (next_at>? AND next_at<?)"),
        ("end_of_column", "tasks_by_column (status=?)"),
        ("comments", "comments_by_task (task_id=?)"),
    ],
)
def test_a_search_uses_the_index_made_for_it(database: apsw.Connection, name: str, index: str) -> None:
    assert any(index in step for step in plan(database, name)), plan(database, name)


@pytest.mark.parametrize("name", ["claimable_lanes", "count_from_agents", "claim_thread", "claim_room_posts"])
def test_a_look_at_a_lane_does_not_read_its_backlog(database: apsw.Connection, name: str) -> None:
    assert not any(re.match(r"SCAN (messages|post|m)\b", step) for step in plan(database, name)), plan(database, name)
    assert not any("TEMP B-TREE FOR ORDER BY" in step for step in plan(database, name)), plan(database, name)


@pytest.mark.parametrize("name", ["messages_of_conversation", "runs_of_conversation"])
def test_a_trace_reads_no_table_as_a_whole(database: apsw.Connection, name: str) -> None:
    assert not any(re.match(r"SCAN (messages|events|m|c)\b", step) for step in plan(database, name)), plan(
        database, name
    )


def test_the_recent_conversations_take_a_few_steps_each(database: apsw.Connection) -> None:
    """50,000 conversations: one look at all of them would take hundreds of thousands of steps."""
    rows, steps = counted(database, "recent_conversations", {"limit": 50})

    assert [row[0] for row in rows] == [f"m{n}" for n in range(49_999, 49_949, -1)]
    assert steps < 20_000


def test_to_enqueue_does_not_write_the_index_of_runs(database: apsw.Connection) -> None:
    entries = database.execute(f"SELECT count(*) FROM events INDEXED BY runs_by_conversation WHERE {RUNS}").get  # noqa: S608 - names of our own
    text = str(database.execute("SELECT sql FROM sqlite_schema WHERE name = 'runs_by_conversation'").get)

    assert entries == 100_000
    assert set(text.split("'")[1::2]) == set(RUN_EVENTS)
    assert RUNS in SQL["runs_of_conversation"]
    assert SQL["recent_conversations"].count(RUNS) == 2


def test_finding_the_claimable_lanes_takes_a_few_steps_per_lane(database: apsw.Connection) -> None:
    """50,000 rows in seven lanes: one that read even a single backlog would take tens of thousands of steps."""
    lanes, steps = counted(database, "claimable_lanes", {"now": 5, "passive": -2})
    idle, more = counted(database, "claimable_lanes", {"now": 5, "passive": 0})

    assert (len(lanes), idle) == (7, [])
    assert steps + more < 2000


def test_the_thread_index_knows_the_same_chat_channels_as_the_domain(database: apsw.Connection) -> None:
    text = str(database.execute("SELECT sql FROM sqlite_schema WHERE name = 'pending_chats'").get)

    assert {part for part in text.split("'")[1::2] if part != "pending"} == CHAT_CHANNELS
    assert all(f"'{channel}'" in SQL["claim_thread"] for channel in CHAT_CHANNELS)
