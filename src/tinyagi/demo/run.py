"""Runs the demo in a new home: an engine process, kill -9 in the middle, a second engine, then the lake."""

import asyncio
import json
import signal
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tinyagi.daemon.control import start_daemon
from tinyagi.demo.scenario import DEMO_MESSAGES, DEMO_SCRIPTS, DEMO_SETTINGS
from tinyagi.demo.story import Story, read_log, story_of
from tinyagi.domain.errors import InvalidInput, TinyAGIError
from tinyagi.domain.ids import ConversationId
from tinyagi.domain.traces import TracedMessage
from tinyagi.engine.inbox import Inbox, Incoming
from tinyagi.server.http import bind
from tinyagi.settings.environment import LOOPBACK, PORT_NAMES, TOKEN_NAME, api_port, snapshot
from tinyagi.settings.home import Home
from tinyagi.settings.settings_file import SettingsFile
from tinyagi.store.store import Store
from tinyagi.system.clock import wall_clock
from tinyagi.wiring import open_inbox

if TYPE_CHECKING:
    from tinyagi.pipeline.progress import Progress, Summary
    from tinyagi.pipeline.report.model import Report

OnStep = Callable[[str], None]
"""Called with a line about the current step."""


class DemoFailed(TinyAGIError):
    """The engine process ended too early."""


@dataclass(frozen=True, slots=True)
class Archived:
    """The demo as read from the lake."""

    summary: "Summary"
    report: "Report"
    longest: tuple[TracedMessage, ...]
    """The conversation with the slowest chain of messages."""


def home_in(folder: Path) -> Home:
    return Home(folder / "home")


async def run_scenario(folder: Path, progress: OnStep) -> Story:
    """Run every message of the scenario to its end and return the story."""
    home = home_in(folder)
    _write_home(home, folder / "workspace")
    async with open_inbox(home) as (store, inbox):
        started = time.monotonic()
        progress("the engine starts")
        async with _engine(home) as first:
            await _send(inbox, progress)
            await _until_running(store, first, "coder", "build the login form")
            progress("kill -9 while coder works and others wait")
            first.send_signal(signal.SIGKILL)
            await first.wait()
        async with _engine(home) as second:
            progress("a second engine takes over")
            await _until_done(store, second, progress)
            seconds = time.monotonic() - started
            second.send_signal(signal.SIGTERM)
            await second.wait()
        return story_of(await read_log(store), seconds)


def keep_running(home: Home) -> str:
    """Start a daemon on the demo's home and return its address: the usual port, or any free one if that is taken."""
    port = api_port(snapshot())
    SettingsFile(home).update({"server": {"port": port if _is_free(port) else 0}})
    daemon = start_daemon(home, _environment(), token=None).daemon
    if daemon.url is None:
        raise DemoFailed(f"The daemon has no address; see {home.logs}.")
    return daemon.url


async def archive(home: Home, progress: "Progress") -> Archived:
    """Run the pipeline on the demo's events and read the lake as the API does."""
    # Heavy imports.
    from tinyagi.lake_service import LakeService  # noqa: PLC0415
    from tinyagi.pipeline.lake import Lake  # noqa: PLC0415
    from tinyagi.pipeline.report.read_report import read_report  # noqa: PLC0415
    from tinyagi.pipeline.serve.archive import LakeArchive  # noqa: PLC0415

    summary = await asyncio.to_thread(LakeService(home).run, progress)
    report = await asyncio.to_thread(read_report, Lake(home.lake), days=1, now=wall_clock())
    longest = ConversationId(report.slowest[0].conversation_id)
    return Archived(summary, report, await LakeArchive(home.lake).conversation(longest))


def _is_free(port: int) -> bool:
    try:
        bind(LOOPBACK, port).close()
    except InvalidInput:
        return False
    return True


def _environment() -> dict[str, str]:
    """This environment without the port and the token of the user's own installation."""
    return {name: value for name, value in snapshot().items() if name not in {*PORT_NAMES, TOKEN_NAME}}


def _write_home(home: Home, workspace: Path) -> None:
    home.prepare()
    settings = {**DEMO_SETTINGS, "workspace": {"path": str(workspace)}}
    home.settings_file.write_text(json.dumps(settings, indent=2), encoding="utf-8")
    for agent, script in DEMO_SCRIPTS.items():
        (workspace / agent).mkdir(parents=True)
        (workspace / agent / "script.toml").write_text(script, encoding="utf-8")


async def _send(inbox: Inbox, progress: OnStep) -> None:
    for message in DEMO_MESSAGES:
        progress(f"{message.sender} writes on {message.channel}")
        await inbox.submit(Incoming(message.text, channel=message.channel, sender=message.sender))


async def _until_running(store: Store, engine: Process, agent: str, text: str) -> None:
    """Wait until the agent runs the message with this text: a crash between two runs would prove little."""
    while True:
        seen = store.changes.version
        if any(message.agent == agent and text in message.message for message in await store.queue.processing()):
            return
        await _wait_for_change(store, seen, engine)


async def _until_done(store: Store, engine: Process, progress: OnStep) -> None:
    while True:
        seen = store.changes.version
        depth = await store.queue.depth()
        if depth.pending == depth.processing == 0:
            return
        progress(f"{depth.completed} done, {depth.processing} running, {depth.pending} waiting")
        await _wait_for_change(store, seen, engine)


async def _wait_for_change(store: Store, seen: int, engine: Process) -> None:
    """Wait for a change in the store; raise DemoFailed when the engine has ended."""
    change, end = asyncio.ensure_future(store.changes.beyond(seen)), asyncio.ensure_future(engine.wait())
    await asyncio.wait([change, end], return_when=asyncio.FIRST_COMPLETED)
    for future in (change, end):
        future.cancel()
    if end.done() and not end.cancelled():
        raise DemoFailed(f"The engine ended with exit code {end.result()} in the middle of the demo.")


@asynccontextmanager
async def _engine(home: Home) -> AsyncIterator[Process]:
    """An engine process, killed at the end of the block if it still runs."""
    command = (sys.executable, "-m", "tinyagi", "run", "--home", str(home.path), "--quiet")
    # The story at the end shows the engine's warnings, so they do not go to the terminal.
    output = home.logs / "demo.out"
    output.touch(mode=0o600)
    with output.open("ab") as log:
        process = await asyncio.create_subprocess_exec(*command, stderr=log, env=_environment())
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
