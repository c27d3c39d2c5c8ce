"""The cost of a million completed rows: the same operations on a new and on a grown store in turn."""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final, TypeVar

from samples import ANSWER, TEXT
from seed import AGENTS, seed_completed
from tinyagi.domain.messages import Batching, NewMessage
from tinyagi.domain.runs import Claim, Outcome
from tinyagi.store.store import Store

T = TypeVar("T")

ROWS: Final = 1_000_000
STEPS: Final = 6
"""Times that each of the 64 callers enqueues, claims and completes in one turn."""
DEPTHS: Final = 2
STANDING: Final = 4
"""Messages that wait in every lane of both stores all the time."""

Timings = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Growth:
    rows: int
    open_seconds: tuple[float, float]
    empty: Timings = field(repr=False)
    """Seconds per operation, one entry per step; the names are those of the operations."""
    grown: Timings = field(repr=False)

    def seconds(self, operation: str) -> tuple[float, float]:
        """The medians of the new and of the grown store."""
        return median(self.empty[operation]), median(self.grown[operation])

    def ratio(self, operation: str) -> float:
        before, after = self.seconds(operation)
        return after / before


async def grow(path: Path, rows: int = ROWS) -> float:
    """Make a grown store and return the seconds that took."""
    await (await Store.open(path)).close()
    started = time.perf_counter()
    await asyncio.to_thread(seed_completed, path, rows)
    return time.perf_counter() - started


async def measure_growth(new: Path, grown_before: Path, rounds: int, rows: int = ROWS) -> Growth:
    """Interleave the two stores, each going first every other round."""
    started = time.perf_counter()
    empty = await Store.open(new)
    between = time.perf_counter()
    grown = await Store.open(grown_before)
    opened = time.perf_counter()
    growth = Growth(rows, (between - started, opened - between), {}, {})
    try:
        turns = [(empty, growth.empty), (grown, growth.grown)]
        for store, _ in turns:
            for _ in range(STANDING):
                await _enqueue_everywhere(store)
            await _turn(store, {})
        for _ in range(rounds):
            for store, timings in turns:
                await _turn(store, timings)
            turns.reverse()
        if (depth := await grown.queue.depth()).completed < rows:
            raise RuntimeError(f"The grown store has lost rows: {depth}")
    finally:
        await asyncio.gather(empty.close(), grown.close())
    return growth


async def _turn(store: Store, timings: Timings) -> None:
    for _ in range(STEPS):
        await _timed(timings, "enqueue", len(AGENTS), _enqueue_everywhere(store))
    for _ in range(DEPTHS):
        await _timed(timings, "depth", 1, store.queue.depth())
    for _ in range(STEPS):
        claims = await _timed(timings, "claim", len(AGENTS), _claim_everywhere(store))
        await _timed(timings, "complete", len(AGENTS), _complete_all(store, claims))


async def _timed(timings: Timings, operation: str, count: int, work: Awaitable[T]) -> T:
    started = time.perf_counter()
    result = await work
    timings.setdefault(operation, []).append((time.perf_counter() - started) / count)
    return result


async def _enqueue_everywhere(store: Store) -> None:
    await asyncio.gather(*(store.queue.enqueue(NewMessage(TEXT, agent)) for agent in AGENTS))


async def _claim_everywhere(store: Store) -> list[Claim]:
    claims = await asyncio.gather(*(store.queue.claim(agent, batching=Batching.NONE) for agent in AGENTS))
    held = [claim for claim in claims if claim is not None]
    if len(held) != len(AGENTS):
        raise RuntimeError(
            f"Only {len(held)} of {len(AGENTS)} lanes gave a claim, though messages wait in all of them."
        )
    return held


async def _complete_all(store: Store, claims: Sequence[Claim]) -> None:
    await asyncio.gather(*(store.queue.complete(claim, Outcome(ANSWER)) for claim in claims))
