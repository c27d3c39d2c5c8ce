"""Serves one lane: claim, run, complete or fail, and on to the next, strictly one after another."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, TypedDict, assert_never

from tinyagi.domain.batching import Batching
from tinyagi.domain.errors import StoreError
from tinyagi.domain.ids import AgentId, ClaimId, TeamId
from tinyagi.domain.messages import Claim, Outcome
from tinyagi.domain.responses import held_notice
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.texts import clean, one_line
from tinyagi.engine.budgets import Budgets, RunWithheld
from tinyagi.engine.interrupts import Interrupts
from tinyagi.engine.keeping import kept
from tinyagi.engine.live import Live
from tinyagi.engine.log_context import about
from tinyagi.engine.persisting import insist, persist
from tinyagi.engine.rules import Rulebook, Rules
from tinyagi.engine.runner import Runner
from tinyagi.engine.runs import GivenBack, Lost, Run, Stopped
from tinyagi.providers.base import RunFailed
from tinyagi.settings.model import WhileRunning
from tinyagi.store.base import Store

log = logging.getLogger(__name__)

LOGGED: Final = 500
"""Characters of a reason in the log; the message keeps all of it."""


@dataclass(frozen=True, slots=True)
class Workbench:
    """What every lane of an engine shares."""

    store: Store
    rulebook: Rulebook
    runner: Runner
    budgets: Budgets
    interrupts: Interrupts
    live: Live
    runs: dict[ClaimId, Run]
    halt: asyncio.Event
    """Set when the engine stops at once: nothing waits for the store to recover any more."""


class _Terms(TypedDict):
    """How a lane is claimed."""

    batching: Batching
    lease: timedelta
    held_teams: frozenset[TeamId]


class Lane:
    """One agent's sequence of runs, until there is nothing to claim or another lane should have its turn."""

    def __init__(self, agent: AgentId, bench: Workbench, may_go_on: Callable[[], bool]) -> None:
        self._agent = agent
        self._bench = bench
        self._queue = bench.store.queue
        self._may_go_on = may_go_on

    async def serve(self) -> bool:
        """Run claim after claim; False when there was nothing to claim in the first place."""
        claim = await self._queue.claim(self._agent, **await self._terms())
        had_work = claim is not None
        while claim is not None:
            claim = await self._carry(claim, self._bench.rulebook.current)
        return had_work

    async def _carry(self, claim: Claim, rules: Rules) -> Claim | None:
        """Bring one claim to its end and return the lane's next one, if it was taken with it."""
        bench = self._bench
        with about(claim), bench.live.speaking(claim) as speaker:
            if log.isEnabledFor(logging.INFO):
                log.info("%s begins", _named(claim))
            work = asyncio.create_task(bench.runner.carry_out(claim, rules, speaker.say), name=f"run {claim.id}")
            run = bench.runs[claim.id] = Run(claim, work)
            try:
                async with kept(self._queue, run, rules.lease):
                    async with self._watched(run, rules):
                        await run.finished()
                    return await self._settle(run, rules)
            finally:
                del bench.runs[claim.id]
                run.settled.set()

    def _watched(self, run: Run, rules: Rules) -> AbstractAsyncContextManager[None]:
        agent, queue = rules.settings.agents.get(run.claim.agent), rules.settings.queue
        if agent is None or agent.while_running is not WhileRunning.INTERRUPT:
            return contextlib.nullcontext()
        debounce = timedelta(seconds=queue.interrupt_debounce_seconds)
        return self._bench.interrupts.watched(run, debounce=debounce, at_most=queue.interrupt_max)

    async def _settle(self, run: Run, rules: Rules) -> Claim | None:
        """Write what became of the run."""
        claim, queue, ending = run.claim, self._queue, run.ending
        match ending:
            case None:
                return await self._conclude(run, rules)
            case Stopped(by=by):
                await self._insist(claim, lambda: queue.stop(claim, by=by))
            case GivenBack(reason=reason):
                await self._insist(claim, lambda: queue.release(claim, reason=reason))
            case Lost():
                pass
            case _:
                assert_never(ending)
        return None

    async def _conclude(self, run: Run, rules: Rules) -> Claim | None:
        """The run ended by itself: its result or its error decides."""
        claim = run.claim
        try:
            outcome = run.work.result()
        except RunFailed as error:
            failure = error.failure
        except RunWithheld as error:
            withheld, reason = error.withheld, str(error)
            await self._insist(claim, lambda: self._queue.release(claim, reason=reason, withheld=withheld))
            return None
        except StoreError as error:
            failure = Failure(FailureKind.UNAVAILABLE, f"the store could not be read: {error}")
        except (Exception, asyncio.CancelledError) as error:
            # A fault of ours or of a plugin must not cost the lane: the message fails, the log has the rest.
            log.exception("%s broke", _named(claim))
            failure = Failure(FailureKind.MESSAGE, f"the run broke: {type(error).__name__}: {error}")
        else:
            return await self._complete(run, outcome, rules)
        await self._fail(claim, failure, rules)
        return None

    async def _complete(self, run: Run, outcome: Outcome, rules: Rules) -> Claim | None:
        claim = run.claim

        async def write() -> Claim | None:
            if self._may_go_on():
                _, following = await self._queue.complete_and_claim(claim, outcome, **await self._terms())
                return following
            await self._queue.complete(claim, outcome)
            return None

        try:
            following = await persist(write, lambda: f"The end of {_named(claim)}", self._bench.halt)
        except Exception as error:
            log.exception("the answer of %s cannot be stored", _named(claim))
            await self._fail(claim, Failure(FailureKind.MESSAGE, f"its answer cannot be stored: {error}"), rules)
            return None
        if log.isEnabledFor(logging.INFO):
            log.info("%s is answered", _named(claim))
        return following

    async def _fail(self, claim: Claim, failure: Failure, rules: Rules) -> None:
        reason = clean(failure.reason)
        # Once is enough: the lane is tried again and again until somebody has mended it.
        notice = held_notice(claim.agent, reason) if failure.needs_person and claim.holds == 0 else None
        log.warning("%s failed: %s", _named(claim), one_line(reason, LOGGED))
        told = replace(failure, reason=reason, notice=notice)
        await self._insist(claim, lambda: self._queue.fail(claim, told, policy=rules.policy))

    async def _insist(self, claim: Claim, write: Callable[[], Awaitable[None]]) -> None:
        await insist(write, lambda: f"The end of {_named(claim)}", self._bench.halt)

    async def _terms(self) -> _Terms:
        rules = self._bench.rulebook.current
        return {
            "batching": rules.batching_of(self._agent),
            "lease": rules.lease,
            "held_teams": await self._bench.budgets.held_teams(rules.budgets),
        }


def _named(claim: Claim) -> str:
    """A run as the log names it; clients choose ids, and a log has one line for each entry."""
    return f"run {one_line(claim.primary.message_id)} of @{claim.agent}, attempt {claim.attempt},"
