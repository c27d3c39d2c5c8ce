"""The daemon's commands with real processes: start, restart, kill and stop."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from tests.support.log import read_all
from tinyagi.client.client import AsyncClient
from tinyagi.daemon.pidfile import DaemonInfo, DaemonState, find_daemon
from tinyagi.engine.inbox import Incoming
from tinyagi.settings.home import Home
from tinyagi.store.store import Store
from tinyagi.wiring import open_inbox

SECRET = "correct-horse-battery-staple"
QUICK = '[[reply]]\nsay = "done"\n'
SLOW = '[[reply]]\nseconds = 60\nsay = "never"\n'
OTHER = {"OTHER_TOKEN": "another-secret-of-mine"}


class Finished(NamedTuple):
    code: int
    out: str
    err: str


async def tinyagi(home: Home, command: str, *options: str, **environment: str) -> Finished:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tinyagi", command, "--home", str(home.path), *options),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **environment},
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return Finished(process.returncode, out.decode(), err.decode())


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    """A home with one scripted agent and any free port; a daemon left running on it is killed."""
    home = Home(tmp_path / "home")
    home.prepare()
    prepare_home(home)
    (tmp_path / "workspace" / "coder").mkdir(parents=True)
    (tmp_path / "workspace" / "coder" / "script.toml").write_text(QUICK)
    yield home
    left = find_daemon(home)
    if left.is_up and left.process is not None and left.process.is_alive():
        os.kill(left.pid, signal.SIGKILL)


def prepare_home(home: Home, **sections: object) -> None:
    settings = {
        "workspace": {"path": str(home.path.parent / "workspace")},
        "agents": {"coder": {"provider": "scripted"}},
        "queue": {"shutdown_grace_seconds": 5, "kill_grace_seconds": 1, "recover_seconds": 1},
        "server": {"port": 0},
        **sections,
    }
    home.settings_file.write_text(json.dumps(settings), encoding="utf-8")


def script(home: Home, text: str) -> None:
    (home.path.parent / "workspace" / "coder" / "script.toml").write_text(text)


async def until_daemon(home: Home, wanted: Callable[[DaemonInfo], bool]) -> DaemonInfo:
    """Wait until the pid file shows the wanted state."""
    while not wanted(daemon := find_daemon(home)):  # noqa: ASYNC110 - written by another process
        await asyncio.sleep(0.02)
    return daemon


async def until(store: Store, holds: Callable[[Store], Awaitable[bool]]) -> None:
    while True:
        version = store.changes.version
        if await holds(store):
            return
        await store.changes.beyond(version)


async def test_start_restart_status_and_stop(home: Home) -> None:
    started = await tinyagi(home, "start")
    first = find_daemon(home)
    again = await tinyagi(home, "start")
    restarted = await tinyagi(home, "restart")
    second = find_daemon(home)
    status = await tinyagi(home, "status")
    as_json = await tinyagi(home, "status", "--json")
    stopped = await tinyagi(home, "stop")

    assert started.code == 0, started
    assert f"pid {first.pid}" in started.out
    assert str(first.url) in started.out
    assert str(home.logs) in started.out
    assert again.code == 0
    assert f"TinyAGI is already running (pid {first.pid})" in again.out
    assert restarted.code == 0, restarted
    assert second.state is DaemonState.RUNNING
    assert second.pid != first.pid
    assert status.code == 0, status
    assert "@coder" in status.out
    assert json.loads(as_json.out)["pid"] == second.pid
    assert stopped.code == 0
    assert f"(pid {second.pid})" in stopped.out
    assert find_daemon(home) == DaemonInfo(DaemonState.ABSENT)


async def test_commands_report_that_no_daemon_runs(home: Home) -> None:
    stop, status, office = await asyncio.gather(*(tinyagi(home, name) for name in ("stop", "status", "office")))
    as_json = await tinyagi(home, "status", "--json")

    assert (stop.code, "was not running" in stop.out) == (0, True)
    assert (status.code, "Start it with: tinyagi start" in status.err) == (3, True)
    assert (office.code, "not built yet" in office.err) == (1, True)
    assert (as_json.code, json.loads(as_json.out)["running"]) == (3, False)


async def test_concurrent_starts_give_one_daemon(home: Home) -> None:
    results = await asyncio.gather(*(tinyagi(home, "start") for _ in range(3)))

    running = find_daemon(home)
    assert [one.code for one in results] == [0, 0, 0], results
    assert all(f"(pid {running.pid})" in one.out for one in results)
    assert sum("is already running" in one.out for one in results) == 2
    assert len([one for one in psutil.process_iter(["cmdline"]) if str(home.path) in (one.info["cmdline"] or [])]) == 1


async def test_a_second_daemon_in_the_foreground_is_refused(home: Home) -> None:
    await tinyagi(home, "start")

    refused = await tinyagi(home, "run")

    assert refused.code == 1
    assert f"pid {find_daemon(home).pid}" in refused.err
    assert "Traceback" not in refused.err


async def test_a_start_after_a_kill_recovers_every_message(home: Home) -> None:
    script(home, SLOW)
    await tinyagi(home, "start")
    killed = find_daemon(home)
    assert killed.url is not None
    async with open_inbox(home) as (store, inbox):
        for number in range(5):
            await inbox.submit(Incoming(f"work {number}", agent="coder", sender=f"person {number}"))

        async def is_processing(store: Store) -> bool:
            return bool(await store.queue.processing())

        await until(store, is_processing)
        os.kill(killed.pid, signal.SIGKILL)
        await until_daemon(home, lambda daemon: not daemon.is_up)
        script(home, QUICK)
        started = await tinyagi(home, "start")

        async def all_answered(store: Store) -> bool:
            return (await store.queue.depth()).completed == 5

        await until(store, all_answered)
        events = await read_all(store.events)

    assert started.code == 0, started
    assert f"names process {killed.pid}, which is gone; it will be replaced" in started.out
    answers = [event for event in events if event.type == "response_ready"]
    assert len({event.message_id for event in answers}) == len(answers) == 5
    assert any("Recovered" in line for line in (home.logs / "daemon.log").read_text().splitlines())


async def test_stop_never_kills_another_process_with_the_daemons_pid(home: Home) -> None:
    stranger = await asyncio.create_subprocess_exec("sleep", "60")
    home.pid_file.write_text(json.dumps({"pid": stranger.pid, "started": 1.0, "host": "127.0.0.1", "port": 9}))
    try:
        stopped = await tinyagi(home, "stop")
        started = await tinyagi(home, "start")

        assert stopped.code == 0
        assert stranger.returncode is None
        assert "is another program now" in started.out
    finally:
        stranger.kill()
        assert await stranger.wait() == -signal.SIGKILL


async def test_a_restart_through_the_api_keeps_the_process(home: Home) -> None:
    await tinyagi(home, "start")
    before = find_daemon(home)
    assert before.url is not None
    async with AsyncClient(before.url) as client:
        await client.services.restart()
    await until_daemon(home, lambda daemon: daemon.url not in {None, before.url})
    # The address is written once the daemon answers.
    after = find_daemon(home)
    assert after.url is not None
    async with AsyncClient(after.url) as client:
        status = await client.status()

    assert after.pid == before.pid
    assert status.ok
    assert (await tinyagi(home, "stop")).code == 0


async def test_a_taken_port_is_reported_with_the_remedy(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        prepare_home(home, server={"port": taken.getsockname()[1]})
        result = await tinyagi(home, "start")

    assert result.code == 1
    assert "server.port" in result.err
    assert "Traceback" not in result.err
    assert not find_daemon(home).is_up


async def test_a_restart_with_broken_settings_keeps_the_daemon_running(home: Home) -> None:
    await tinyagi(home, "start")
    running = find_daemon(home)
    home.settings_file.write_text("{")

    restart = await tinyagi(home, "restart")

    assert (restart.code, "line 1" in restart.err) == (1, True)
    assert find_daemon(home).pid == running.pid
    assert (await tinyagi(home, "stop")).code == 0


async def test_a_daemon_started_by_an_agent_does_not_belong_to_its_run(home: Home) -> None:
    await tinyagi(home, "start", TINYAGI_RUN=f"{home.home_id}:claim", TINYAGI_AGENT_ID="coder")

    environment = psutil.Process(find_daemon(home).pid).environ()

    assert "TINYAGI_RUN" not in environment
    assert "TINYAGI_AGENT_ID" not in environment
    assert os.getsid(find_daemon(home).pid) == find_daemon(home).pid


async def test_no_log_file_contains_a_secret(home: Home) -> None:
    prepare_home(home, models={"anthropic": {"api_key": SECRET}}, queue={"attempts": 1})
    script(home, f'[[reply]]\nfail = "refused the key {SECRET} and {SECRET[:14]}"\n')
    (home.plugins / "leaky").mkdir()
    (home.plugins / "leaky" / "plugin.py").write_text(
        "import os, sys\n"
        "def activate(ctx):\n"
        f"    print('printed {SECRET}')\n"
        f"    sys.stderr.write('on stderr: ' + os.environ['OTHER_TOKEN'] + '\\n')\n"
        f"    ctx.log.warning('logged %s', {{'key': '{SECRET}'}})\n"
        f"    raise ValueError('raised {SECRET}')\n"
    )
    await tinyagi(home, "start", **OTHER)
    async with open_inbox(home) as (store, inbox):
        await inbox.submit(Incoming(f"my key is {SECRET}", agent="coder"))

        async def is_dead(store: Store) -> bool:
            return (await store.queue.depth()).dead == 1

        await until(store, is_dead)
    await tinyagi(home, "stop")

    written = {path.name: path.read_text() for path in home.logs.iterdir()}
    for name, text in written.items():
        assert SECRET not in text, name
        assert OTHER["OTHER_TOKEN"] not in text, name
    assert "refused the key ••••" in written["queue.log"]
    assert "logged {'key': '••••'}" in written["queue.log"]
    assert "raised ••••" in written["queue.log"]
    assert "printed ••••" in written["daemon.log"]
    assert "on stderr: ••••" in written["daemon.log"]
    assert all(isinstance(json.loads(line), dict) for line in written["queue.log"].splitlines())


async def test_the_logs_are_read_without_a_daemon_and_followed(home: Home) -> None:
    await tinyagi(home, "start")
    await tinyagi(home, "stop")

    last = await tinyagi(home, "logs", "-n", "1")
    unknown = await tinyagi(home, "logs", "nonsense")
    follower = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tinyagi", "logs", "daemon", "-f", "-n", "1", "--json", "--home", str(home.path)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert follower.stdout is not None
    await follower.stdout.readline()
    with (home.logs / "daemon.log").open("a") as file:
        file.write('{"text": "new"}\n')
    followed = await follower.stdout.readline()
    follower.kill()
    await follower.wait()

    assert (last.code, len(last.out.splitlines())) == (0, 1)
    assert (unknown.code, "There are: daemon" in unknown.err) == (1, True)
    assert followed == b'{"text": "new"}\n'
