"""The engine compared with its lower bound; the last line of stdout is one JSON object.

Throughput: messages over three agents whose provider is a trivial child process, against a bare asyncio loop that
starts the same children with the same parallelism. Pick-up, a long backlog on one lane, the speed-up of three agents.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import psutil
from rich.console import Console

from tinyagi.daemon.main import set_switch_interval
from tinyagi.domain.ids import AgentId
from tinyagi.domain.limits import Usage
from tinyagi.domain.messages import NewMessage
from tinyagi.engine.engine import Engine
from tinyagi.engine.inbox import Incoming
from tinyagi.providers.base import OnProgress, Provider, RunRequest, RunResult
from tinyagi.providers.claude import Claude
from tinyagi.providers.scripted import Scripted
from tinyagi.settings.home import Home
from tinyagi.wiring import open_engine

AGENTS: Final = ("coder", "writer", "tester")
EXAMPLE: Final = """\
example:
  python bench/engine_bench.py --quick
  python bench/engine_bench.py --json-only | jq .throughput_vs_floor
"""
RESULT: Final = '{"type":"result","is_error":false,"result":"done","usage":{"output_tokens":1}}'
PROGRESS_LINE: Final = '{"type":"assistant","message":{"content":[{"type":"text","text":"I am on it."}]}}'
CHILD: Final = f"""\
#!/bin/bash
prompt=$(cat)
echo '{PROGRESS_LINE}'
echo '{RESULT}'
"""
"""A fake program as in the crash tests: it reads its whole prompt, prints a message and ends with a result."""
BAREST: Final = f"""\
#!/bin/sh
read -r prompt
echo '{RESULT}'
"""
"""The smallest program that the engine accepts: it mostly measures the overhead of the engine."""


@dataclass(frozen=True, slots=True)
class Plan:
    messages: int
    rounds: int
    pickups: int
    backlog: int
    work_seconds: tuple[float, float, float]


FULL: Final = Plan(messages=300, rounds=9, pickups=200, backlog=100_000, work_seconds=(30, 20, 15))
# The backlog stays at its full length: its memory is the point. The example's work is a tenth of it.
QUICK: Final = Plan(messages=300, rounds=5, pickups=60, backlog=100_000, work_seconds=(3, 2, 1.5))


class Instant:
    """Answers at once, in process, and keeps the instants at which it was called."""

    keeps_sessions: Final = True

    def __init__(self) -> None:
        self.called_at: list[float] = []

    async def run(self, request: RunRequest, progress: OnProgress) -> RunResult:
        self.called_at.append(time.perf_counter())
        return RunResult("done", Usage(provider="instant"))


class Counted:
    """Another provider with a count of its answers: reading it from the database would distort the measurement."""

    def __init__(self, provider: Provider, answers: int) -> None:
        self._provider = provider
        self.keeps_sessions: Final = provider.keeps_sessions
        self._left = answers
        self.done = asyncio.Event()

    async def run(self, request: RunRequest, progress: OnProgress) -> RunResult:
        result = await self._provider.run(request, progress)
        self._left -= 1
        if not self._left:
            self.done.set()
        return result


@asynccontextmanager
async def engine_with(folder: Path, provider: Provider, **queue: Any) -> AsyncIterator[Engine]:
    """A started engine with three agents on one provider, in a new folder."""
    home = Home(folder / "home")
    home.prepare()
    agents = {name: {"name": name, "provider": "scripted"} for name in AGENTS}
    settings = {
        "agents": agents,
        "workspace": {"path": str(folder / "workspace")},
        "queue": queue,
        "monitoring": {"heartbeat_interval": 0},
    }
    home.settings_file.write_text(json.dumps(settings), encoding="utf-8")
    async with open_engine(home, adapters={"scripted": provider}) as engine:
        await engine.start()
        yield engine
        await engine.stop()


async def drained(engine: Engine, every: float = 0.01) -> None:
    """Wait until no message is pending; the default interval makes the checks nearly free."""
    while True:
        seen = engine.store.changes.version
        depth = await engine.store.queue.depth()
        if depth.pending == depth.processing == 0:
            return
        await asyncio.sleep(every)
        await engine.store.changes.beyond(seen)


async def measure_engine(folder: Path, child: Path, messages: int) -> float:
    """Messages per second with the real adapter for a trivial child."""
    provider = Counted(Claude(executable=str(child)), messages + len(AGENTS))
    async with engine_with(folder, provider) as engine:
        # One run per lane first: the workspaces are made, the pages are warm.
        for agent in AGENTS:
            await engine.inbox.submit(Incoming("warm up", agent=agent))
        await drained(engine)
        lanes = [AgentId(agent) for agent in AGENTS]
        for lane in lanes:
            await engine.store.lanes.pause(lane)
        batch = [NewMessage("do it", lanes[number % 3], sender=f"p{number}") for number in range(messages)]
        await engine.store.queue.enqueue_many(batch)
        # Both the lower bound and the engine have their work ready when the clock starts.
        began = time.perf_counter()
        await asyncio.gather(*(engine.store.lanes.resume(lane) for lane in lanes))
        await provider.done.wait()
        await drained(engine, every=0.001)
        return messages / (time.perf_counter() - began)


async def measure_floor(child: Path, messages: int) -> float:
    """Children per second: started, given input, read to the end and waited for, three at a time."""
    waiting = iter(range(messages))

    async def lane() -> None:
        for _ in waiting:
            process = await asyncio.create_subprocess_exec(
                str(child),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            await process.communicate(b"do it\n")

    began = time.perf_counter()
    await asyncio.gather(*(lane() for _ in AGENTS))
    return messages / (time.perf_counter() - began)


async def measure_pickup(folder: Path, times: int) -> float:
    """Milliseconds from the durable enqueue to the provider's call, in an engine that is idle otherwise; the median."""
    provider = Instant()
    async with engine_with(folder, provider) as engine:
        waits = []
        for number in range(times + 5):
            await engine.inbox.submit(Incoming("now", agent=AGENTS[number % 3]))
            stored = time.perf_counter()
            await drained(engine)
            # The provider may be called before its caller learns that the message is durable.
            waits.append(max(0.0, provider.called_at[-1] - stored) * 1000)
    return median(waits[5:])


@dataclass(frozen=True, slots=True)
class Backlog:
    extra_mb: float
    per_second: float
    runs: int


async def measure_backlog(folder: Path, messages: int) -> Backlog:
    """Drain a long backlog on one lane: chat messages of a hundred people from before the engine started."""
    process, provider = psutil.Process(), Instant()
    async with engine_with(folder, provider, max_runs=1) as engine:
        agent = AgentId(AGENTS[0])
        await engine.store.lanes.pause(agent)
        for start in range(0, messages, 1000):
            people = (f"person {number % 100}" for number in range(start, min(messages, start + 1000)))
            await engine.store.queue.enqueue_many(
                [NewMessage("please look into this", agent, channel="web", sender=person) for person in people]
            )
        before = peak = process.memory_info().rss
        began = time.perf_counter()
        await engine.store.lanes.resume(agent)
        drain = asyncio.create_task(drained(engine))
        while not drain.done():
            await asyncio.wait([drain], timeout=0.2)
            peak = max(peak, process.memory_info().rss)
        seconds = time.perf_counter() - began
    return Backlog((peak - before) / 1e6, messages / seconds, len(provider.called_at))


async def measure_speedup(folder: Path, work: tuple[float, float, float]) -> tuple[float, float]:
    """Three agents with this many seconds of work each: the sum of the work over the time it takes."""
    for agent, seconds in zip(AGENTS, work, strict=True):
        (folder / "workspace" / agent).mkdir(parents=True)
        script = f'[[reply]]\nseconds = {seconds}\nsay = "done"\n'
        (folder / "workspace" / agent / "script.toml").write_text(script, encoding="utf-8")
    async with engine_with(folder, Scripted()) as engine:
        began = time.perf_counter()
        for agent in AGENTS:
            await engine.inbox.submit(Incoming("work", agent=agent))
        await drained(engine)
        took = time.perf_counter() - began
    return sum(work) / took, took


@dataclass(frozen=True, slots=True)
class Throughput:
    """Medians over the rounds; the ratio is that of each round, not that of the medians."""

    ratio: float
    per_second: float
    floor: float


async def measure_throughput(name: str, script: str, plan: Plan, folder: Path, console: Console) -> Throughput:
    child = folder / name
    child.write_text(script, encoding="utf-8")
    child.chmod(0o700)
    rounds: list[tuple[float, float]] = []
    for number in range(plan.rounds):
        # Side by side in every round, because the machine's pace changes from one minute to the next.
        floor = await measure_floor(child, plan.messages)
        rate = await measure_engine(folder / f"{name}-{number}", child, plan.messages)
        rounds.append((rate, floor))
        console.print(f"{name}: {rate:,.0f} messages/s, floor {floor:,.0f} children/s, {rate / floor:.2f}")
    return Throughput(
        median(rate / floor for rate, floor in rounds),
        median(rate for rate, _ in rounds),
        median(floor for _, floor in rounds),
    )


async def measure(plan: Plan, folder: Path, console: Console) -> dict[str, float]:
    throughput = await measure_throughput("child", CHILD, plan, folder, console)
    barest = await measure_throughput("barest-child", BAREST, plan, folder, console)
    pickup = await measure_pickup(folder / "pickup", plan.pickups)
    console.print(f"pick-up: {pickup:.1f} ms")
    backlog = await measure_backlog(folder / "backlog", plan.backlog)
    console.print(
        f"backlog of {plan.backlog:,}: {backlog.per_second:,.0f} messages/s in {backlog.runs:,} runs, "
        f"{backlog.extra_mb:.0f} MB more memory"
    )
    speedup, took = await measure_speedup(folder / "speedup", plan.work_seconds)
    console.print(
        f"{' + '.join(f'{one:g} s' for one in plan.work_seconds)} of work took {took:.1f} s: {speedup:.2f} times"
    )
    return {
        "throughput_vs_floor": round(throughput.ratio, 3),
        "messages_per_s": round(throughput.per_second, 1),
        "floor_per_s": round(throughput.floor, 1),
        "throughput_vs_floor_barest": round(barest.ratio, 3),
        "pickup_ms": round(pickup, 2),
        "backlog_100k_extra_mb": round(backlog.extra_mb, 1),
        "backlog_messages_per_s": round(backlog.per_second, 1),
        "parallel_speedup": round(speedup, 2),
        "ideal_speedup": round(sum(plan.work_seconds) / max(plan.work_seconds), 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="about a minute instead of several")
    parser.add_argument("--json-only", action="store_true", help="print nothing but the JSON line")
    options = parser.parse_args()
    console = Console(stderr=False, quiet=options.json_only, highlight=False)
    # As the daemon does; the lower bound has it, too.
    set_switch_interval()
    with tempfile.TemporaryDirectory(prefix="tinyagi-bench-") as folder:
        figures = asyncio.run(measure(QUICK if options.quick else FULL, Path(folder), console))
    sys.stdout.write(json.dumps(figures) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
