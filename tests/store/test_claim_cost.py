"""A claim costs the same with a small and a large backlog, for every reason why the backlog waits.

Cost is counted in steps of SQLite's machine on the writer's connection, so the numbers are the same on every machine.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import apsw
import pytest

from tests.contract.conftest import CODER, DEV
from tests.support.clock import FakeClock
from tinyagi.domain.ids import TeamId
from tinyagi.domain.messages import ROOM_CHANNEL, ROOM_PRIORITY, Batching, NewMessage
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.runs import Claim, Outcome, RoomPost
from tinyagi.store.claim import SEARCH_LIMIT
from tinyagi.store.connection import connect
from tinyagi.store.lanes import LANE_SLICE
from tinyagi.store.store import Store

SMALL, LARGE = 100, 5000
STUMBLE = Failure(FailureKind.MESSAGE, "stumbled")
NONE: Final[frozenset[TeamId]] = frozenset()


class CountedStore:
    """A store whose writer counts its steps."""

    def __init__(self, store: Store, clock: FakeClock, statements: list[tuple[str, int]]) -> None:
        self.store = store
        self.clock = clock
        self._statements = statements

    async def say(self, *messages: NewMessage) -> None:
        await self.store.queue.enqueue_many(messages)

    async def claim(self, batching: Batching = Batching.NONE, held: frozenset[TeamId] = NONE) -> Claim | None:
        return await self.store.queue.claim(CODER, batching=batching, held_teams=held)

    async def steps_of(self, work: Awaitable[object]) -> int:
        self._statements.clear()
        await work
        return sum(steps for _, steps in self._statements)

    @property
    def largest_statement(self) -> int:
        return max(steps for _, steps in self._statements)

    @property
    def commits(self) -> int:
        return sum(sql == "COMMIT" for sql, _ in self._statements)


@asynccontextmanager
async def counted(path: Path) -> AsyncIterator[CountedStore]:
    clock, statements, connections = FakeClock(), list[tuple[str, int]](), list[apsw.Connection]()

    def remember(file: Path, busy_timeout: timedelta) -> apsw.Connection:
        connections.append(connect(file, busy_timeout))
        return connections[-1]

    def note(profile: dict[str, Any]) -> None:
        statements.append((profile["sql"], profile["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]))

    async with await Store.open(path, clock=clock, connect=remember) as store:
        connections[0].trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
        yield CountedStore(store, clock, statements)
        connections[0].trace_v2(0, None)


Shape = Callable[[CountedStore, int], Awaitable[Callable[[], Awaitable[Claim | None]]]]
"""Fills a lane with a backlog of a size and returns the claim to be measured."""


async def plain_backlog(counted_store: CountedStore, size: int) -> Callable[[], Awaitable[Claim | None]]:
    await counted_store.say(*(NewMessage("x", CODER, sender=f"s{n}") for n in range(size)))
    return counted_store.claim


async def delayed_to_one_instant(counted_store: CountedStore, size: int) -> Callable[[], Awaitable[Claim | None]]:
    due = counted_store.clock.now + 1000
    await counted_store.say(*(NewMessage("x", CODER, sender=f"s{n % 7}", available_at=due) for n in range(size)))
    counted_store.clock.now = due
    return counted_store.claim


async def delayed_until_tomorrow(counted_store: CountedStore, size: int) -> Callable[[], Awaitable[Claim | None]]:
    tomorrow = counted_store.clock.now + 86_400_000
    await counted_store.say(
        *(NewMessage("x", CODER, available_at=tomorrow) for _ in range(size)), NewMessage("now", CODER)
    )
    return counted_store.claim


async def an_urgent_one_over_a_backlog(counted_store: CountedStore, size: int) -> Callable[[], Awaitable[Claim | None]]:
    await counted_store.say(*(NewMessage("x", CODER, sender=f"s{n % 7}") for n in range(size)))
    await counted_store.say(NewMessage("urgent", CODER, sender="ada", priority=5))
    return counted_store.claim


async def mixed_priorities_in_one_run(counted_store: CountedStore, size: int) -> Callable[[], Awaitable[Claim | None]]:
    await counted_store.say(*(NewMessage("x", CODER, sender=f"s{n % 7}", priority=n % 3) for n in range(size)))
    return lambda: counted_store.claim(Batching.ALL)


async def behind_one_chat_in_back_off(counted_store: CountedStore, size: int) -> Callable[[], Awaitable[Claim | None]]:
    await counted_store.say(*(NewMessage("x", CODER, sender="stuck") for _ in range(size)), NewMessage("free", CODER))
    await fail(counted_store)
    # The first claim parks the blocked messages; the test measures the later ones.
    await complete(counted_store)
    await counted_store.say(NewMessage("free", CODER), NewMessage("another", CODER, sender="stuck"))
    return counted_store.claim


async def only_a_chat_in_back_off(counted_store: CountedStore, size: int) -> Callable[[], Awaitable[Claim | None]]:
    await counted_store.say(*(NewMessage("x", CODER, sender="stuck") for _ in range(size)))
    await fail(counted_store)
    assert await counted_store.claim() is None
    return counted_store.claim


async def a_chat_after_its_back_off(counted_store: CountedStore, size: int) -> Callable[[], Awaitable[Claim | None]]:
    await only_a_chat_in_back_off(counted_store, size)
    counted_store.clock.now += 60_000
    await complete(counted_store)
    return counted_store.claim


async def behind_a_held_team(counted_store: CountedStore, size: int) -> Callable[[], Awaitable[Claim | None]]:
    held = frozenset({DEV})
    await counted_store.say(*(NewMessage("x", CODER, sender=f"s{n % 7}", team=DEV) for n in range(size)))
    await counted_store.say(NewMessage("free", CODER, sender="s1"))
    await complete(counted_store, held=held)
    await counted_store.say(NewMessage("free", CODER, sender="s1"))
    return lambda: counted_store.claim(held=held)


async def a_room_in_back_off(counted_store: CountedStore, size: int) -> Callable[[], Awaitable[Claim | None]]:
    await counted_store.say(NewMessage("x", CODER, channel=ROOM_CHANNEL, team=DEV, priority=ROOM_PRIORITY))
    await fail(counted_store)
    for _ in range(size):
        await counted_store.store.queue.post(RoomPost(DEV, "line", (CODER,), "a line", wakes=False), sender="ada")
    await counted_store.say(NewMessage("free", CODER))
    return lambda: counted_store.claim(Batching.THREAD)


async def fail(counted_store: CountedStore) -> None:
    claim = await counted_store.claim()
    assert claim is not None
    await counted_store.store.queue.fail(claim, STUMBLE)


async def complete(counted_store: CountedStore, held: frozenset[TeamId] = NONE) -> None:
    claim = await counted_store.claim(held=held)
    assert claim is not None
    await counted_store.store.queue.complete(claim, Outcome("done"))


@pytest.mark.parametrize(
    "shape",
    [
        plain_backlog,
        delayed_to_one_instant,
        delayed_until_tomorrow,
        an_urgent_one_over_a_backlog,
        mixed_priorities_in_one_run,
        behind_one_chat_in_back_off,
        only_a_chat_in_back_off,
        a_chat_after_its_back_off,
        behind_a_held_team,
        a_room_in_back_off,
    ],
)
async def test_the_steps_of_a_claim_do_not_grow_with_the_backlog(tmp_path: Path, shape: Shape) -> None:
    steps = []
    for size in (SMALL, LARGE):
        async with counted(tmp_path / f"{size}.db") as counted_store:
            claim = await shape(counted_store, size)
            steps.append(await counted_store.steps_of(claim()))

    small, large = steps
    assert large <= 1.2 * small, steps


async def test_a_blocked_backlog_is_parked_in_several_transactions(tmp_path: Path) -> None:
    async with counted(tmp_path / "queue.db") as counted_store:
        await counted_store.say(*(NewMessage("x", CODER, sender="stuck") for _ in range(3 * SEARCH_LIMIT)))
        await counted_store.say(NewMessage("free", CODER))
        await fail(counted_store)

        await counted_store.steps_of(counted_store.claim())

        assert counted_store.commits == 3
        assert counted_store.largest_statement < 40 * SEARCH_LIMIT


async def test_the_steps_of_a_slice_do_not_grow_with_the_lane(tmp_path: Path) -> None:
    largest = []
    for size in (2 * LANE_SLICE, 6 * LANE_SLICE):
        async with counted(tmp_path / f"{size}.db") as counted_store:
            await counted_store.say(*(NewMessage("x", CODER, sender=f"s{n % 7}") for n in range(size)))
            await counted_store.steps_of(counted_store.store.queue.abandon(CODER, reason="gone"))
            largest.append(counted_store.largest_statement)

    assert largest[1] <= 1.2 * largest[0]
