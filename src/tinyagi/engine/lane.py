"""Runs one lane: claim, run, write the end, claim the next message, strictly one after another.

Writes that the store refuses for now are repeated until they are stored.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, TypedDict, TypeVar, assert_never

from tinyagi.domain.errors import (
    ClaimLost,
    OutcomeUnknown,
    StoreBusy,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreReadOnly,
)
from tinyagi.domain.ids import AgentId, ClaimId, TeamId
from tinyagi.domain.messages import Batching
from tinyagi.domain.responses import held_notice
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.runs import Claim, Outcome
from tinyagi.domain.texts import clean, one_line
from tinyagi.engine.active_run import ActiveRun, ClaimGone, Interrupts, Released, Stopped, hold_lease, log_run
from tinyagi.engine.budgets import Budgets, RunDeferred
from tinyagi.engine.live_progress import ProgressHub
from tinyagi.engine.runner import Runner
from tinyagi.providers.base import RunFailed
from tinyagi.settings.effective import PROVIDER_CHANGED, EffectiveSettings, EffectiveSettingsCache
from tinyagi.settings.model import WhileRunning
from tinyagi.store.store import Store

log = logging.getLogger(__name__)

LOGGED: Final = 500
"""Characters of a failure reason in the log; the message keeps the whole reason."""

T = TypeVar("T")

TRANSIENT: Final = (StoreBusy, StoreFull, StoreFailed, StoreReadOnly, OutcomeUnknown)
"""Errors that a store may recover from: the same write is tried again."""

_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 30.0


@dataclass(frozen=True, slots=True)
class EngineContext:
    """State that all lanes of an engine share."""

    store: Store
    effective: EffectiveSettingsCache
    runner: Runner
    budgets: Budgets
    interrupts: Interrupts
    live: ProgressHub
    runs: dict[ClaimId, ActiveRun]
    halt: asyncio.Event
    """Set when the engine stops at once: writes no longer wait for the store to recover."""


class _ClaimOptions(TypedDict):
    """Arguments of every claim on a lane."""

    batching: Batching
    lease: timedelta
    held_teams: frozenset[TeamId]


class LaneWorker:
    """One agent's sequence of runs, until there is nothing to claim or another lane needs the slot."""

    def __init__(self, agent: AgentId, context: EngineContext, may_keep_slot: Callable[[], bool]) -> None:
        self._agent = agent
        self._context = context
        self._queue = context.store.queue
        self._may_keep_slot = may_keep_slot

    async def run(self) -> bool:
        """Run claim after claim; False when the first claim found nothing."""
        claim = await self._queue.claim(self._agent, **await self._claim_options())
        had_work = claim is not None
        while claim is not None:
            claim = await self._run_claim(claim, self._context.effective.current)
        return had_work

    async def _run_claim(self, claim: Claim, rules: EffectiveSettings) -> Claim | None:
        """Run one claim to its end and return the lane's next claim, if the same write took one."""
        context = self._context
        with log_run(claim), context.live.speaking(claim) as progress:
            if log.isEnabledFor(logging.INFO):
                log.info("%s starts", _run_name(claim))
            work = asyncio.create_task(context.runner.run(claim, rules, progress.say), name=f"run {claim.id}")
            run = context.runs[claim.id] = ActiveRun(claim, work)
            try:
                async with hold_lease(self._queue, run, rules.lease):
                    async with self._interrupts_for(run, rules):
                        await run.wait()
                    return await self._write_end(run, rules)
            finally:
                del context.runs[claim.id]
                run.end_written.set()

    def _interrupts_for(self, run: ActiveRun, rules: EffectiveSettings) -> AbstractAsyncContextManager[None]:
        agent, queue = rules.settings.agents.get(run.claim.agent), rules.settings.queue
        if agent is None or agent.while_running is not WhileRunning.INTERRUPT:
            return contextlib.nullcontext()
        debounce = timedelta(seconds=queue.interrupt_debounce_seconds)
        return self._context.interrupts.watch(run, debounce=debounce, at_most=queue.interrupt_max)

    async def _write_end(self, run: ActiveRun, rules: EffectiveSettings) -> Claim | None:
        """Write how the run ended."""
        claim, queue, ending = run.claim, self._queue, run.ending
        match ending:
            case None:
                return await self._write_result(run, rules)
            case Stopped(by=by):
                await self._write(claim, lambda: queue.stop(claim, by=by))
            case Released(reason=reason):
                await self._write(claim, lambda: queue.release(claim, reason=reason))
            case ClaimGone():
                pass
            case _:
                assert_never(ending)
        return None

    async def _write_result(self, run: ActiveRun, rules: EffectiveSettings) -> Claim | None:
        """Write the result or the error of a run that nothing ended early."""
        claim = run.claim
        try:
            outcome = run.work.result()
        except RunFailed as error:
            failure = error.failure
        except RunDeferred as error:
            withheld, reason = error.withheld, str(error)
            await self._write(claim, lambda: self._queue.release(claim, reason=reason, withheld=withheld))
            return None
        except StoreError as error:
            failure = Failure(FailureKind.UNAVAILABLE, f"the store could not be read: {error}")
        except (Exception, asyncio.CancelledError) as error:
            # A bug here or in a plugin must not stop the lane: the message fails, and the log has the stack.
            log.exception("%s crashed", _run_name(claim))
            failure = Failure(FailureKind.MESSAGE, f"the run crashed: {type(error).__name__}: {error}")
        else:
            return await self._complete(run, outcome, rules)
        await self._fail(claim, failure, rules)
        return None

    async def _complete(self, run: ActiveRun, outcome: Outcome, rules: EffectiveSettings) -> Claim | None:
        claim = run.claim

        async def write() -> Claim | None:
            if self._may_keep_slot():
                _, following = await self._queue.complete_and_claim(claim, outcome, **await self._claim_options())
                return following
            await self._queue.complete(claim, outcome)
            return None

        try:
            following = await write_until_stored(write, lambda: f"The end of {_run_name(claim)}", self._context.halt)
        except Exception as error:
            log.exception("the answer of %s cannot be stored", _run_name(claim))
            await self._fail(claim, Failure(FailureKind.MESSAGE, f"its answer cannot be stored: {error}"), rules)
            return None
        if log.isEnabledFor(logging.INFO):
            log.info("%s completed", _run_name(claim))
        return following

    async def _fail(self, claim: Claim, failure: Failure, rules: EffectiveSettings) -> None:
        reason = clean(failure.reason)
        log.warning("%s failed: %s", _run_name(claim), one_line(reason, LOGGED))
        stored = replace(failure, reason=reason)
        if failure.needs_person:
            # The sender gets one notice, however often the lane is retried.
            notice = held_notice(claim.agent, reason) if claim.holds == 0 else None
            stored = replace(stored, reason=f"needs a fix: {reason}", notice=notice)
        await self._write(claim, lambda: self._queue.fail(claim, stored, policy=rules.policy))
        current = self._context.effective.current
        if failure.kind is FailureKind.UNAVAILABLE and rules.has_other_provider(claim.agent, current):
            # The settings changed during the run: a failure under the old settings must not hold the lane.
            await self._context.store.lanes.hold(claim.agent, until=0, reason=PROVIDER_CHANGED)

    async def _write(self, claim: Claim, write: Callable[[], Awaitable[None]]) -> None:
        """Repeat the write after any error: it has no alternative. The lane waits, and the log says why."""
        halt = self._context.halt
        await write_until_stored(write, lambda: f"The end of {_run_name(claim)}", halt, retry_on=(Exception,))

    async def _claim_options(self) -> _ClaimOptions:
        rules = self._context.effective.current
        return {
            "batching": rules.batching_of(self._agent),
            "lease": rules.lease,
            "held_teams": await self._context.budgets.held_teams(rules.budgets),
        }


def _run_name(claim: Claim) -> str:
    """The run's name in the log, on one line: clients choose ids, and an id may hold line breaks."""
    return f"run {one_line(claim.primary.message_id)} of @{claim.agent}, attempt {claim.attempt},"


async def write_until_stored(
    write: Callable[[], Awaitable[T]],
    what: Callable[[], str],
    halt: asyncio.Event,
    retry_on: tuple[type[Exception], ...] = TRANSIENT,
) -> T | None:
    """Return the write's result; None when the claim is gone, or when the engine halts before the store recovers."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return await write()
        except ClaimLost as error:
            # After an unknown outcome this means that the first try was written after all.
            log.warning("%s was not written: %s", what(), error)
            return None
        except retry_on as error:
            unexpected = None if isinstance(error, TRANSIENT) else error
            log.error(  # noqa: TRY400 - a transient store error needs no stack
                "%s cannot be written yet, next try in %g s: %s", what(), pause, error, exc_info=unexpected
            )
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(halt.wait(), pause)
        if halt.is_set():
            return None
        pause = min(2 * pause, _LONGEST_PAUSE)
