"""The statements that run for every message use the index they were written for."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import apsw
import pytest

from tinyagi.domain.messages import PASSIVE_PRIORITY
from tinyagi.domain.traces import RUN_EVENTS
from tinyagi.store.connection import connect, load_statements
from tinyagi.store.migrations import migrate

SQL = load_statements()
PARAMETERS = (
    *("agent", "now", "limit", "primary", "thread", "priority", "channel", "before", "floor", "since"),
    *("from", "ids", "project", "status", "after", "internal"),
)

RUNS: Final = " OR ".join(f"type = '{name}'" for name in RUN_EVENTS)
"""The condition of the index of runs, as its statements must spell it."""


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


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("claim_ready", "ready_by_lane (agent=? AND priority>?)"),
        ("claim_ready", "pending_by_thread (agent=? AND thread=?)"),
        ("claim_ready", "waiting_by_lane (agent=? AND waits_for>?)"),
        ("claim_ready", "ready_room_posts (agent=?)"),
        ("ready_messages", "ready_by_lane (agent=? AND priority>?)"),
        ("ready_messages", "backing_off (agent=? AND thread=?)"),
        ("thread_messages", "pending_by_thread (agent=? AND thread=? AND id>?)"),
        ("messages_in_order", "pending_by_thread (agent=? AND thread=? AND id<?)"),
        ("next_room", "ready_room_posts (agent=? AND thread>?)"),
        ("room_posts", "ready_room_posts (agent=? AND thread=?)"),
        ("is_backing_off", "backing_off (agent=? AND thread=?)"),
        ("promote_due", "waiting_by_lane (agent=? AND waits_for=? AND available_at<?)"),
        ("unpark_thread", "waiting_for_thread (agent=? AND thread=?)"),
        ("next_parked_team", "waiting_for_team (agent=? AND team>?)"),
        ("unpark_team", "waiting_for_team (agent=? AND team=?)"),
        ("claimable_lanes", "ready_by_lane (agent=? AND priority>?)"),
        ("claimable_lanes", "waiting_by_lane (agent=? AND waits_for=? AND available_at<?)"),
        ("next_due_at", "waiting_by_lane (agent=? AND waits_for=? AND available_at>?)"),
        ("count_from_agents", "agent_to_agent (agent=? AND created_at>?)"),
        ("newest_turns", "turns USING PRIMARY KEY (agent=? AND thread=?)"),
        ("last_turn", "turns USING PRIMARY KEY (agent=? AND thread=?)"),
        ("prune_messages", "finished_by_age (status=? AND updated_at<?)"),
        ("dead_messages", "finished_by_age (status=?)"),
        ("pending_responses", "pending_by_channel (channel=?)"),
        ("upcoming_messages", "ready_by_lane (agent=?)"),
        ("upcoming_messages", "waiting_by_lane (agent=? AND waits_for>?)"),
        ("history_page", "history_index USING PRIMARY KEY (agent_id=? AND id>? AND id<?)"),
        ("unadopted_messages", "unadopted_messages"),
        ("prune_conversation", "descendants (conversation_id=?)"),
        ("prune_conversation", "sqlite_autoindex_responses_1 (message_id=?)"),
        ("pending_of_lane", "waiting_by_lane (agent=? AND waits_for=?)"),
        ("pending_of_lane", "pending_by_thread (agent=? AND thread>?)"),
        ("pending_of_lane", "ready_by_lane (agent=? AND priority<?)"),
        ("pending_of_lane", "waiting_for_team (agent=?)"),
        ("waiting_messages", "ready_by_lane (agent=?)"),
        ("waiting_messages", "waiting_by_lane (agent=? AND waits_for>?)"),
        ("waiting_messages", "backing_off (agent=? AND thread=?)"),
        ("waiting_messages", "pending_by_thread (agent=? AND thread=? AND id<?)"),
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


@pytest.mark.parametrize("name", ["claimable_lanes", "count_from_agents", "ready_messages", "room_posts"])
def test_a_lane_query_does_not_read_the_backlog(database: apsw.Connection, name: str) -> None:
    assert not any(re.match(r"SCAN (messages|post|m)\b", step) for step in plan(database, name)), plan(database, name)
    assert not any("TEMP B-TREE FOR ORDER BY" in step for step in plan(database, name)), plan(database, name)


@pytest.mark.parametrize("name", ["messages_of_conversation", "runs_of_conversation"])
def test_a_trace_scans_no_table(database: apsw.Connection, name: str) -> None:
    assert not any(re.match(r"SCAN (messages|events|m|c)\b", step) for step in plan(database, name)), plan(
        database, name
    )


def test_the_recent_conversations_take_a_few_steps_each(database: apsw.Connection) -> None:
    """50,000 conversations: reading all of them would take hundreds of thousands of steps."""
    rows, steps = counted(database, "recent_conversations", {"limit": 50})

    assert [row[0] for row in rows] == [f"m{n}" for n in range(49_999, 49_949, -1)]
    assert steps < 20_000


def test_the_upcoming_messages_take_a_few_steps_each(database: apsw.Connection) -> None:
    """33,000 messages wait in seven lanes."""
    rows, steps = counted(database, "upcoming_messages", {"limit": 20})

    assert len(rows) == 20
    assert steps < 20_000


def test_enqueueing_does_not_write_the_index_of_runs(database: apsw.Connection) -> None:
    entries = database.execute(f"SELECT count(*) FROM events INDEXED BY runs_by_conversation WHERE {RUNS}").get  # noqa: S608 - fixed names
    text = str(database.execute("SELECT sql FROM sqlite_schema WHERE name = 'runs_by_conversation'").get)

    assert entries == 100_000
    assert set(text.split("'")[1::2]) == set(RUN_EVENTS)
    assert RUNS in SQL["runs_of_conversation"]
    assert SQL["recent_conversations"].count(RUNS) == 2


def test_finding_the_claimable_lanes_takes_a_few_steps_per_lane(database: apsw.Connection) -> None:
    """50,000 rows in seven lanes: reading a single backlog would take tens of thousands of steps."""
    lanes, steps = counted(database, "claimable_lanes", {"now": 5})

    assert len(lanes) == 7
    assert steps < 1000


def test_the_indexes_exclude_passive_posts(database: apsw.Connection) -> None:
    text = str(database.execute("SELECT sql FROM sqlite_schema WHERE name = 'pending_by_thread'").get)

    assert f"priority > {PASSIVE_PRIORITY}" in text
    assert all(f"priority > {PASSIVE_PRIORITY}" in SQL[name] for name in ("claim_ready", "ready_messages"))
