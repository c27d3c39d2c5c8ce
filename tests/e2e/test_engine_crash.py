"""kill -9 of the real engine while real children run: nothing is lost or repeated, and no child is orphaned."""

import asyncio
import json
import os
import random
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from tests.support.log import read_all
from tinyagi.domain.events import RecordedEvent
from tinyagi.engine.inbox import Incoming
from tinyagi.settings.home import Home
from tinyagi.store.store import Store
from tinyagi.system.processes import ProcessIdentity
from tinyagi.wiring import open_inbox

PEOPLE = ("ada", "grace", "linus", "guido")
AGENTS = ("coder", "writer", "tester")
NEW = 12
"""Messages before each kill: more than the engine finishes until then."""

# Streams a text, works a little, leaves behind a child in a separate session, and answers. Coder hands off every
# second task.
CLAUDE = """\
#!/bin/bash
prompt=$(cat)
setsid sleep 300 >/dev/null 2>&1 </dev/null &
echo '{"type":"assistant","message":{"content":[{"type":"text","text":"I begin."}]}}'
sleep 0.05
task=${prompt##*task }
answer="did $task"
if [ "$TINYAGI_AGENT_ID" = coder ] && [ $((10#$task % 2)) = 0 ]; then answer="[@tester: check task $task]"; fi
echo '{"type":"result","subtype":"success","is_error":false,"result":"'"$answer"'","usage":{"output_tokens":1}}'
"""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [6, pytest.param(30, marks=pytest.mark.soak)])
async def test_an_engine_killed_repeatedly_loses_and_repeats_nothing(tmp_path: Path, kills: int) -> None:
    home, dice = _prepare_home(tmp_path), random.Random(11)
    async with open_inbox(home) as (store, inbox):
        for first in range(0, kills * NEW, NEW):
            for number in range(first, first + NEW):
                agent, person = AGENTS[number % 3], PEOPLE[number // 3 % len(PEOPLE)]
                text = f"task {number // 3}"
                await inbox.submit(Incoming(text, agent=agent, sender=person, message_id=f"api_{number:08d}"))
            async with _engine(home, tmp_path / "bin") as engine:
                await _until_running(store)
                await asyncio.sleep(dice.random() * 0.2)
                engine.kill()
                await engine.wait()
        async with _engine(home, tmp_path / "bin") as engine:
            await _until_drained(store)
            engine.send_signal(signal.SIGTERM)
            await engine.wait()
        events = await read_all(store.events)

    _assert_nothing_lost_or_repeated(events, kills * NEW)
    _assert_threads_in_order(events)
    assert Counter(event.type for event in events)["message_recovered"] > 0, "no kill hit a run"
    assert _children_of(home) == []


def _assert_nothing_lost_or_repeated(events: list[RecordedEvent], sent: int) -> None:
    received = [event.payload["message"] for event in events if event.type == "message_received"]
    answers = Counter(
        event.message_id for event in events if event.type == "response_ready" and event.payload["response"]["seq"] == 0
    )
    handed = Counter(message["parent_message_id"] for message in received if message["parent_message_id"])
    expected = sum(number % 3 == 0 and number // 3 % 2 == 0 for number in range(sent))

    assert not [event for event in events if event.type == "message_dead"]
    assert len(received) == sent + expected
    assert answers == Counter(message["message_id"] for message in received)
    assert len(handed) == expected
    assert set(handed.values()) == {1}


def _assert_threads_in_order(events: list[RecordedEvent]) -> None:
    place = {
        event.payload["message"]["id"]: (event.payload["message"]["agent"], event.payload["message"]["thread"])
        for event in events
        if event.type == "message_received"
    }
    threads: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for event in events:
        if event.type == "chain_step_done":
            for number in event.payload["ids"]:
                threads[place[number]].append(number)

    assert all(numbers == sorted(numbers) for numbers in threads.values())


def _prepare_home(folder: Path) -> Home:
    home = Home(folder / "home")
    home.prepare()
    settings = {
        "workspace": {"path": str(folder / "workspace")},
        "agents": {agent: {"name": agent, "provider": "anthropic"} for agent in AGENTS},
        "teams": {"dev": {"name": "Dev", "agents": list(AGENTS), "leader_agent": "coder"}},
        # Each crash uses an attempt, and one message may see many crashes here.
        "queue": {"attempts": 1000, "recover_seconds": 0.1, "kill_grace_seconds": 0.5},
        "limits": {"agent_messages_per_minute": 1000},
        "monitoring": {"heartbeat_interval": 0},
        "server": {"port": 0},
    }
    home.settings_file.write_text(json.dumps(settings), encoding="utf-8")
    program = folder / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(CLAUDE, encoding="utf-8")
    program.chmod(0o700)
    return home


@asynccontextmanager
async def _engine(home: Home, programs: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    command = (sys.executable, "-m", "tinyagi", "run", "--home", str(home.path), "--quiet")
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, env=environment, stderr=quiet)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _until_running(store: Store) -> None:
    """Wait until a live engine runs a message."""
    while True:
        seen = store.changes.version
        lanes = await store.lanes.all()
        if any(lane.owner and ProcessIdentity.parse(lane.owner).is_alive() for lane in lanes):
            return
        if await _is_drained(store):
            return
        await store.changes.beyond(seen)


async def _is_drained(store: Store) -> bool:
    depth = await store.queue.depth()
    return depth.pending == depth.processing == 0


async def _until_drained(store: Store) -> None:
    while True:
        seen = store.changes.version
        if await _is_drained(store):
            return
        await store.changes.beyond(seen)


def _children_of(home: Home) -> list[psutil.Process]:
    mark = f"{home.home_id}:"
    return [process for process in psutil.process_iter() if _run_of(process).startswith(mark)]


def _run_of(process: psutil.Process) -> str:
    try:
        return process.environ().get("TINYAGI_RUN", "")
    except psutil.Error:
        return ""
