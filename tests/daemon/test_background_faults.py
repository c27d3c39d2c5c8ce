"""A fault thrown into each background task: the task recovers, and status, doctor and the log name it."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import ADAPTERS
from tests.engine.test_archiving import FakePipeline
from tests.server.conftest import Premises
from tinyagi import wiring
from tinyagi.daemon.doctor.examination import load_context
from tinyagi.daemon.doctor.findings import Finding, Level
from tinyagi.daemon.doctor.server import daemon
from tinyagi.daemon.pidfile import hold_pid_file
from tinyagi.settings.effective import EffectiveSettingsCache
from tinyagi.settings.home import Home
from tinyagi.settings.live import LiveSettings
from tinyagi.store.store import Store

MOMENT = timedelta(milliseconds=10)
PLUGIN = 'def activate(ctx):\n    ctx.on("*", lambda event: None)\n'


@dataclass
class Fault:
    """Fails every call of the store by the task of this name while it is on."""

    task: str
    is_on: bool = False
    failures: int = 0
    failed_twice: asyncio.Event = field(default_factory=asyncio.Event)
    passed: asyncio.Event = field(default_factory=asyncio.Event)

    def check(self) -> None:
        task = asyncio.current_task()
        if task is None or task.get_name() != self.task:
            return
        if not self.is_on:
            self.passed.set()
            return
        self.failures += 1
        if self.failures == 2:
            self.failed_twice.set()
        raise ZeroDivisionError("thrown by the test")


class FaultyPort:
    """A port of the store that checks the fault before each call."""

    def __init__(self, port: Any, fault: Fault) -> None:
        self._port = port
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def call(*arguments: Any, **options: Any) -> Any:
            self._fault.check()
            return await found(*arguments, **options)

        return call


class FaultyStore:
    PORTS = ("queue", "lanes", "responses", "events", "schedules")

    def __init__(self, store: Store, fault: Fault) -> None:
        self._store = store
        self._ports = {name: FaultyPort(getattr(store, name), fault) for name in self.PORTS}

    def __getattr__(self, name: str) -> Any:
        return self._ports.get(name) or getattr(self._store, name)


@dataclass
class BusyPremises(Premises):
    """Premises with every background task: a heartbeat, a pipeline and a plugin that subscribes to events."""

    @asynccontextmanager
    async def open(
        self, *, start: bool = True, grace: timedelta = timedelta(seconds=5)
    ) -> AsyncIterator["BusyPremises"]:
        self.settings["pipeline"] = {"min_events": 1_000_000, "check_seconds": 0.05}
        self.settings["queue"]["maintenance_seconds"] = 0.05
        self.settings["monitoring"]["heartbeat_interval"] = 1
        self.write_settings()
        workspace = self.folder / "workspace" / "coder"
        workspace.mkdir(parents=True)
        (workspace / "heartbeat.md").write_text("Anything new?", encoding="utf-8")
        plugin = self.home.plugins / "listener" / "plugin.py"
        plugin.parent.mkdir(parents=True)
        plugin.write_text(PLUGIN, encoding="utf-8")
        adapters = dict.fromkeys(ADAPTERS, self.puppet)
        async with wiring.open_engine(self.home, adapters=adapters, pipeline=FakePipeline()) as engine:
            self._engine = engine
            await engine.start()
            yield self
            await engine.stop(grace)


async def edit_settings(premises: Premises) -> None:
    await premises.engine.settings.save({"limits": {"daily_cost": 5}})


async def break_settings(premises: Premises) -> None:
    premises.home.settings_file.write_text("{", encoding="utf-8")


async def send_message(premises: Premises) -> None:
    await premises.send("@writer hello")


async def do_nothing(_: Premises) -> None:
    """The task reads the store often enough."""


TASKS: dict[str, Callable[[Premises], Awaitable[None]]] = {
    "dispatch": send_message,
    "recover": do_nothing,
    "tidy": do_nothing,
    "holds": edit_settings,
    "settings": break_settings,
    "chats": send_message,
    "schedules": send_message,
    "heartbeat": do_nothing,
    "archiving": do_nothing,
    "plugins": send_message,
}
"""Every background task of the engine, and the action that makes it read the store."""
STREAM = {"stream", "stream-live", "stream-beat"}
"""Tasks of the event stream, which tests/server/test_sse.py covers."""


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tinyagi.wiring.pipeline_is_installed", lambda: True)
    monkeypatch.setattr("tinyagi.wiring.LiveSettings", partial(LiveSettings, every=MOMENT))
    monkeypatch.setattr("tinyagi.engine.chat_files.PERIOD", MOMENT)
    monkeypatch.setattr("tinyagi.engine.background.FIRST_PAUSE", MOMENT)
    monkeypatch.setattr("tinyagi.engine.background.LONGEST_PAUSE", MOMENT)


@pytest.mark.parametrize("name", TASKS)
async def test_a_failing_task_is_named_and_recovers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fault, open_store = Fault(name), wiring.open_store

    async def open_faulty(home: Home, effective: EffectiveSettingsCache) -> Any:
        return FaultyStore(await open_store(home, effective), fault)

    monkeypatch.setattr("tinyagi.wiring.open_store", open_faulty)
    async with BusyPremises(tmp_path).serve() as premises:
        with hold_pid_file(premises.home, "1") as pid_file:
            pid_file.listening("127.0.0.1", premises.port)
            fault.is_on = True
            await TASKS[name](premises)
            await fault.failed_twice.wait()
            status = (await premises.http.get("/api/status")).json()["background"]
            found = await asyncio.to_thread(findings, premises)
            fault.is_on = False
            fault.passed.clear()
            await TASKS[name](premises)
            await fault.passed.wait()
            while premises.engine.background.states[name].failing:  # noqa: ASYNC110 - a state has no event
                await asyncio.sleep(0.001)

    assert status.keys() == TASKS.keys() | STREAM
    assert [task for task, one in status.items() if one["state"] == "failing"] == [name]
    assert status[name]["restarts"] >= 1
    assert "ZeroDivisionError: thrown by the test" in status[name]["lastError"]
    (finding,) = [one for one in found if one.level is Level.PROBLEM]
    assert name in finding.found
    assert "thrown by the test" in finding.found
    logged = [record for record in caplog.records if record.name == "tinyagi.engine.background" and record.exc_info]
    assert [record.getMessage().count(name) for record in logged] == [1]


def findings(premises: Premises) -> list[Finding]:
    return list(daemon(load_context(premises.home, {}), premises.engine.settings.current))
