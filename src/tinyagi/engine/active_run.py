"""A run in progress, and everything that can end it early: a person, a lost lease, a newer message, shutdown.

Also the log fields of the current run.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tinyagi.domain.errors import ClaimLost, StoreError
from tinyagi.domain.instants import millis
from tinyagi.domain.messages import Message, joins_thread
from tinyagi.domain.runs import Claim, Outcome
from tinyagi.store.queue import MessageQueue
from tinyagi.store.store import Store

log = logging.getLogger(__name__)

RENEW_RETRY = timedelta(seconds=1)

MAX_COUNTED: Final = 1_000
"""Messages whose interrupts are counted. Beyond this the oldest count is dropped, so memory stays bounded."""

_PRIMARY: Final[ContextVar[Message | None]] = ContextVar("primary message", default=None)
"""Tasks and threads that start within `log_run` inherit it. The fields are read when a line is written."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """A person ended the run: its messages become dead."""

    by: str


@dataclass(frozen=True, slots=True)
class Released:
    """The run ended without a result: its messages go back to the queue unchanged."""

    reason: str


@dataclass(frozen=True, slots=True)
class ClaimGone:
    """The claim is gone: nothing may be written for it anymore."""


EarlyEnd = Stopped | Released | ClaimGone


class ActiveRun:
    """One claim and the task that runs it. Only the first early end counts; a finished run has none."""

    def __init__(self, claim: Claim, work: asyncio.Task[Outcome]) -> None:
        self.claim = claim
        self.work = work
        self.ending: EarlyEnd | None = None
        self.end_written = asyncio.Event()
        """Set when the run's end is stored."""

    def end(self, ending: EarlyEnd) -> bool:
        """Ask the run to end; False when it is over or ending already. After `wait` no child process is left."""
        if self.ending is not None or self.work.done():
            return False
        self.ending = ending
        self.work.cancel()
        return True

    async def wait(self) -> None:
        """Wait until the work is done, successful or not."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.work.add_done_callback(lambda _: None if over.done() else over.set_result(None))
        await over


@contextlib.asynccontextmanager
async def hold_lease(queue: MessageQueue, run: ActiveRun, lease: timedelta) -> AsyncIterator[None]:
    """Renew the run's lease for as long as the block lasts."""
    loop = asyncio.get_running_loop()
    renewal: asyncio.Task[None] | None = None

    def begin() -> None:
        nonlocal renewal
        renewal = asyncio.create_task(_renew(queue, run, lease), name=f"renew {run.claim.id}")

    # Most runs of a busy lane end before the first renewal: they pay for a timer, not for a task.
    first = loop.call_later(lease.total_seconds() / 3, begin)
    try:
        yield
    finally:
        first.cancel()
        if renewal is not None:
            renewal.cancel()
            await asyncio.wait([renewal])


async def _renew(queue: MessageQueue, run: ActiveRun, lease: timedelta) -> None:
    loop = asyncio.get_running_loop()
    period = lease.total_seconds() / 3
    ends = loop.time() + 2 * period
    while True:
        started = loop.time()
        try:
            await queue.renew(run.claim, lease=lease)
        except ClaimLost:
            log.warning("claim %s on lane %s was lost: its run is ended", run.claim.id, run.claim.agent)
            run.end(ClaimGone())
            return
        except StoreError as error:
            log.warning("the lease of lane %s cannot be renewed: %s", run.claim.agent, error)
            if loop.time() >= ends:
                # Another process may hold the lane by now: end the child before anything else.
                run.end(Released("its lease could not be renewed"))
            await asyncio.sleep(min(RENEW_RETRY.total_seconds(), period))
        else:
            ends = started + lease.total_seconds()
            await asyncio.sleep(period)


class Interrupts:
    """Implements `while_running: interrupt`: a newer message of the thread ends the run, and one answer covers both.

    A run ends only after the thread has been quiet for the debounce time, and each primary message is interrupted a
    limited number of times.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._counts: Counter[int] = Counter()

    @contextlib.asynccontextmanager
    async def watch(self, run: ActiveRun, *, debounce: timedelta, at_most: int) -> AsyncIterator[None]:
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
            if not isinstance(run.ending, Released):
                del self._counts[primary.id]

    async def _watch(self, run: ActiveRun, debounce_ms: int) -> None:
        while True:
            seen = self._store.changes.version
            try:
                newest = await self._store.queue.newest_follower(run.claim)
            except StoreError as error:
                log.warning("newer messages cannot interrupt @%s for now: %s", run.claim.agent, error)
                newest = None
            if newest is None:
                await self._store.changes.beyond(seen)
                continue
            rest = newest + debounce_ms - self._store.clock()
            if rest <= 0:
                self._counts[run.claim.primary.id] += 1
                if len(self._counts) > MAX_COUNTED:
                    del self._counts[next(iter(self._counts))]
                run.end(Released("interrupted by a newer message of the same thread"))
                return
            await asyncio.sleep(rest / 1000)


@contextmanager
def log_run(claim: Claim) -> Iterator[None]:
    """Add this run's fields to every line logged within the block."""
    token = _PRIMARY.set(claim.primary)
    try:
        yield
    finally:
        _PRIMARY.reset(token)


def current_run_fields() -> Mapping[str, str]:
    """Agent, message and conversation of the current run; empty outside of one."""
    message = _PRIMARY.get()
    if message is None:
        return {}
    return {"agent": message.agent, "message_id": message.message_id, "conversation_id": message.conversation_id}
