"""Periodic work: recover lost claims, end orphaned processes, prune, lift holds."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

from tinyagi.domain.retry import HoldCause
from tinyagi.engine.attachments import sweep
from tinyagi.engine.budgets import Budgets
from tinyagi.settings.effective import PROVIDER_CHANGED, EffectiveSettings, EffectiveSettingsCache
from tinyagi.store.store import Store

log = logging.getLogger(__name__)

EndOrphans = Callable[[Callable[[], Awaitable[set[str]]]], Awaitable[int]]
"""Ends this home's child processes whose claim is not live, and returns their number."""

_SHORTEST: Final = 0.05
_SWEEP_AFTER: Final = timedelta(hours=1)


class Maintenance:
    def __init__(
        self, store: Store, effective: EffectiveSettingsCache, budgets: Budgets, end_orphans: EndOrphans, files: Path
    ) -> None:
        self._store = store
        self._effective = effective
        self._budgets = budgets
        self._end_orphans = end_orphans
        self._seen: EffectiveSettings | None = None
        """The settings at the last check of holds; None before the first."""
        self._files = files

    async def recover(self) -> int:
        """Recover claims of dead processes. Their children end first, so that no message runs twice at once."""
        lost = await self._store.queue.lost_claims()
        if not lost:
            return 0
        await self.end_orphans()
        recovered = await self._store.queue.recover(lost, policy=self._effective.current.policy)
        log.warning("recovered %d messages of %d claims whose process is gone", recovered, len(lost))
        return recovered

    async def end_orphans(self) -> int:
        """End child processes that belong to no live claim."""

        async def live_claims() -> set[str]:
            lost = set(await self._store.queue.lost_claims())
            return {lane.claim_id for lane in await self._store.lanes.all() if lane.claim_id} - lost

        ended = await self._end_orphans(live_claims)
        if ended:
            log.warning("ended %d child processes without a live run", ended)
        return ended

    async def run_once(self) -> None:
        """Prune, sweep files, end orphans and lift holds."""
        report = await self._store.queue.prune(self._effective.current.retention)
        if report.largest:
            log.info("pruned: %s", report)
        if report.responses or report.messages:
            await self._sweep_files()
        await self.end_orphans()
        await self.lift_holds()

    async def _sweep_files(self) -> None:
        """Delete attachments without a message or response. A young file stays: its row may not be stored yet."""
        in_use = await self._store.responses.attached() | await self._store.queue.attached()
        before = self._store.clock() / 1000 - _SWEEP_AFTER.total_seconds()
        deleted = await asyncio.to_thread(sweep, self._files, in_use, before)
        if deleted:
            log.info("deleted %d attachments that no message or response names", deleted)

    async def lift_holds(self) -> None:
        """Lift holds of lanes whose budget or provider has changed, or whose budget renews with the new day."""
        rules, before = self._effective.current, self._seen
        for lane in await self._store.lanes.all():
            if lane.hold_until <= 0:
                continue
            if lane.hold_cause == HoldCause.BUDGET:
                if await self._budgets.allows(lane.agent, rules.budgets):
                    await self._store.lanes.hold(lane.agent, until=0, reason="the budget allows it again")
            elif before is None:
                if lane.hold_cause == HoldCause.FIX:
                    await self._store.lanes.hold(lane.agent, until=0, reason="TinyAGI was restarted")
            elif before.has_other_provider(lane.agent, rules):
                await self._store.lanes.hold(lane.agent, until=0, reason=PROVIDER_CHANGED)
        self._seen = rules

    async def keep_recovering(self) -> AsyncGenerator[None, None]:
        while True:
            await asyncio.sleep(max(_SHORTEST, self._effective.current.settings.queue.recover_seconds))
            await self.recover()
            yield

    async def keep_maintaining(self) -> AsyncGenerator[None, None]:
        while True:
            await asyncio.sleep(max(_SHORTEST, self._effective.current.settings.queue.maintenance_seconds))
            await self.run_once()
            yield

    async def keep_lifting_holds(self) -> AsyncGenerator[None, None]:
        """Check holds after every edit of the settings: a raised budget or a new key counts at once."""
        while True:
            seen = self._effective.live.version
            await self.lift_holds()
            yield
            await self._effective.live.beyond(seen)
