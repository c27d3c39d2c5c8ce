"""Backups of a running home, and restores into another home and after a crash."""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.test_daemon import QUICK, SLOW, Finished, home, prepare_home, script, tinyagi, until
from tinyagi.backup.manifest import ENTRIES
from tinyagi.daemon.pidfile import find_daemon
from tinyagi.engine.inbox import Incoming
from tinyagi.settings.home import Home
from tinyagi.store.store import Store
from tinyagi.wiring import open_inbox

__all__ = ["home"]

NOT_BACKED_UP = {"backups", "logs", "lake", "tinyagi.pid", "tinyagi.db-wal", "tinyagi.db-shm"}
DYING = """
import os, signal, sys
place = sys.argv.pop()
def step(event, arguments):
    if event == "os.rename" and str(arguments[0]).endswith(place):
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(step)
from tinyagi.cli.main import main
main()
"""


async def backup(home: Home, *arguments: str, dies_at: str | None = None) -> Finished:
    program = ("-m", "tinyagi") if dies_at is None else ("-c", DYING)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *program, "--home", str(home.path), "backup", *arguments),
        *(() if dies_at is None else (dies_at,)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return Finished(process.returncode, out.decode(), err.decode())


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[Home]:
    """A home that does not exist yet; a daemon left running on it is killed."""
    other = Home(tmp_path / "other")
    yield other
    left = find_daemon(other)
    if left.is_up:
        os.kill(left.pid, signal.SIGKILL)


async def processing(store: Store) -> bool:
    return bool(await store.queue.processing())


async def one_completed(store: Store) -> bool:
    return (await store.queue.depth()).completed == 1


async def two_completed(store: Store) -> bool:
    return (await store.queue.depth()).completed == 2


async def test_a_backup_of_a_running_home_continues_in_another_home(home: Home, other: Home) -> None:
    script(home, SLOW)
    assert (await tinyagi(home, "start")).code == 0
    async with open_inbox(home) as (store, inbox):
        for number in range(2):
            await inbox.submit(Incoming(f"work {number}", agent="coder", sender=f"person {number}"))
        await until(store, processing)

        created = await backup(home, "create", "--json")
        refused = await backup(home, "restore", "none.zip", "--yes")
        path = json.loads(created.out)["path"]
        running = await backup(home, "restore", path, "--yes")

    entries = {entry.name for entry in home.path.iterdir() if not entry.name.startswith(".")}
    assert entries <= {*ENTRIES, *NOT_BACKED_UP, "tinyagi.db"}, "every entry is backed up or listed in NOT_BACKED_UP"
    assert created.code == 0, created
    assert (refused.code, running.code) == (1, 1)
    assert f"is already running on {home.path} (pid {find_daemon(home).pid}" in running.err

    script(home, QUICK)
    restored = await backup(home, "restore", path, "--to", str(other.path))
    assert restored.code == 0, restored
    # The first daemon still works on its run; this home starts its copy of that run again.
    started = await tinyagi(other, "start")
    assert started.code == 0, started
    async with open_inbox(other) as (store, _):
        await until(store, two_completed)


async def test_the_next_start_completes_an_interrupted_restore(home: Home) -> None:
    async with open_inbox(home) as (_, inbox):
        await inbox.submit(Incoming("before", agent="coder"))
    path = json.loads((await backup(home, "create", "--json")).out)["path"]
    prepare_home(home, agents={})
    shutil.rmtree(home.files)

    # Killed after the old database was moved away and before the new one was moved in.
    killed = await backup(home, "restore", path, "--yes", dies_at=".restore.new/tinyagi.db")
    assert killed.code == -signal.SIGKILL
    assert not home.database.exists()
    examined = await tinyagi(home, "doctor")
    started = await tinyagi(home, "start")

    assert "was interrupted" in examined.out
    assert started.code == 0, started
    assert home.database.exists()
    assert not home.restore_journal.exists()
    assert "it is complete now" in (home.logs / "daemon.log").read_text()
    assert "coder" in json.loads(home.settings_file.read_text())["agents"]
    async with open_inbox(home) as (store, _):
        await until(store, one_completed)
