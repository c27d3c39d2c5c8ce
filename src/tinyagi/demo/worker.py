"""The demo's worker process: claims messages from three lanes and answers them until it is told to end, or killed."""

import asyncio
import contextlib
import signal
import sys
from datetime import timedelta
from pathlib import Path

from tinyagi.demo.scenario import BROKEN, FLAKY, LANES, POLICY
from tinyagi.domain.errors import ClaimLost
from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import Claim, Outcome
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.settings import Home
from tinyagi.store.base import Store
from tinyagi.wiring import open_store

WORK = timedelta(milliseconds=3)
IDLE = timedelta(milliseconds=50)


async def serve(home: Home) -> None:
    """Recover what an earlier worker left, then run every lane until SIGTERM."""
    store = await open_store(home, policy=POLICY)
    await store.queue.recover()
    lanes = [asyncio.create_task(_run_lane(store, agent)) for agent in LANES]
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: [lane.cancel() for lane in lanes])
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*lanes)
    await store.close()


async def _run_lane(store: Store, agent: AgentId) -> None:
    while True:
        seen = store.changes.version
        claim = await store.queue.claim(agent)
        if claim is None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(store.changes.beyond(seen), IDLE.total_seconds())
            continue
        with contextlib.suppress(ClaimLost):
            await _run(store, claim)


async def _run(store: Store, claim: Claim) -> None:
    await asyncio.sleep(WORK.total_seconds())
    text = claim.primary.message
    if BROKEN in text or (FLAKY in text and claim.attempt == 1):
        await store.queue.fail(claim, Failure(FailureKind.MESSAGE, f"the agent stumbled over {text!r}"))
    else:
        await store.queue.complete(claim, Outcome(answer=f"@{claim.agent} did {text!r} at attempt {claim.attempt}"))


if __name__ == "__main__":
    asyncio.run(serve(Home(Path(sys.argv[1]))))
