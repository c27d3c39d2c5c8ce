"""Plays the demo: a home of its own, the engine as a real process, kill -9 in the middle, and another engine."""

import asyncio
import json
import signal
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tinyagi.daemon.starting import start
from tinyagi.demo.report import Story, read_log, tell
from tinyagi.demo.scenario import LETTERS, SCRIPTS, SETTINGS
from tinyagi.domain.errors import InvalidInput, TinyAGIError
from tinyagi.engine.inbox import Inbox, Incoming
from tinyagi.server.http import bind
from tinyagi.settings.document import Document
from tinyagi.settings.environment import DEFAULT_PORT, PORT_NAMES, TOKEN_NAME, snapshot
from tinyagi.settings.home import Home
from tinyagi.settings.server import LOOPBACK
from tinyagi.store.base import Store
from tinyagi.wiring import open_inbox

Progress = Callable[[str], None]
"""Called with what is going on."""


class DemoFailed(TinyAGIError):
    """The engine process ended when it should not have."""


def home_in(folder: Path) -> Home:
    return Home(folder / "home")


async def play(folder: Path, progress: Progress) -> Story:
    """Play every letter to its end and tell what happened."""
    home = home_in(folder)
    _furnish(home, folder / "workspace")
    async with open_inbox(home) as (store, inbox):
        began = time.monotonic()
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
            seconds = time.monotonic() - began
            second.send_signal(signal.SIGTERM)
            await second.wait()
        return tell(await read_log(store), seconds)


def stay(home: Home) -> str:
    """Leave the company at work, with its API on the usual port if that is free, and return its address."""
    port = DEFAULT_PORT if _is_free(DEFAULT_PORT) else 0
    Document(home).update({"server": {"port": port}})
    started = start(home, _environment(), token=None).daemon
    if started.url is None:
        raise DemoFailed(f"The daemon does not say where it is; see {home.logs}.")
    return started.url


def _is_free(port: int) -> bool:
    try:
        bind(LOOPBACK, port).close()
    except InvalidInput:
        return False
    return True


def _environment() -> dict[str, str]:
    """Without what is meant for an installation of one's own."""
    return {name: value for name, value in snapshot().items() if name not in {*PORT_NAMES, TOKEN_NAME}}


def _furnish(home: Home, workspace: Path) -> None:
    home.prepare()
    settings = {**SETTINGS, "workspace": {"path": str(workspace)}}
    home.settings_file.write_text(json.dumps(settings, indent=2), encoding="utf-8")
    for agent, script in SCRIPTS.items():
        (workspace / agent).mkdir(parents=True)
        (workspace / agent / "script.toml").write_text(script, encoding="utf-8")


async def _send(inbox: Inbox, progress: Progress) -> None:
    for letter in LETTERS:
        progress(f"{letter.sender} writes on {letter.channel}")
        await inbox.submit(Incoming(letter.text, channel=letter.channel, sender=letter.sender))


async def _until_running(store: Store, engine: Process, agent: str, text: str) -> None:
    """Wait until the agent is in the middle of this piece of work: a crash between two runs would prove little."""
    while True:
        seen = store.changes.version
        if any(message.agent == agent and text in message.message for message in await store.queue.processing()):
            return
        await _change(store, seen, engine)


async def _until_done(store: Store, engine: Process, progress: Progress) -> None:
    while True:
        seen = store.changes.version
        depth = await store.queue.depth()
        if depth.pending == depth.processing == 0:
            return
        progress(f"{depth.completed} done, {depth.processing} running, {depth.pending} waiting")
        await _change(store, seen, engine)


async def _change(store: Store, seen: int, engine: Process) -> None:
    """Wait until the store has changed; raise DemoFailed when nobody is left who could change it."""
    change, end = asyncio.ensure_future(store.changes.beyond(seen)), asyncio.ensure_future(engine.wait())
    await asyncio.wait([change, end], return_when=asyncio.FIRST_COMPLETED)
    for waiting in (change, end):
        waiting.cancel()
    if end.done() and not end.cancelled():
        raise DemoFailed(f"The engine ended with exit code {end.result()} in the middle of the demo.")


@asynccontextmanager
async def _engine(home: Home) -> AsyncIterator[Process]:
    """The engine as a process of its own, ended with the block whatever happens."""
    command = (sys.executable, "-m", "tinyagi", "run", "--home", str(home.path), "--quiet")
    # Its warnings are part of the plot: they are in the story that is told at the end.
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
