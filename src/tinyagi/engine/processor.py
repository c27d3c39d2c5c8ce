"""Decides which lane runs next: wake-ups, the cap on simultaneous runs, fairness between lanes, shutdown."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from tinyagi.domain.errors import StoreError
from tinyagi.domain.ids import AgentId
from tinyagi.engine.active_run import Released
from tinyagi.engine.lane import EngineContext, LaneWorker
from tinyagi.store.lanes import ClaimableLane

log = logging.getLogger(__name__)

LONGEST_SLEEP: Final = timedelta(seconds=5)
"""Poll the queue this often even without a change or a due time, so that no fault leaves a message waiting forever."""
BUSY_SLEEP: Final = timedelta(milliseconds=50)
SHORTEST_POLL: Final = timedelta(milliseconds=15)
"""Least time between two polls while lanes are busy: lanes claim their own next message, and every commit wakes the
processor. The same holds while polls start nothing, for example because a paused lane is being filled."""
IDLE_POLLS: Final = 3
"""Polls in a row that start nothing before `SHORTEST_POLL` applies without a busy lane."""
RECLAIM_AFTER: Final = timedelta(seconds=1)
"""Wait before claiming a lane again whose last claim was empty and whose message count has not changed."""


class _EmptyClaim(NamedTuple):
    """A claim that found nothing: how many messages the lane had, and when."""

    pending: int
    at: float


class Processor:
    """Starts a task for every lane that can be claimed, at most `queue.max_runs` at once."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._store = context.store
        self._lanes: dict[AgentId, asyncio.Task[bool]] = {}
        self._empty_claims: dict[AgentId, _EmptyClaim] = {}
        """Lanes whose claim found nothing, because their ready messages belong to a team without budget."""
        self._turns: dict[AgentId, int] = {}
        """The number of the turn that each lane had last."""
        self._waiting = False
        """True when a lane with work found no free slot."""
        self._idle_polls = 0
        """Polls in a row that started nothing."""
        self._stopping = False
        self._wake = asyncio.Event()
        """The store has changed or a lane has ended."""
        self._freed = asyncio.Event()
        """A lane has ended, so its slot is free and the lane can be claimed again."""

    async def stop(self, grace: timedelta) -> None:
        """Claim nothing more, let runs finish within the grace period, then end the rest and release their claims.

        `keep_dispatching` must have ended.
        """
        self._stopping = True
        await self._finish_within(grace)
        while self._lanes:
            for run in list(self._context.runs.values()):
                run.end(Released("the engine stops"))
            await asyncio.wait(list(self._lanes.values()), timeout=0.1)

    async def _finish_within(self, grace: timedelta) -> None:
        """Wait for the lanes; a second request to stop ends the wait."""
        halted = asyncio.create_task(self._context.halt.wait())
        try:
            async with asyncio.timeout(grace.total_seconds()):
                while self._lanes and not halted.done():
                    await asyncio.wait([halted, *self._lanes.values()], return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            log.info("%d runs did not finish within %s", len(self._context.runs), grace)
        finally:
            halted.cancel()

    async def keep_dispatching(self) -> AsyncGenerator[None, None]:
        """Start lanes that have work, forever."""
        stop_listening = self._store.changes.call(self._wake.set)
        try:
            while True:
                self._wake.clear()
                self._freed.clear()
                await self._give_turns()
                sleep = await self._sleep_time()
                yield
                if self._lanes or self._idle_polls >= IDLE_POLLS:
                    await _within(SHORTEST_POLL.total_seconds(), self._freed)
                if not await _within(sleep, self._wake):
                    # A message may have become claimable by the passing of time alone.
                    self._idle_polls = 0
        finally:
            stop_listening()

    async def _give_turns(self) -> None:
        lanes = await self._store.queue.claimable_lanes()
        await self._promote(lanes)
        pending = {lane.agent: lane.pending for lane in lanes}
        now = time.monotonic()
        self._empty_claims = {
            agent: empty
            for agent, empty in self._empty_claims.items()
            if pending.get(agent) == empty.pending and now < empty.at + RECLAIM_AFTER.total_seconds()
        }
        ready = [agent for agent in pending if agent not in self._lanes and agent not in self._empty_claims]
        free = self._context.effective.current.settings.queue.max_runs - len(self._lanes)
        self._waiting = len(ready) > free
        # The lane that has waited longest comes first.
        ready.sort(key=lambda agent: self._turns.get(agent, 0))
        starting = ready[: max(0, free)]
        self._idle_polls = 0 if starting else self._idle_polls + 1
        for agent in starting:
            self._start_lane(agent, pending[agent])

    async def _promote(self, lanes: Sequence[ClaimableLane]) -> None:
        """Move due messages into their lanes in order, one slice per poll."""
        due = [lane.agent for lane in lanes if lane.has_due]
        if due and await self._store.queue.promote(due):
            self._wake.set()

    def _start_lane(self, agent: AgentId, pending: int) -> None:
        self._turns[agent] = max(self._turns.values(), default=0) + 1
        lane = LaneWorker(agent, self._context, self._may_keep_slot)
        task = self._lanes[agent] = asyncio.create_task(lane.run(), name=f"lane {agent}")
        task.add_done_callback(lambda done: self._lane_ended(agent, pending, done))

    def _lane_ended(self, agent: AgentId, pending: int, task: asyncio.Task[bool]) -> None:
        del self._lanes[agent]
        self._wake.set()
        self._freed.set()
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, StoreError):
            log.warning("lane %s cannot be served now: %s", agent, error)
        elif error is not None:
            log.error("lane %s crashed", agent, exc_info=error)
        if error is not None or not task.result():
            self._empty_claims[agent] = _EmptyClaim(pending, time.monotonic())

    def _may_keep_slot(self) -> bool:
        """A lane keeps its slot until another lane waits for one or the processor stops."""
        return not self._stopping and not self._waiting

    async def _sleep_time(self) -> float:
        if self._lanes:
            # Polling a little late costs less than computing the next due time after every commit of a busy lane.
            return BUSY_SLEEP.total_seconds()
        due = await self._store.queue.next_due_at()
        longest = (RECLAIM_AFTER if self._empty_claims else LONGEST_SLEEP).total_seconds()
        return longest if due is None else min(max(0, due - self._store.clock()) / 1000 + 0.001, longest)


async def _within(seconds: float, event: asyncio.Event) -> bool:
    """Wait for the event; False on timeout."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
