"""Fills a store with completed messages as long use leaves them, in seconds: plain SQL in one transaction."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw

from tinyagi.domain.ids import AgentId, IdSource

AGENTS: Final = tuple(AgentId(f"agent-{number:02d}") for number in range(64))

APART_MS: Final = 86
"""Time between two messages: a million fill a day, the retention of completed messages."""

_IDS: Final = (
    "CREATE TEMP TABLE seed (n INTEGER PRIMARY KEY, id TEXT NOT NULL, agent TEXT NOT NULL, at INTEGER NOT NULL)"
)
_CONVERSATIONS: Final = """
INSERT INTO conversations (id, open, total, created_at) SELECT id, 0, 1, at FROM seed ORDER BY id"""
_MESSAGES: Final = """
INSERT INTO messages (id, message_id, channel, sender, message, agent, conversation_id, thread, status, claimed_by,
  started_at, answered_by, created_at, updated_at, last_event_id)
SELECT n, id, 'api', 'API', 'Please look into case ' || n || ' and tell the customer what will happen next with it.',
  agent, id, 'api:API', 'completed', agent, at + 5, id, at, at + 40, 4 * n FROM seed"""
_HISTORY: Final = """
INSERT INTO agent_messages (id, agent_id, role, channel, sender, message_id, content, created_at, last_event_id)
SELECT n, agent, CASE n % 2 WHEN 1 THEN 'user' ELSE 'assistant' END, 'api',
  CASE n % 2 WHEN 1 THEN 'API' ELSE agent END, id,
  'Please look into case ' || n || ' and tell the customer what will happen next with it.', at, 4 * n FROM seed"""
_INDEX: Final = "INSERT INTO history_index (agent_id, id) SELECT agent, n FROM seed ORDER BY agent, n"
_INDEXED: Final = "UPDATE history_indexed SET through = (SELECT count(*) FROM seed)"
# The events are missing, as if pruned, but their ids are used.
_EVENTS: Final = "INSERT INTO sqlite_sequence (name, seq) SELECT 'events', 4 * count(*) FROM seed"
_COUNTERS: Final = "SELECT lane, pending, processing, completed, dead FROM lane_counters ORDER BY lane"


def seed_completed(path: Path, rows: int) -> None:
    """Write to a migrated, closed store; afterwards its log is empty and its pages are on disk."""
    connection = apsw.Connection(str(path))
    try:
        # A new file needs no journal, and without one every page is written once.
        connection.pragma("journal_mode", "off")
        connection.pragma("synchronous", "off")
        connection.pragma("temp_store", "memory")
        connection.pragma("cache_size", -262_144)
        connection.execute(_IDS)
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO seed VALUES (?, ?, ?, ?)", _identities(rows))
        for statement in (_CONVERSATIONS, _MESSAGES, _HISTORY, _INDEX, _INDEXED, _EVENTS):
            connection.execute(statement)
        connection.execute("COMMIT")
        _check_counters(connection, rows)
        connection.pragma("journal_mode", "wal")
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    finally:
        connection.close()
    # Otherwise the kernel writes these pages during the measurement.
    with path.open("rb+") as file:
        os.fsync(file)


def _identities(rows: int) -> Iterator[tuple[int, str, AgentId, int]]:
    first = time.time_ns() // 1_000_000 - rows * APART_MS
    ids = IdSource(0)
    for number in range(1, rows + 1):
        at = first + number * APART_MS
        yield number, ids.new("api", at), AGENTS[number % len(AGENTS)], at


def _check_counters(connection: apsw.Connection, rows: int) -> None:
    found = connection.execute(_COUNTERS).fetchall()
    numbers = range(1, rows + 1)
    expected = [
        (agent, 0, 0, len(numbers[(place - 1) % len(AGENTS) :: len(AGENTS)]), 0) for place, agent in enumerate(AGENTS)
    ]
    if found != [row for row in expected if row[3]]:
        raise RuntimeError(f"The triggers did not keep lane_counters right while seeding: {found}")
