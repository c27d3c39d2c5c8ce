"""Carries out one claim: workspace, prompt, session, provider, and what the answer leaves."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tinyagi.agents.errors import PromptFileError, WorkspaceError
from tinyagi.agents.prompt import Profile, memberships
from tinyagi.agents.prompt_book import PromptBook
from tinyagi.agents.workspace import is_complete, prepare, take_reset_flag
from tinyagi.domain.events import SessionLost
from tinyagi.domain.messages import Claim, Outcome, Usage
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.sessions import Session, SessionScope
from tinyagi.domain.spending import Charge
from tinyagi.engine.answers import Shaping, chain_of, handoffs_of, hook_context, posts_of
from tinyagi.engine.budgets import Budgets
from tinyagi.engine.prompts import prompt_of
from tinyagi.engine.rules import Rules
from tinyagi.plugins.host import Plugins
from tinyagi.providers.base import Progress, Provider, RunFailed, RunRequest, RunResult
from tinyagi.settings.derived import price_of
from tinyagi.settings.home import Home
from tinyagi.settings.resolve import AgentSetup, NotConfigured
from tinyagi.store.base import Sessions

TOLD_AGAIN: Final = frozenset({"api"})
"""Adapters that keep no sessions: earlier turns of the thread are told again."""


class Runner:
    """Everything between a claim and its outcome; writes nothing but files."""

    def __init__(
        self,
        *,
        home: Home,
        sessions: Sessions,
        providers: Mapping[str, Provider],
        plugins: Plugins,
        budgets: Budgets,
        environment: Mapping[str, str],
    ) -> None:
        self._files = home.files
        self._home_id = home.home_id
        self._sessions = sessions
        self._providers = providers
        self._plugins = plugins
        self._budgets = budgets
        self._environment = environment
        self._prompts = PromptBook()
        self._furnished: set[Path] = set()
        """Workspaces that this process has made ready: their skills are of this version."""

    async def carry_out(self, claim: Claim, rules: Rules, progress: Progress) -> Outcome:
        """Return what the run leaves; raise RunFailed when there is no answer. To cancel it ends the provider."""
        await self._budgets.check(claim, rules.budgets)
        setup = self._setup(claim, rules)
        request = await self._request(claim, setup, rules)
        try:
            result = await self._providers[setup.adapter].run(request, progress)
        except RunFailed as failed:
            raise RunFailed(self._charged(failed.failure, claim, rules)) from failed
        return await self._outcome(claim, setup, rules, request, result)

    def _setup(self, claim: Claim, rules: Rules) -> AgentSetup:
        try:
            return rules.setup_of(claim.agent)
        except NotConfigured as error:
            raise RunFailed(Failure(FailureKind.UNAVAILABLE, str(error), needs_person=True)) from error

    async def _request(self, claim: Claim, setup: AgentSetup, rules: Rules) -> RunRequest:
        try:
            if setup.workspace not in self._furnished or not is_complete(setup.workspace):
                await asyncio.to_thread(prepare, setup.workspace, rules.roster.agents[setup.id])
                self._furnished.add(setup.workspace)
            # A few looks at files that are there: they cost less than to ask another thread for them.
            system_prompt = self._system_prompt(setup, rules)
            is_reset = take_reset_flag(setup.workspace)
        except (WorkspaceError, PromptFileError) as error:
            raise RunFailed(Failure(FailureKind.UNAVAILABLE, str(error), needs_person=True)) from error
        if is_reset:
            await self._sessions.reset(setup.id, by="reset_flag", starting=claim.id)
        thread, tells_again = claim.primary.thread, setup.adapter in TOLD_AGAIN
        texts = [(await self._plugins.incoming(m.message, hook_context(m))).text for m in claim.messages]
        return RunRequest(
            agent=setup.id,
            prompt=prompt_of(claim, texts),
            system_prompt=system_prompt,
            model=setup.model,
            workspace=setup.workspace,
            run_id=f"{self._home_id}:{claim.id}",
            attempt=claim.attempt,
            session_id=None if is_reset else claim.session_id(_session_thread(setup, thread), setup.provider),
            turns=await self._sessions.turns(setup.id, thread) if tells_again else (),
            endpoint=setup.endpoint,
            limits=setup.limits,
            permissions=setup.permissions,
            environment=self._environment,
            pass_environment=setup.pass_environment,
        )

    def _system_prompt(self, setup: AgentSetup, rules: Rules) -> str:
        profile = Profile(
            agent=setup.id,
            name=setup.name,
            workspace=setup.workspace,
            files=self._files,
            teams=memberships(setup.id, rules.roster),
        )
        return self._prompts.prompt_for(profile, prompt_file=setup.prompt_file, system_prompt=setup.system_prompt or "")

    async def _outcome(
        self, claim: Claim, setup: AgentSetup, rules: Rules, request: RunRequest, result: RunResult
    ) -> Outcome:
        primary, everybody = claim.primary, rules.roster
        handoffs = handoffs_of(result.text, primary, everybody)
        delivery = await Shaping(self._files, rules.style, self._plugins).shape(
            result.text, folders=[setup.workspace], context=hook_context(primary), name=f"{claim.agent}_{claim.id}"
        )
        lost = result.lost_session and request.session_id is not None
        return Outcome(
            answer=result.text,
            response=delivery.text,
            files=delivery.files,
            metadata=delivery.metadata,
            handoffs=handoffs,
            posts=posts_of(result.text, primary.agent, everybody, rules.passive_rooms),
            usage=result.usage,
            facts=(SessionLost(setup.provider, request.session_id or ""),) if lost else (),
            session=_session(setup, primary.thread, result),
            charge=self._charge(result.usage, setup.model, claim, rules),
            brakes=rules.brakes,
            chain=chain_of(handoffs, primary, everybody),
        )

    def _charged(self, failure: Failure, claim: Claim, rules: Rules) -> Failure:
        return replace(failure, charge=self._charge(failure.usage, "", claim, rules))

    def _charge(self, usage: Usage | None, model: str, claim: Claim, rules: Rules) -> Charge | None:
        """What the run costs; `model` is the one that was asked for, should the provider not say which it used."""
        named = model if usage is None or usage.model is None else usage.model
        return self._budgets.charge(usage, price_of(rules.settings, named), claim, rules.budgets)


def _session_thread(setup: AgentSetup, thread: str) -> str:
    return "" if setup.session_scope is SessionScope.AGENT else thread


def _session(setup: AgentSetup, thread: str, result: RunResult) -> Session | None:
    if result.turns:
        return Session(thread, setup.provider, None, result.turns)
    if result.session_id is None:
        return None
    return Session(_session_thread(setup, thread), setup.provider, result.session_id)
