"""`while_running: interrupt`: a person who adds something while their message runs gets one answer to all of it."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Final

from tinyagi.domain.batching import joins_thread
from tinyagi.domain.durations import millis
from tinyagi.domain.errors import StoreError
from tinyagi.engine.runs import GivenBack, Run
from tinyagi.store.base import Store

log = logging.getLogger(__name__)

MOST_COUNTS: Final = 1_000
"""Messages whose interrupts are counted; beyond that the oldest is forgotten, such as one that was deleted since."""


class Interrupts:
    """Ends a run when its thread has gone on and then rested for a moment; each primary message a few times at most."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._counts: Counter[int] = Counter()

    @contextlib.asynccontextmanager
    async def watched(self, run: Run, *, debounce: timedelta, at_most: int) -> AsyncIterator[None]:
        """Watch the run's thread for as long as the block lasts."""
        primary = run.claim.primary
        watcher: asyncio.Task[None] | None = None
        if joins_thread(primary) and self._counts[primary.id] < at_most:
            watcher = asyncio.create_task(self._watch(run, millis(debounce)), name=f"interrupt {run.claim.id}")
        try:
            yield
        finally:
            if watcher is not None:
                watcher.cancel()
                await asyncio.wait([watcher])
            if not isinstance(run.ending, GivenBack):
                del self._counts[primary.id]

    async def _watch(self, run: Run, debounce_ms: int) -> None:
        while True:
            seen = self._store.changes.version
            try:
                newest = await self._store.queue.newest_follower(run.claim)
            except StoreError as error:
                log.warning("nobody can interrupt @%s for now: %s", run.claim.agent, error)
                newest = None
            if newest is None:
                await self._store.changes.beyond(seen)
                continue
            rest = newest + debounce_ms - self._store.clock()
            if rest <= 0:
                self._counts[run.claim.primary.id] += 1
                if len(self._counts) > MOST_COUNTS:
                    del self._counts[next(iter(self._counts))]
                run.end(GivenBack("interrupted by a newer message of the same thread"))
                return
            await asyncio.sleep(rest / 1000)
