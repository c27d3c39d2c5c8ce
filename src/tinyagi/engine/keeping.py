"""Keeps a claim while its run lives: renews the lease, and ends the run when that is no longer possible."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import timedelta

from tinyagi.domain.errors import ClaimLost, StoreError
from tinyagi.engine.runs import GivenBack, Lost, Run
from tinyagi.store.base import Queue

log = logging.getLogger(__name__)

TRY_AGAIN = timedelta(seconds=1)


@contextlib.asynccontextmanager
async def kept(queue: Queue, run: Run, lease: timedelta) -> AsyncIterator[None]:
    """Hold the run's claim for as long as the block lasts."""
    loop = asyncio.get_running_loop()
    keeper: asyncio.Task[None] | None = None

    def begin() -> None:
        nonlocal keeper
        keeper = asyncio.create_task(_keep(queue, run, lease), name=f"keep {run.claim.id}")

    # Most runs of a busy lane are shorter than the first renewal: they pay for a timer, not for a task.
    first = loop.call_later(lease.total_seconds() / 3, begin)
    try:
        yield
    finally:
        first.cancel()
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait([keeper])


async def _keep(queue: Queue, run: Run, lease: timedelta) -> None:
    loop = asyncio.get_running_loop()
    period = lease.total_seconds() / 3
    ends = loop.time() + 2 * period
    while True:
        asked = loop.time()
        try:
            await queue.renew(run.claim, lease=lease)
        except ClaimLost:
            log.warning("claim %s on lane %s was taken away: its run is ended", run.claim.id, run.claim.agent)
            run.end(Lost())
            return
        except StoreError as error:
            log.warning("the lease of lane %s cannot be renewed: %s", run.claim.agent, error)
            if loop.time() >= ends:
                # Somebody else may hold the lane by now: the child goes before anything else happens.
                run.end(GivenBack("its lease could not be renewed"))
            await asyncio.sleep(min(TRY_AGAIN.total_seconds(), period))
        else:
            ends = asked + lease.total_seconds()
            await asyncio.sleep(period)
