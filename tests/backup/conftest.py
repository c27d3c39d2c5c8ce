"""Homes with every kind of file, and fingerprints to compare them."""

import asyncio
import hashlib
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import CODER
from tinyagi.backup.create import Created, create
from tinyagi.domain.messages import NewMessage
from tinyagi.settings.home import Home
from tinyagi.store.store import Store

NOW = 1_794_971_700_000
FILES = {
    "service.env": "KEY=secret\n",
    "erasures.key": "k" * 32,
    "migrated.json": "{}",
    "files/note.txt": "an attachment",
    "chats/dev/one.md": "# Conversation",
    "plugins/greeter/plugin.py": "x = 1\n",
}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with three messages, a file of every kind and a workspace."""
    home = Home(tmp_path / "home")
    prepare_home(home, tmp_path / "workspaces")
    return home


def prepare_home(home: Home, workspaces: Path) -> None:
    home.prepare()
    settings = {
        "workspace": {"path": str(workspaces)},
        "agents": {"coder": {"provider": "scripted"}},
        "server": {"port": 0, "token": "correct-horse-battery"},
    }
    home.settings_file.write_text(json.dumps(settings))
    for name, text in FILES.items():
        path = home.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    skills = workspaces / "coder" / ".agents" / "skills"
    skills.mkdir(parents=True)
    (skills / "SKILL.md").write_text("read this")
    (workspaces / "coder" / "run.sh").write_text("#!/bin/sh\n")
    (workspaces / "coder" / "run.sh").chmod(0o755)
    (workspaces / "coder" / "empty").mkdir()
    (workspaces / "coder" / ".claude").mkdir()
    (workspaces / "coder" / ".claude" / "skills").symlink_to("../.agents/skills")
    add_messages(home, "one", "two", "three")


def add_messages(home: Home, *texts: str) -> None:
    async def add() -> None:
        async with await Store.open(home.database) as store:
            for text in texts:
                await store.queue.enqueue(NewMessage(text, CODER, sender="Ada"))

    asyncio.run(add())


def create_backup(home: Home, **options: Any) -> Created:
    return create(home, now=NOW, **options)


def messages(home: Home) -> list[str]:
    with closing(sqlite3.connect(home.database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return [row[0] for row in connection.execute("SELECT message FROM messages ORDER BY id")]


def state(folder: Path) -> dict[str, str]:
    """Every file, folder and link below the folder, with its mode and a hash of its content."""
    return {str(path.relative_to(folder)): _fingerprint(path) for path in sorted(folder.rglob("*"))}


def without_database(folder: Path) -> dict[str, str]:
    return {name: content for name, content in state(folder).items() if not name.startswith("tinyagi.db")}


def destroy(home: Home) -> None:
    """Damage or delete the database, the settings and the files."""
    home.database.write_bytes(b"garbage")
    home.settings_file.unlink()
    shutil.rmtree(home.files)


def _fingerprint(path: Path) -> str:
    if path.is_symlink():
        return f"link to {path.readlink()}"
    mode = f"{path.stat().st_mode:o}"
    return f"{mode} {hashlib.sha256(path.read_bytes()).hexdigest()}" if path.is_file() else mode
