"""What has to be done again and again: taking back claims of the dead, ending orphans, pruning, lifting holds."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

from tinyagi.engine.budgets import HELD, Budgets
from tinyagi.engine.rules import Rulebook
from tinyagi.store.base import Store

log = logging.getLogger(__name__)

EndOrphans = Callable[[Callable[[], Awaitable[set[str]]]], Awaitable[int]]
"""Ends this home's child processes whose claim is not among the live ones, and returns how many there were."""

_SHORTEST: Final = 0.05


class Upkeep:
    def __init__(self, store: Store, rulebook: Rulebook, budgets: Budgets, end_orphans: EndOrphans) -> None:
        self._store = store
        self._rulebook = rulebook
        self._budgets = budgets
        self._end_orphans = end_orphans

    async def recover(self) -> int:
        """Take back what dead processes hold. Their children go first: no message runs twice at once."""
        lost = await self._store.queue.lost_claims()
        if not lost:
            return 0
        await self.end_orphans()
        recovered = await self._store.queue.recover(lost, policy=self._rulebook.current.policy)
        log.warning("took back %d messages of %d claims whose process is gone", recovered, len(lost))
        return recovered

    async def end_orphans(self) -> int:
        """End child processes that belong to no live claim."""

        async def live_claims() -> set[str]:
            lost = set(await self._store.queue.lost_claims())
            return {lane.claim_id for lane in await self._store.lanes.all() if lane.claim_id} - lost

        ended = await self._end_orphans(live_claims)
        if ended:
            log.warning("ended %d child processes that no run needs any more", ended)
        return ended

    async def tidy(self) -> None:
        """Everything that only needs to happen now and then."""
        report = await self._store.queue.prune(self._rulebook.current.retention)
        if report.largest:
            log.info("pruned: %s", report)
        await self.end_orphans()
        await self.lift_holds()

    async def lift_holds(self) -> None:
        """Let lanes go on whose budget was raised, or that a new day has freed."""
        budgets = self._rulebook.current.budgets
        for lane in await self._store.lanes.all():
            held_by_budget = lane.hold_until > 0 and (lane.hold_reason or "").startswith(HELD)
            if held_by_budget and await self._budgets.allows(lane.agent, budgets):
                await self._store.lanes.hold(lane.agent, until=0, reason="the budget allows it again")

    async def keep_recovering(self) -> AsyncGenerator[None, None]:
        while True:
            await asyncio.sleep(max(_SHORTEST, self._rulebook.current.settings.queue.recover_seconds))
            await self.recover()
            yield

    async def keep_tidying(self) -> AsyncGenerator[None, None]:
        while True:
            await asyncio.sleep(max(_SHORTEST, self._rulebook.current.settings.queue.maintenance_seconds))
            await self.tidy()
            yield

    async def keep_lifting_holds(self) -> AsyncGenerator[None, None]:
        """An edit of the settings may raise a budget: its lanes go on at once, not with the next `tidy`."""
        while True:
            seen = self._rulebook.live.version
            await self.lift_holds()
            yield
            await self._rulebook.live.beyond(seen)
