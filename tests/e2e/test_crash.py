"""Real processes, killed with -9 at random moments."""

import asyncio
import os
import random
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e.workers import LANES, POLICY
from tests.support.log import Tables, read_all
from tinyagi.domain.errors import ClaimLost
from tinyagi.domain.messages import NewMessage
from tinyagi.domain.runs import Outcome
from tinyagi.store.store import Store

NEW = 40
"""Messages before each kill: more than a worker finishes until then."""


@asynccontextmanager
async def worker(path: Path, mode: str = "serve") -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker that is killed with -9 when the block ends."""
    command = (sys.executable, "-m", "tests.e2e.workers", mode, str(path))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def text(number: int) -> str:
    if number % 5 == 0:
        return f"{number} hand on"
    return f"{number} stumble" if number % 7 == 0 else str(number)


async def finished(store: Store) -> int:
    depth = await store.queue.depth()
    return depth.completed + depth.dead


async def until_finished(store: Store, count: int) -> None:
    while True:
        seen = store.changes.version
        if await finished(store) >= count:
            return
        await store.changes.beyond(seen)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [8, pytest.param(30, marks=pytest.mark.soak)])
async def test_killed_workers_lose_and_repeat_nothing_and_keep_the_order(tmp_path: Path, kills: int) -> None:
    path = tmp_path / "tinyagi.db"
    dice = random.Random(20)
    messages, handed_on = kills * NEW, kills * NEW // 5
    total = messages + handed_on
    async with await Store.open(path, policy=POLICY) as store:
        for first in range(0, messages, NEW):
            for number in range(first, first + NEW):
                lane = LANES[number % len(LANES)]
                await store.queue.enqueue(NewMessage(text(number), lane, sender=f"person {number % 3}"))
            done = await finished(store)
            async with worker(path):
                await until_finished(store, done + 1)
                # The random moment, anywhere in a run or in a transaction.
                await asyncio.sleep(dice.random() * 0.02)
        async with worker(path):
            await until_finished(store, total)
        events = await read_all(store.events)
        tables = Tables()
        for event in events:
            tables.apply(event)
        depth = await store.queue.depth()

    assert (depth.completed, depth.pending, depth.processing, depth.dead) == (total, 0, 0, 0)
    answers = Counter(row["message_id"] for row in tables.responses.values())
    assert set(answers.values()) == {1}
    assert len(answers) == total
    children = Counter(row["parent_message_id"] for row in tables.messages.values() if row["parent_message_id"])
    assert len(children) == handed_on
    assert set(children.values()) == {1}
    threads: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for event in events:
        if event.type == "chain_step_done":
            row = tables.messages[event.payload["ids"][0]]
            threads[row["agent"], row["thread"]].append(row["id"])
    assert all(order == sorted(order) for order in threads.values())


async def test_a_suspended_process_keeps_its_claim_and_a_dead_one_loses_it(tmp_path: Path) -> None:
    path = tmp_path / "tinyagi.db"
    async with await Store.open(path, policy=POLICY) as store:
        await store.queue.enqueue(NewMessage("x", LANES[0]))
        async with worker(path, "hold") as process:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"held\n"
            process.send_signal(signal.SIGSTOP)
            assert await store.queue.recover() == 0
            assert await store.queue.claim(LANES[0]) is None

            process.kill()
            await process.wait()

            assert await store.queue.recover() == 1
            claim = await store.queue.claim(LANES[0])
            assert claim is not None
            assert claim.attempt == 2


async def test_two_processes_never_hold_one_lane_together(tmp_path: Path) -> None:
    path = tmp_path / "tinyagi.db"
    async with await Store.open(path, policy=POLICY) as store:
        await store.queue.enqueue_many([NewMessage(str(n), LANES[0], sender=str(n % 3)) for n in range(400)])
        async with worker(path), worker(path):
            await until_finished(store, 400)
        events = await read_all(store.events)

    running = 0
    for event in events:
        running += {"chain_step_start": 1, "chain_step_done": -1}.get(event.type, 0)
        assert running in {0, 1}
    assert sum(event.type == "chain_step_done" for event in events) == 400
    owners = {event.payload["claim_id"] for event in events if event.type == "chain_step_start"}
    assert len(owners) == 400


async def test_a_recovered_claim_cannot_be_completed(tmp_path: Path) -> None:
    path = tmp_path / "tinyagi.db"
    async with await Store.open(path, alive=lambda owner: False) as store:
        await store.queue.enqueue(NewMessage("x", LANES[0]))
        claim = await store.queue.claim(LANES[0])
        assert claim is not None
        assert str(os.getpid()) in ((await store.lanes.all())[0].owner or "")
        await store.queue.recover()

        with pytest.raises(ClaimLost):
            await store.queue.complete(claim, Outcome("late"))
