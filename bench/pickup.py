"""The delay until a message of another process is claimed, and the cost of an idle store."""

import asyncio
import random
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from neighbour import AGENT
from samples import ANSWER, Spread
from tinyagi.domain.messages import Batching
from tinyagi.domain.runs import Claim, Outcome
from tinyagi.store.store import Store

PATIENCE: Final = 30
LONGEST_PAUSE: Final = 0.05
"""Messages come at random times, up to two polls of the store apart: always just after a poll would be the worst case,
always just before it the best."""


async def measure_pickup(path: Path, messages: int) -> Spread:
    """Milliseconds from the return of the commit in the other process to the return of the claim in this one."""
    dice = random.Random(4711)
    delays = []
    async with await Store.open(path) as store, _neighbour("enqueue", path) as (process, asks, answers):
        for _ in range(messages):
            asks.write(f"{dice.uniform(0, LONGEST_PAUSE)}\n".encode())
            async with asyncio.timeout(PATIENCE):
                claim = await _next_claim(store)
                claimed_at = time.monotonic_ns()
                committed_at = int(await answers.readline())
            delays.append((claimed_at - committed_at) / 1e6)
            await store.queue.complete(claim, Outcome(ANSWER))
        asks.close()
        await process.wait()
    return Spread.of(delays)


async def measure_idle(path: Path, seconds: float) -> float:
    """Percent of one core."""
    async with _neighbour("idle", path, str(seconds)) as (_, _, answers), asyncio.timeout(seconds + PATIENCE):
        return float(await answers.readline())


async def _next_claim(store: Store) -> Claim:
    """Read before claiming: a claim is a write, and every write of this process wakes it again."""
    while True:
        seen = store.changes.version
        if any(lane.agent == AGENT for lane in await store.queue.claimable_lanes()):
            claim = await store.queue.claim(AGENT, batching=Batching.NONE)
            if claim is not None:
                return claim
        await store.changes.beyond(seen)


@asynccontextmanager
async def _neighbour(
    *arguments: str | Path,
) -> AsyncIterator[tuple[Process, asyncio.StreamWriter, asyncio.StreamReader]]:
    program = Path(__file__).with_name("neighbour.py")
    process = await asyncio.create_subprocess_exec(sys.executable, program, *arguments, stdin=PIPE, stdout=PIPE)
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("A child with pipes has streams.")
    try:
        yield process, process.stdin, process.stdout
        await asyncio.wait_for(process.wait(), PATIENCE)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
