"""Measures the queue on this machine: durable enqueues per second, then scripted runs per second."""

import asyncio
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tinyagi.engine.engine import Engine
from tinyagi.engine.inbox import Incoming
from tinyagi.settings.home import Home
from tinyagi.settings.settings_file import SettingsFile
from tinyagi.wiring import open_engine

OnProgress = Callable[[str, float], None]
"""Called with the name of the measurement and its progress from 0 to 1."""

AGENTS: Final = ("one", "two", "three", "four")
SENDERS: Final = 32
"""Concurrent senders; each waits until its message is durable."""
POLL_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Measured:
    seconds: float
    enqueued: int
    enqueues_per_second: float
    runs: int
    runs_per_second: float


async def run_bench(folder: Path, seconds: float, progress: OnProgress) -> Measured:
    """Enqueue for this many seconds, then run the messages for as long, in a new home below the folder."""
    home = Home(folder / "home")
    home.prepare()
    SettingsFile(home).create(_settings(folder / "workspace"))
    async with open_engine(home) as engine:
        began = time.perf_counter()
        enqueued = await _fill(engine, began + seconds, lambda part: progress("durable enqueues", part))
        filling = time.perf_counter() - began
        began = time.perf_counter()
        await engine.start()
        try:
            runs = await _drain(engine, began + seconds, lambda part: progress("scripted runs", part))
            running = time.perf_counter() - began
        finally:
            await engine.stop()
    return Measured(seconds, enqueued, enqueued / filling, runs, runs / running)


async def _fill(engine: Engine, deadline: float, progress: Callable[[float], None]) -> int:
    numbers, began = itertools.count(), time.perf_counter()

    async def write() -> int:
        written = 0
        while (now := time.perf_counter()) < deadline:
            number = next(numbers)
            # A new sender per message: messages of one sender would be coalesced into one run.
            await engine.inbox.submit(Incoming("hello", agent=AGENTS[number % len(AGENTS)], sender=f"person {number}"))
            written += 1
            if number % SENDERS == 0:
                progress((now - began) / (deadline - began))
        return written

    return sum(await asyncio.gather(*(write() for _ in range(SENDERS))))


async def _drain(engine: Engine, deadline: float, progress: Callable[[float], None]) -> int:
    """Wait for the deadline or an empty queue; return the number of completed messages."""
    began = time.perf_counter()
    while True:
        depth = await engine.store.queue.depth()
        now = time.perf_counter()
        progress(min(1.0, (now - began) / (deadline - began)))
        if now >= deadline or depth.pending == depth.processing == 0:
            return depth.completed
        await asyncio.sleep(POLL_SECONDS)


def _settings(workspace: Path) -> dict[str, object]:
    return {
        "workspace": {"path": str(workspace)},
        "models": {"provider": "scripted"},
        "agents": {name: {"name": name.title(), "provider": "scripted"} for name in AGENTS},
        "plugins": {"enabled": False},
        "monitoring": {"heartbeat_interval": 0},
    }
