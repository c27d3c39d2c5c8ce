"""The cost of a claim with a large backlog in its lane, relative to one without: two stores in turn.

The other store has the same backlog in another lane, so that both files are of one size: a log that still grows costs
more to sync than the claim.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from samples import ANSWER, TEXT
from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import MAX_MESSAGES, Batching, NewMessage
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.runs import Claim, Outcome
from tinyagi.store.store import Store

AGENT: Final = AgentId("agent")
OTHER: Final = AgentId("other")
DUE: Final = 100_000
WAITING: Final = 20_000
SENDERS: Final = 7
SLICE: Final = 1000
"""Messages that are enqueued at once to fill a store."""
WARM_UP: Final = 5
NOW: Final = 1_767_225_600_000
"""The stores' clocks stand still, so that a back-off lasts."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of backlog. Before each claim both stores get the same `work`."""

    name: str
    fill: Callable[[Store, AgentId], Awaitable[None]]
    work: Callable[[], Sequence[NewMessage]]
    batching: Batching = Batching.NONE


@dataclass(frozen=True, slots=True)
class BacklogCost:
    """Median milliseconds of a claim."""

    name: str
    with_backlog: float
    without: float

    @property
    def ratio(self) -> float:
        return self.with_backlog / self.without


async def _due(store: Store, agent: AgentId) -> None:
    """Delayed messages that are due at the time of the claim: their due time is the next millisecond."""
    await _enqueue(store, [_message(agent, n, available_at=NOW + 1) for n in range(DUE)])


async def _waiting(store: Store, agent: AgentId) -> None:
    await _enqueue(store, [_message(agent, n) for n in range(WAITING)])


async def _mixed(store: Store, agent: AgentId) -> None:
    await _enqueue(store, [_message(agent, n, priority=n % 3) for n in range(WAITING)])


async def _blocked(store: Store, agent: AgentId) -> None:
    await _enqueue(store, [NewMessage(TEXT, agent, sender="stuck") for _ in range(WAITING)])
    await store.queue.fail(await _claim(store, agent, Batching.NONE), Failure(FailureKind.MESSAGE, "stumbled"))


SHAPES: Final = (
    Shape("claim_due_100k", _due, lambda: [NewMessage(TEXT, AGENT, sender="Ada")]),
    Shape("claim_urgent_20k", _waiting, lambda: [NewMessage(TEXT, AGENT, sender="Ada", priority=5)]),
    Shape(
        "claim_all_20k", _mixed, lambda: [_message(AGENT, n, priority=n % 3) for n in range(MAX_MESSAGES)], Batching.ALL
    ),
    Shape("claim_blocked_20k", _blocked, lambda: [NewMessage(TEXT, AGENT, sender="Ada")]),
)


async def measure_backlogs(folder: Path, rounds: int, report: Callable[[str], None]) -> list[BacklogCost]:
    costs = []
    for shape in SHAPES:
        report(shape.name)
        costs.append(await _measure(shape, folder / shape.name, rounds))
    return costs


async def _measure(shape: Shape, folder: Path, rounds: int) -> BacklogCost:
    """Each store goes first every other round. The first claims are not counted: they park blocked messages."""
    now = NOW
    async with AsyncExitStack() as stack:
        stores = [
            await stack.enter_async_context(await Store.open(folder / f"{name}.db", clock=lambda: now))
            for name in ("full", "empty")
        ]
        full, empty = stores
        await shape.fill(full, AGENT)
        await shape.fill(empty, OTHER)
        now += 1
        seconds: dict[Store, list[float]] = {full: [], empty: []}
        for _ in range(WARM_UP + rounds):
            for store in stores:
                seconds[store].append(await _turn(store, shape))
            stores.reverse()
    with_backlog, without = (median(seconds[store][WARM_UP:]) * 1e3 for store in (full, empty))
    return BacklogCost(shape.name, with_backlog, without)


async def _turn(store: Store, shape: Shape) -> float:
    await store.queue.enqueue_many(shape.work())
    started = time.perf_counter()
    claim = await _claim(store, AGENT, shape.batching)
    seconds = time.perf_counter() - started
    await store.queue.complete(claim, Outcome(ANSWER))
    return seconds


async def _claim(store: Store, agent: AgentId, batching: Batching) -> Claim:
    claim = await store.queue.claim(agent, batching=batching)
    if claim is None:
        raise RuntimeError("The lane gave no claim, though a message can run.")
    return claim


async def _enqueue(store: Store, messages: Sequence[NewMessage]) -> None:
    for start in range(0, len(messages), SLICE):
        await store.queue.enqueue_many(messages[start : start + SLICE])


def _message(agent: AgentId, number: int, *, priority: int = 0, available_at: int = 0) -> NewMessage:
    sender = f"sender-{number % SENDERS}"
    return NewMessage(TEXT, agent, sender=sender, priority=priority, available_at=available_at)
