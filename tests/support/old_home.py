"""Homes of the original program: its files under its names, with a few invalid entries."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from tests.support.legacy import make_tinyclaw, make_v0_0_20

TOKEN: Final = "123456:telegram-token-of-the-old-home"
KEY: Final = "sk-key-of-the-old-home-0123456789"

SETTINGS: Final[dict[str, object]] = {
    "workspace": {"path": "/srv/old-workspace", "name": "old-workspace"},
    "channels": {
        "enabled": ["telegram"],
        "discord": {"bot_token": ""},
        "telegram": {"bot_token": TOKEN},
        "whatsapp": {},
        "defaults": {"telegram:42": {"agentId": "coder"}},
    },
    "models": {"provider": "anthropic", "anthropic": {"model": "opus", "auth_token": KEY}},
    "agents": {
        "coder": {
            "name": "Coder",
            "provider": "anthropic",
            "model": "sonnet",
            "working_directory": "/srv/old-workspace/coder",
            "heartbeat": {"enabled": False, "interval": 900},
        },
        "tester": {"name": "Tester", "provider": "openai", "model": "gpt-5.3-codex", "working_directory": ""},
        "painter": {"name": "Painter", "provider": "google", "model": "gemini-2.5-flash", "mood": "blue"},
        "Bad Id": {"name": "Nobody", "provider": "anthropic", "model": "opus"},
    },
    "teams": {
        "dev": {"name": "Developers", "agents": ["coder", "tester", "gone"], "leader_agent": "coder"},
        "ghosts": {"name": "Ghosts", "agents": ["gone"], "leader_agent": "gone"},
    },
    "monitoring": {"heartbeat_interval": 1800},
    "pairing": {"enabled": True},
    "house_rules": {"tea": ["at", "five"]},
}

SCHEDULES: Final[list[dict[str, object]]] = [
    {
        "id": "1-a", "label": "standup", "cron": "0 9 * * 1-5", "agentId": "coder", "message": "What is next?",
        "channel": "schedule", "sender": "Scheduler", "enabled": True, "createdAt": 1_700_000_000_000,
    },
    {"id": "2-b", "label": "later", "cron": "", "agentId": "dev", "message": "Once", "runAt": "2999-01-01T10:00:00Z"},
    {"id": "3-c", "label": "missed", "cron": "", "agentId": "coder", "message": "Late", "runAt": "2024-01-01T10:00Z"},
    {"id": "4-d", "label": "orphan", "cron": "* * * * *", "agentId": "gone", "message": "Hello?"},
    {"id": "5-e", "label": "seconds", "cron": "*/5 * * * * *", "agentId": "coder", "message": "Six fields"},
    {"id": "6-f", "label": "standup", "cron": "0 10 * * *", "agentId": "coder", "message": "The same label"},
]  # fmt: skip

PAIRING: Final[dict[str, object]] = {
    "pending": [{"channel": "telegram", "senderId": "7", "sender": "Eve", "code": "ABCDEFGH", "createdAt": 1}],
    "approved": [
        {"channel": "telegram", "senderId": "42", "sender": "Ada", "approvedAt": 5, "approvedCode": "HGFEDCBA"},
        {"channel": "discord", "sender_id": 99, "sender": "Bob", "approved_at": "2026-01-01T00:00:00Z"},
        {"channel": "telegram", "senderId": "42", "sender": "Ada again", "approvedAt": 6},
        {"channel": "telegram"},
    ],
}

_BOARD: Final = """
CREATE TABLE projects (id TEXT PRIMARY KEY, name TEXT NOT NULL, description TEXT NOT NULL DEFAULT '',
  prefix TEXT NOT NULL DEFAULT '', color TEXT NOT NULL DEFAULT '#6366f1', status TEXT NOT NULL DEFAULT 'active',
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL);
CREATE TABLE tasks (id TEXT PRIMARY KEY, number INTEGER NOT NULL DEFAULT 0, title TEXT NOT NULL,
  description TEXT NOT NULL DEFAULT '', status TEXT NOT NULL DEFAULT 'backlog', assignee TEXT NOT NULL DEFAULT '',
  assignee_type TEXT NOT NULL DEFAULT '', project_id TEXT, sort_order INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
  FOREIGN KEY (project_id) REFERENCES projects(id) ON DELETE SET NULL);
CREATE TABLE comments (id TEXT PRIMARY KEY, task_id TEXT NOT NULL, author TEXT NOT NULL,
  author_type TEXT NOT NULL DEFAULT 'user', content TEXT NOT NULL, created_at INTEGER NOT NULL,
  FOREIGN KEY (task_id) REFERENCES tasks(id) ON DELETE CASCADE);
INSERT INTO projects VALUES
  ('proj_1', 'System design', 'Boxes and arrows', 'SD', '#8b5cf6', 'active', 100, 100),
  ('proj_2', 'Site docs', '', 'SD', '#ec4899', 'archived', 200, 200);
INSERT INTO tasks VALUES
  ('task_1', 2, 'Draw the boxes', 'All of them', 'in_progress', 'coder', 'agent', 'proj_1', 1, 110, 120),
  ('task_2', 5, 'Draw the arrows', '', 'in_progress', 'dev', 'team', 'proj_1', 0, 111, 121),
  ('task_3', 1, 'Write it down', '', 'done', 'gone', 'agent', 'proj_2', 0, 210, 210),
  ('task_4', 3, 'Water the plants', '', 'someday', '', '', NULL, 0, 50, 50);
INSERT INTO comments VALUES
  ('cmt_1', 'task_1', 'coder', 'agent', 'Half done', 130),
  ('cmt_2', 'task_1', 'Ada', 'user', 'Hurry', 140);
"""


def make_old_home(path: Path, *, tinyclaw: bool = False) -> Path:
    """A home with everything that is imported, and a stale pid file."""
    path.mkdir(parents=True)
    write_json(path / "settings.json", SETTINGS)
    write_json(path / "schedules.json", SCHEDULES)
    write_json(path / "pairing.json", PAIRING)
    make_board(path / "tasks.db")
    if tinyclaw:
        make_tinyclaw(path / "tinyclaw.db")
    else:
        make_v0_0_20(path / "tinyagi.db")
    for name, content in {
        "files/report.pdf": b"%PDF",
        "channels/whatsapp-session/Default/state": b"\x00\x01",
        "chats/dev/2026-01-01.md": b"# Monday\n",
    }.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    (path / "tinyagi.pid").write_text("999999999\n")
    return path


def make_board(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(_BOARD)


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")


def contents(folder: Path) -> dict[str, bytes | str]:
    """Every file below a folder with its bytes, every link with its target, every folder."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        else:
            found[name] = "a folder" if path.is_dir() else path.read_bytes()
    return found
