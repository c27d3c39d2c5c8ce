"""Measures this machine: how many messages a second it stores durably, and how many it runs."""

import asyncio
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tinyagi.engine.engine import Engine
from tinyagi.engine.inbox import Incoming
from tinyagi.settings.document import Document
from tinyagi.settings.home import Home
from tinyagi.wiring import open_engine

Progress = Callable[[str, float], None]
"""Called with what is measured and which part of its time is over."""

AGENTS: Final = ("one", "two", "three", "four")
SENDERS: Final = 32
"""People who write at the same time; each waits until the message is durable."""
LOOK: Final = 0.05


@dataclass(frozen=True, slots=True)
class Measured:
    seconds: float
    enqueued: int
    enqueues_per_second: float
    runs: int
    runs_per_second: float


async def measure(folder: Path, seconds: float, progress: Progress) -> Measured:
    """Fill a queue for so many seconds, then run it for as long; in a home of its own below the folder."""
    home = Home(folder / "home")
    home.prepare()
    Document(home).create(_settings(folder / "workspace"))
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
            # Everybody's first message: what one person writes in a row would be run together.
            await engine.inbox.submit(Incoming("hello", agent=AGENTS[number % len(AGENTS)], sender=f"person {number}"))
            written += 1
            if number % SENDERS == 0:
                progress((now - began) / (deadline - began))
        return written

    return sum(await asyncio.gather(*(write() for _ in range(SENDERS))))


async def _drain(engine: Engine, deadline: float, progress: Callable[[float], None]) -> int:
    """Wait until the time is over or nothing is left, and return how many messages are done."""
    began = time.perf_counter()
    while True:
        depth = await engine.store.queue.depth()
        now = time.perf_counter()
        progress(min(1.0, (now - began) / (deadline - began)))
        if now >= deadline or depth.pending == depth.processing == 0:
            return depth.completed
        await asyncio.sleep(LOOK)


def _settings(workspace: Path) -> dict[str, object]:
    return {
        "workspace": {"path": str(workspace)},
        "models": {"provider": "scripted"},
        "agents": {name: {"name": name.title(), "provider": "scripted"} for name in AGENTS},
        "plugins": {"enabled": False},
        "monitoring": {"heartbeat_interval": 0},
    }
