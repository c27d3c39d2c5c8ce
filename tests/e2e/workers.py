"""A worker process for the crash tests: claims, pretends to work, hands off, completes or fails, until it is killed."""

import asyncio
import contextlib
import sys
from datetime import timedelta
from pathlib import Path

from tinyagi.domain.errors import ClaimLost
from tinyagi.domain.ids import AgentId
from tinyagi.domain.retry import Failure, FailureKind, RetryPolicy
from tinyagi.domain.runs import Handoff, Outcome
from tinyagi.store.store import Store

LANES = [AgentId(name) for name in ("a", "b", "c", "d")]
WORK = timedelta(milliseconds=8)
POLICY = RetryPolicy(attempts=100, base=timedelta(milliseconds=5), factor=1)


async def work(store: Store, agent: AgentId) -> None:
    while True:
        seen = store.changes.version
        claim = await store.queue.claim(agent)
        if claim is None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(store.changes.beyond(seen), 0.02)
            continue
        await asyncio.sleep(WORK.total_seconds())
        with contextlib.suppress(ClaimLost):
            if "stumble" in claim.primary.message and claim.attempt == 1:
                await store.queue.fail(claim, Failure(FailureKind.MESSAGE, "stumbled"))
                continue
            other = LANES[(LANES.index(agent) + 1) % len(LANES)]
            hands_on = claim.primary.hop == 0 and "hand on" in claim.primary.message
            handoffs = (Handoff(other, f"from {claim.primary.message_id}"),) if hands_on else ()
            await store.queue.complete(claim, Outcome(f"answer to {claim.primary.message_id}", handoffs=handoffs))


async def serve(path: Path) -> None:
    async with await Store.open(path, policy=POLICY) as store:
        await store.queue.recover()
        await asyncio.gather(*(work(store, agent) for agent in LANES))


async def hold(path: Path) -> None:
    """Claim one message and never finish it."""
    async with await Store.open(path, policy=POLICY) as store:
        assert await store.queue.claim(LANES[0]) is not None
        print("held", flush=True)  # noqa: T201 - the parent waits for it
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run({"serve": serve, "hold": hold}[sys.argv[1]](Path(sys.argv[2])))
