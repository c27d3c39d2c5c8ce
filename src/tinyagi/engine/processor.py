"""Wakes lanes that have work and gives each its turn: a cap on simultaneous runs, fair between lanes."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from tinyagi.domain.errors import StoreError
from tinyagi.domain.ids import AgentId
from tinyagi.engine.lane import Lane, Workbench
from tinyagi.engine.runs import GivenBack
from tinyagi.store.base import ClaimableLane

log = logging.getLogger(__name__)

LONGEST_SLEEP: Final = timedelta(seconds=5)
"""Without a change or a due time somebody looks anyway, so that no fault can leave a message waiting for ever."""


BUSY_SLEEP: Final = timedelta(milliseconds=50)
SHORTEST_LOOK: Final = timedelta(milliseconds=15)
"""Between two looks at the queue while lanes are busy: they find their own next message, and every commit wakes us.
So it is while looks are in vain, because a paused lane is filled."""
IN_VAIN: Final = 3
ASK_AGAIN: Final = timedelta(seconds=1)
"""Before a lane is claimed again that was claimed in vain and has as many messages as it had."""


class _Vain(NamedTuple):
    """A claim that found nothing: how many messages the lane had, and when."""

    pending: int
    at: float


class Processor:
    """Starts a task for every lane that can be claimed, at most `queue.max_runs` at once."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._store = bench.store
        self._lanes: dict[AgentId, asyncio.Task[bool]] = {}
        self._dry: dict[AgentId, _Vain] = {}
        """Lanes that were claimed in vain, because what is ready there belongs to a team without budget."""
        self._turns: dict[AgentId, int] = {}
        """When each lane last had its turn, counted in turns."""
        self._waiting = False
        """True when a lane with work found no free slot."""
        self._in_vain = 0
        """Looks in a row that have started nothing."""
        self._stopping = False
        self._wake = asyncio.Event()
        """Something has changed."""
        self._freed = asyncio.Event()
        """A lane has ended: its slot is free, and so is the lane itself."""

    async def stop(self, grace: timedelta) -> None:
        """Claim nothing more, let runs finish within the grace period, then end the rest and give them back.

        `keep_dispatching` must have ended.
        """
        self._stopping = True
        await self._finish_within(grace)
        while self._lanes:
            for run in list(self._bench.runs.values()):
                run.end(GivenBack("the engine stops"))
            await asyncio.wait(list(self._lanes.values()), timeout=0.1)

    async def _finish_within(self, grace: timedelta) -> None:
        """Wait for the lanes; a second request to stop ends the wait."""
        halted = asyncio.create_task(self._bench.halt.wait())
        try:
            async with asyncio.timeout(grace.total_seconds()):
                while self._lanes and not halted.done():
                    await asyncio.wait([halted, *self._lanes.values()], return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            log.info("%d runs did not finish within %s", len(self._bench.runs), grace)
        finally:
            halted.cancel()

    async def keep_dispatching(self) -> AsyncGenerator[None, None]:
        """Look for lanes with work, for ever."""
        stop_listening = self._store.changes.call(self._wake.set)
        try:
            while True:
                self._wake.clear()
                self._freed.clear()
                await self._give_turns()
                sleep = await self._sleep_time()
                yield
                if self._lanes or self._in_vain >= IN_VAIN:
                    await _within(SHORTEST_LOOK.total_seconds(), self._freed)
                if not await _within(sleep, self._wake):
                    # Time alone makes things claimable.
                    self._in_vain = 0
        finally:
            stop_listening()

    async def _give_turns(self) -> None:
        lanes = await self._store.queue.claimable_lanes()
        await self._promote(lanes)
        pending = {lane.agent: lane.pending for lane in lanes}
        now = time.monotonic()
        self._dry = {
            agent: vain
            for agent, vain in self._dry.items()
            if pending.get(agent) == vain.pending and now < vain.at + ASK_AGAIN.total_seconds()
        }
        ready = [agent for agent in pending if agent not in self._lanes and agent not in self._dry]
        free = self._bench.rulebook.current.settings.queue.max_runs - len(self._lanes)
        self._waiting = len(ready) > free
        # Who has waited longest comes first.
        ready.sort(key=lambda agent: self._turns.get(agent, 0))
        starting = ready[: max(0, free)]
        self._in_vain = 0 if starting else self._in_vain + 1
        for agent in starting:
            self._start_lane(agent, pending[agent])

    async def _promote(self, lanes: Sequence[ClaimableLane]) -> None:
        """Let what is due enter its lane in order; the next slice comes with the next look."""
        due = [lane.agent for lane in lanes if lane.has_due]
        if due and await self._store.queue.promote(due):
            self._wake.set()

    def _start_lane(self, agent: AgentId, pending: int) -> None:
        self._turns[agent] = max(self._turns.values(), default=0) + 1
        lane = Lane(agent, self._bench, self._may_go_on)
        task = self._lanes[agent] = asyncio.create_task(lane.serve(), name=f"lane {agent}")
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
            log.error("lane %s broke off", agent, exc_info=error)
        if error is not None or not task.result():
            self._dry[agent] = _Vain(pending, time.monotonic())

    def _may_go_on(self) -> bool:
        """A lane keeps its slot while nobody waits for one."""
        return not self._stopping and not self._waiting

    async def _sleep_time(self) -> float:
        if self._lanes:
            # A glance a little later costs less than the exact time after every commit of a busy lane.
            return BUSY_SLEEP.total_seconds()
        due = await self._store.queue.next_due_at()
        longest = (ASK_AGAIN if self._dry else LONGEST_SLEEP).total_seconds()
        return longest if due is None else min(max(0, due - self._store.clock()) / 1000 + 0.001, longest)


async def _within(seconds: float, event: asyncio.Event) -> bool:
    """Wait for the event; False when the time was over first."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
