"""`tinyagi run` as a real process: first run, signals, broken settings and leftover children."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from tests.support.log import read_all
from tests.support.ports import free_port
from tinyagi.domain.ids import AgentId
from tinyagi.engine.inbox import Incoming
from tinyagi.settings.home import Home
from tinyagi.store.store import Store
from tinyagi.wiring import open_inbox

SLOW = '[[reply]]\nseconds = 60\nsay = "done"\n'
HANGING_CLAUDE = '#!/bin/sh\necho $$ > "$TINYAGI_HOME/child.pid"\nexec sleep 300\n'


@asynccontextmanager
async def running(home: Home, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tinyagi",
        "run",
        "--home",
        str(home.path),
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **environment},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def read_until(process: asyncio.subprocess.Process, text: str) -> str:
    """Read stderr until this text appears."""
    assert process.stderr is not None
    heard = ""
    while text not in heard:
        line = await process.stderr.readline()
        assert line, f"it ended without printing {text!r}: {heard}"
        heard += line.decode()
    return heard


def prepare_home(folder: Path, **agent: object) -> Home:
    home = Home(folder / "home")
    home.prepare()
    settings = {
        "workspace": {"path": str(folder / "workspace")},
        "agents": {"coder": {"name": "Coder", "provider": "scripted", **agent}},
        "queue": {"shutdown_grace_seconds": 30, "kill_grace_seconds": 1},
        "monitoring": {"heartbeat_interval": 0},
        "server": {"port": 0},
    }
    home.settings_file.write_text(json.dumps(settings), encoding="utf-8")
    (folder / "workspace" / "coder").mkdir(parents=True)
    (folder / "workspace" / "coder" / "script.toml").write_text(SLOW, encoding="utf-8")
    return home


async def until_processing(store: Store) -> None:
    while True:
        seen = store.changes.version
        if await store.queue.processing():
            return
        await store.changes.beyond(seen)


async def test_the_first_run_creates_a_home_and_reports_its_provider(tmp_path: Path) -> None:
    home = Home(tmp_path / "new")
    # No agent program and no key: those of this machine are hidden.
    bare = {"PATH": str(tmp_path), "HOME": str(tmp_path), "ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": ""}
    bare["TINYAGI_API_PORT"] = str(free_port())
    async with running(home, **bare) as process:
        heard = " ".join((await read_until(process, "Ctrl-C stops it")).split())
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0

    assert "scripted" in heard
    assert json.loads(home.settings_file.read_text())["agents"]["tinyagi"]["provider"] == "scripted"
    assert home.settings_file.stat().st_mode & 0o077 == 0


async def test_broken_settings_are_reported_with_the_line(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.prepare()
    home.settings_file.write_text('{"agents": {,}}')
    async with running(home) as process:
        _, errors = await process.communicate()

    assert process.returncode == 1
    assert b"line 1" in errors
    assert b"Traceback" not in errors
    assert home.settings_file.read_text() == '{"agents": {,}}'


async def test_a_public_address_needs_a_token(tmp_path: Path) -> None:
    async with running(prepare_home(tmp_path), TINYAGI_API_HOST="0.0.0.0", TINYAGI_API_TOKEN="") as process:  # noqa: S104
        _, errors = await process.communicate()

    assert process.returncode == 1
    assert b"there is no token. Make one with `tinyagi token`" in errors
    assert b"Traceback" not in errors


async def test_a_daemon_started_by_an_agent_outlives_the_agents_run(tmp_path: Path) -> None:
    home = prepare_home(tmp_path)
    async with running(home, TINYAGI_RUN=f"{home.home_id}:no-such-claim", TINYAGI_AGENT_ID="coder") as process:
        # Before this line it kills leftovers of runs: itself, if it still carried their mark.
        await read_until(process, "Ctrl-C stops it")
        marks = psutil.Process(process.pid).environ()

    assert not {"TINYAGI_RUN", "TINYAGI_AGENT_ID"} & marks.keys()


async def test_a_second_signal_releases_the_current_run(tmp_path: Path) -> None:
    home = prepare_home(tmp_path)
    async with running(home) as process, open_inbox(home) as (store, inbox):
        await inbox.submit(Incoming("work", agent="coder"))
        await until_processing(store)
        process.send_signal(signal.SIGTERM)
        await read_until(process, "Finishing the current runs")
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0

        events = await read_all(store.events)
        (message,) = [event for event in events if event.type == "message_released"]
        depth = await store.queue.depth()

    assert message.payload["reason"] == "the engine stops"
    assert (depth.pending, depth.processing) == (1, 0)
    assert events[-1].type == "processor_stop"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_no_child_outlives_the_engine_and_the_next_start(tmp_path: Path, number: signal.Signals) -> None:
    home = prepare_home(tmp_path, provider="anthropic")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "claude").write_text(HANGING_CLAUDE)
    (programs / "claude").chmod(0o700)
    path = {"PATH": f"{programs}:{os.environ['PATH']}"}
    settings = json.loads(home.settings_file.read_text())
    settings["queue"]["shutdown_grace_seconds"] = 0
    home.settings_file.write_text(json.dumps(settings))
    async with open_inbox(home) as (store, inbox):
        async with running(home, **path) as process:
            await inbox.submit(Incoming("work", agent="coder"))
            child = await _child(home)
            process.send_signal(number)
            await process.wait()
        # The next engine kills leftover children before the message runs again.
        await store.lanes.pause(AgentId("coder"))
        async with running(home, **path) as process:
            await read_until(process, "Ctrl-C stops it")

            assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


async def _child(home: Home) -> psutil.Process:
    file = home.path / "child.pid"
    while not file.exists() or not file.read_text().strip():  # noqa: ASYNC110 - written by another process
        await asyncio.sleep(0.01)
    return psutil.Process(int(file.read_text()))
