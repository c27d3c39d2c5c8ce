"""Databases of the original program: its tables, columns and statuses."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

import apsw

Rows = dict[str, list[dict[str, object]]]

OPTIONAL: Final = {
    "messages": (
        "sender_id", "agent", "from_agent", "files", "conversation_id", "claimed_by", "retry_count", "last_error",
        "updated_at",
    ),
    "responses": ("sender_id", "original_message", "agent", "files", "metadata", "acked_at"),
}  # fmt: skip
"""Columns that are missing in some version of the original, or optional in a row."""

_DECLARED: Final = {
    "messages": "id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT NOT NULL UNIQUE, channel TEXT NOT NULL, "
    "sender TEXT NOT NULL, sender_id TEXT, message TEXT NOT NULL, agent TEXT, files TEXT, conversation_id TEXT, "
    "from_agent TEXT, status TEXT NOT NULL DEFAULT 'pending', retry_count INTEGER NOT NULL DEFAULT 0, "
    "last_error TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, claimed_by TEXT, "
    "next_retry_at INTEGER",
    "responses": "id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT NOT NULL, channel TEXT NOT NULL, "
    "sender TEXT NOT NULL, sender_id TEXT, message TEXT NOT NULL, original_message TEXT NOT NULL, agent TEXT, "
    "files TEXT, metadata TEXT, status TEXT NOT NULL DEFAULT 'pending', created_at INTEGER NOT NULL, "
    "acked_at INTEGER",
    "chat_messages": "id INTEGER PRIMARY KEY AUTOINCREMENT, team_id TEXT NOT NULL, from_agent TEXT NOT NULL, "
    "message TEXT NOT NULL, created_at INTEGER NOT NULL",
    "agent_messages": "id INTEGER PRIMARY KEY AUTOINCREMENT, agent_id TEXT NOT NULL, role TEXT NOT NULL, "
    "channel TEXT NOT NULL, sender TEXT NOT NULL, message_id TEXT NOT NULL, content TEXT NOT NULL, "
    "created_at INTEGER NOT NULL",
}

FULL: Final[Rows] = {
    "messages": [
        {
            "id": 3, "message_id": "api_ö1", "channel": "telegram", "sender": "Ada", "sender_id": "42",
            "message": "line one\nline two", "agent": "coder", "from_agent": "tester", "files": '["a.png"]',
            "conversation_id": "c1", "claimed_by": "coder", "status": "completed", "retry_count": 2,
            "last_error": "timeout", "created_at": 1001, "updated_at": 1002,
        },
        {
            "id": 7, "message_id": "api_2", "channel": "web", "sender": "", "sender_id": None, "message": "",
            "agent": None, "from_agent": None, "files": None, "conversation_id": None, "claimed_by": None,
            "status": "dead", "retry_count": 5, "last_error": None, "created_at": 2001, "updated_at": 2002,
        },
        {
            "id": 8, "message_id": "api_3", "channel": "discord", "sender": "Bob", "sender_id": "9",
            "message": "waits", "agent": "coder", "from_agent": None, "files": "[]", "conversation_id": "c1",
            "claimed_by": None, "status": "queued", "retry_count": 1, "last_error": "once", "created_at": 3001,
            "updated_at": 3002,
        },
    ],
    "responses": [
        {
            "id": 2, "message_id": "api_ö1", "channel": "telegram", "sender": "Ada", "sender_id": "42",
            "message": "an answer", "original_message": "line one\nline two", "agent": "coder",
            "files": '["/tmp/b.png"]', "metadata": '{"parseMode":"HTML"}', "status": "acked", "created_at": 1003,
            "acked_at": 1004,
        },
        {
            "id": 5, "message_id": "gone", "channel": "web", "sender": "Bob", "sender_id": None, "message": "late",
            "original_message": "", "agent": None, "files": None, "metadata": None, "status": "pending",
            "created_at": 2003, "acked_at": None,
        },
    ],
    "chat_messages": [{"id": 4, "team_id": "dev", "from_agent": "coder", "message": "hi", "created_at": 5}],
    "agent_messages": [
        {
            "id": 6, "agent_id": "coder", "role": "user", "channel": "telegram", "sender": "Ada",
            "message_id": "api_ö1", "content": "line one", "created_at": 1001,
        },
    ],
}  # fmt: skip
"""A row with a value in every column, and rows with as few values as possible."""

_MESSAGES_0_0_20 = """CREATE TABLE messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT UNIQUE NOT NULL, channel TEXT NOT NULL, sender TEXT NOT NULL,
  sender_id TEXT, message TEXT NOT NULL, agent TEXT, from_agent TEXT, status TEXT NOT NULL DEFAULT 'pending',
  retry_count INTEGER DEFAULT 0, last_error TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL)"""

_MESSAGES_TINYCLAW = """CREATE TABLE messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT UNIQUE NOT NULL, channel TEXT NOT NULL, sender TEXT NOT NULL,
  sender_id TEXT, message TEXT NOT NULL, agent TEXT, files TEXT, conversation_id TEXT, from_agent TEXT,
  status TEXT NOT NULL DEFAULT 'pending', retry_count INTEGER DEFAULT 0, last_error TEXT, created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL, claimed_by TEXT)"""

_RESPONSES = """CREATE TABLE responses (
  id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT NOT NULL, channel TEXT NOT NULL, sender TEXT NOT NULL,
  sender_id TEXT, message TEXT NOT NULL, original_message TEXT NOT NULL, agent TEXT, files TEXT, metadata TEXT,
  status TEXT NOT NULL DEFAULT 'pending', created_at INTEGER NOT NULL, acked_at INTEGER)"""

_RESPONSES_TINYCLAW = """CREATE TABLE responses (
  id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT NOT NULL, channel TEXT NOT NULL, sender TEXT NOT NULL,
  message TEXT NOT NULL, original_message TEXT NOT NULL, agent TEXT, files TEXT,
  status TEXT NOT NULL DEFAULT 'pending', created_at INTEGER NOT NULL, acked_at INTEGER)"""

_CHAT = """CREATE TABLE chat_messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT, team_id TEXT NOT NULL, from_agent TEXT NOT NULL, message TEXT NOT NULL,
  created_at INTEGER NOT NULL)"""

_HISTORY = """CREATE TABLE agent_messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT, agent_id TEXT NOT NULL, role TEXT NOT NULL, channel TEXT NOT NULL,
  sender TEXT NOT NULL, message_id TEXT NOT NULL, content TEXT NOT NULL, created_at INTEGER NOT NULL)"""

_PUT_MESSAGE = """INSERT INTO messages (message_id, channel, sender, message, agent, from_agent, status, retry_count,
  created_at, updated_at) VALUES (?, 'telegram', 'Ada', ?, ?, ?, ?, ?, ?, ?)"""
_PUT_RESPONSE = """INSERT INTO responses (message_id, channel, sender, message, original_message, agent, status,
  created_at, acked_at) VALUES (?, 'telegram', 'Ada', ?, 'q', 'coder', ?, ?, ?)"""


def make_v0_0_20(path: Path) -> None:
    """A TinyAGI v0.0.20 database with rows in every state, and one deleted row at the end."""
    connection = _create(path, (_MESSAGES_0_0_20, _RESPONSES, _CHAT, _HISTORY))
    _fill_messages(connection)
    connection.execute(
        "INSERT INTO chat_messages (team_id, from_agent, message, created_at) VALUES ('dev','coder','hi',5)"
    )
    connection.execute(
        "INSERT INTO agent_messages (agent_id, role, channel, sender, message_id, content, created_at) "
        "VALUES ('coder', 'user', 'telegram', 'Ada', 'm1', 'one', 6)"
    )
    connection.close()


def make_tinyclaw(path: Path) -> None:
    """A TinyClaw database: older columns, `queued` messages, its own log, no rooms and no history."""
    connection = _create(
        path, (_MESSAGES_TINYCLAW, _RESPONSES_TINYCLAW, "CREATE TABLE events (id INTEGER PRIMARY KEY, data TEXT)")
    )
    _fill_messages(connection)
    connection.execute("UPDATE messages SET status = 'queued' WHERE message_id = 'm4'")
    connection.execute(
        "UPDATE messages SET conversation_id = 'c1', files = '[\"a.png\"]' WHERE message_id IN ('m1', 'm2')"
    )
    connection.execute("UPDATE messages SET claimed_by = 'coder' WHERE message_id = 'm5'")
    connection.execute("INSERT INTO events (data) VALUES ('old')")
    connection.close()


def fill_old_queue(
    connection: apsw.Connection,
    lacking: Mapping[str, Collection[str]] | None = None,
    tables: Collection[str] = tuple(FULL),
) -> Rows:
    """Create the original's tables without some of their columns, and return the rows that are in them."""
    stored: Rows = {}
    for table in tables:
        without = (lacking or {}).get(table, ())
        columns = [one for one in _DECLARED[table].split(", ") if one.split()[0] not in without]
        connection.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
        stored[table] = [{name: value for name, value in row.items() if name not in without} for row in FULL[table]]
        for row in stored[table]:
            names, places = ", ".join(row), ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", tuple(row.values()))  # noqa: S608
    return stored


def _create(path: Path, tables: tuple[str, ...]) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    for table in tables:
        connection.execute(table)
    connection.execute("CREATE INDEX idx_messages_status ON messages (status)")
    return connection


def _fill_messages(connection: apsw.Connection) -> None:
    rows = [
        ("m1", "one", "coder", None, "completed", 0),
        ("m2", "two", "tester", "coder", "completed", 0),
        ("m3", "three", "coder", None, "dead", 5),
        ("m4", "@coder four", None, None, "pending", 0),
        ("m5", "five", "coder", None, "processing", 1),
        ("m6", "deleted", "coder", None, "completed", 0),
    ]
    for number, row in enumerate(rows, start=1):
        connection.execute(_PUT_MESSAGE, (*row, 1000 + number, 2000 + number))
    connection.execute("DELETE FROM messages WHERE message_id = 'm6'")
    for answer, status, acked in (("a", "acked", 3000), ("a", "acked", 3001), ("b", "pending", None)):
        connection.execute(_PUT_RESPONSE, ("m1" if answer == "a" else "m2", answer, status, 2500, acked))
