"""From a claim to an outcome: workspace, prompt, session, provider, answer. Stores nothing but files."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from tinyagi.agents.system_prompt import AgentProfile, SystemPromptCache, memberships
from tinyagi.agents.workspace import is_complete, prepare, take_reset_flag
from tinyagi.agents.workspace_files import PromptFileError, WorkspaceError
from tinyagi.domain.events import SessionLost
from tinyagi.domain.ids import AgentId
from tinyagi.domain.limits import Charge, Usage
from tinyagi.domain.messages import Message
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.routing import Roster, without_prefix
from tinyagi.domain.runs import Claim, Outcome, Session, SessionScope
from tinyagi.engine.answers import ResponseFormatter, handoffs_of, hook_context, room_posts_of, team_chain_of
from tinyagi.engine.budgets import Budgets
from tinyagi.plugins.plugin import Plugins
from tinyagi.providers.base import OnProgress, Provider, RunFailed, RunRequest, RunResult
from tinyagi.settings.agent_setup import AgentSetup, NotConfigured, prompt_file_problem, workspace_problem
from tinyagi.settings.effective import EffectiveSettings, price_of
from tinyagi.settings.environment import TOKEN_NAME
from tinyagi.settings.home import Home
from tinyagi.settings.secrets import agent_token
from tinyagi.store.sessions import SessionStore


class Runner:
    """Turns claims into outcomes, with one provider per adapter name."""

    def __init__(
        self,
        *,
        home: Home,
        sessions: SessionStore,
        providers: Mapping[str, Provider],
        plugins: Plugins,
        budgets: Budgets,
        environment: Mapping[str, str],
    ) -> None:
        self._home = home
        self._files = home.files
        self._home_id = home.home_id
        self._sessions = sessions
        self._providers = providers
        self._plugins = plugins
        self._budgets = budgets
        self._environment = environment
        self._prompts = SystemPromptCache()
        self._prepared: set[Path] = set()
        """Workspaces that this process has prepared: their skills have this version."""

    async def run(self, claim: Claim, rules: EffectiveSettings, progress: OnProgress) -> Outcome:
        """Return the run's outcome; raise RunFailed when there is no answer. Cancelling it ends the provider's run."""
        await self._budgets.check(claim, rules.budgets)
        setup = self._setup(claim, rules)
        request = await self._request(claim, setup, rules)
        try:
            result = await self._providers[setup.adapter].run(request, progress)
        except RunFailed as failed:
            raise RunFailed(self._charged(failed.failure, claim, rules)) from failed
        return await self._outcome(claim, setup, rules, request, result)

    def _setup(self, claim: Claim, rules: EffectiveSettings) -> AgentSetup:
        try:
            return rules.setup_of(claim.agent)
        except NotConfigured as error:
            raise RunFailed(Failure(FailureKind.UNAVAILABLE, str(error), needs_person=True)) from error

    async def _request(self, claim: Claim, setup: AgentSetup, rules: EffectiveSettings) -> RunRequest:
        try:
            if setup.workspace not in self._prepared or not is_complete(setup.workspace):
                self._check_workspace(setup)
                await asyncio.to_thread(prepare, setup.workspace, rules.roster.agents[setup.id])
                self._prepared.add(setup.workspace)
            # A few calls to `stat` cost less than a hop to another thread.
            system_prompt = self._system_prompt(setup, rules)
            is_reset = take_reset_flag(setup.workspace)
        except (WorkspaceError, PromptFileError) as error:
            raise RunFailed(Failure(FailureKind.UNAVAILABLE, str(error), needs_person=True)) from error
        if is_reset:
            await self._sessions.reset(setup.id, by="reset_flag", starting=claim.id)
        thread, keeps_sessions = claim.primary.thread, self._providers[setup.adapter].keeps_sessions
        resumes = keeps_sessions and not is_reset
        session = claim.session(_session_thread(setup, thread), setup.provider) if resumes else None
        texts = [await self._text_of(message, rules.roster) for message in claim.messages]
        return RunRequest(
            agent=setup.id,
            prompt=prompt_for(claim, texts),
            system_prompt=system_prompt,
            model=setup.model,
            workspace=setup.workspace,
            run_id=f"{self._home_id}:{claim.id}",
            attempt=claim.attempt,
            session_id=session.session_id if session else None,
            session_state=session.state if session else None,
            turns=() if keeps_sessions else await self._sessions.turns(setup.id, thread),
            endpoint=setup.endpoint,
            limits=setup.limits,
            permissions=setup.permissions,
            environment=self._environment_of(setup.id),
            pass_environment=setup.pass_environment,
        )

    async def _text_of(self, message: Message, roster: Roster) -> str:
        """The message as the agent reads it."""
        text = without_prefix(message.message, message.agent, roster)
        return (await self._plugins.incoming(text, hook_context(message))).text

    def _check_workspace(self, setup: AgentSetup) -> None:
        if problem := workspace_problem(setup.workspace, self._home):
            raise RunFailed(Failure(FailureKind.UNAVAILABLE, f"@{setup.id} cannot run: {problem}.", needs_person=True))

    def _environment_of(self, agent: AgentId) -> Mapping[str, str]:
        """The daemon's environment with the agent's token in place of the server's."""
        token = self._environment.get(TOKEN_NAME)
        return {**self._environment, TOKEN_NAME: agent_token(token, agent)} if token else self._environment

    def _system_prompt(self, setup: AgentSetup, rules: EffectiveSettings) -> str:
        profile = AgentProfile(
            agent=setup.id,
            name=setup.name,
            workspace=setup.workspace,
            files=self._files,
            teams=memberships(setup.id, rules.roster),
        )
        file = setup.prompt_file
        # Checked before every run: a link may lead elsewhere by now.
        if file is not None and prompt_file_problem(file, setup.workspace, self._home):
            raise PromptFileError(
                file, f"is neither in the agent's workspace nor a .md or .txt file in {self._home.path}"
            )
        return self._prompts.prompt_for(profile, prompt_file=setup.prompt_file, system_prompt=setup.system_prompt or "")

    async def _outcome(
        self, claim: Claim, setup: AgentSetup, rules: EffectiveSettings, request: RunRequest, result: RunResult
    ) -> Outcome:
        primary, roster = claim.primary, rules.roster
        handoffs = handoffs_of(result.text, primary, roster)
        delivery = await ResponseFormatter(self._files, rules.settings.responses, self._plugins).format(
            result.text, folders=[setup.workspace], context=hook_context(primary), name=f"{claim.agent}_{claim.id}"
        )
        lost = result.lost_session and request.session_id is not None
        return Outcome(
            answer=result.text,
            response=delivery.text,
            files=delivery.files,
            metadata=delivery.metadata,
            handoffs=handoffs,
            posts=room_posts_of(result.text, primary.agent, roster, rules.passive_rooms),
            usage=result.usage,
            facts=(SessionLost(setup.provider, request.session_id or ""),) if lost else (),
            session=_session(setup, primary.thread, result),
            charge=self._charge(result.usage, setup.model, claim, rules),
            brakes=rules.brakes,
            chain=team_chain_of(handoffs, primary, roster),
        )

    def _charged(self, failure: Failure, claim: Claim, rules: EffectiveSettings) -> Failure:
        return replace(failure, charge=self._charge(failure.usage, "", claim, rules))

    def _charge(self, usage: Usage | None, model: str, claim: Claim, rules: EffectiveSettings) -> Charge | None:
        """The cost of the run; `model` is the requested one, used when the provider does not name the model."""
        used = model if usage is None or usage.model is None else usage.model
        return self._budgets.charge(usage, price_of(rules.settings, used), claim, rules.budgets)


def _session_thread(setup: AgentSetup, thread: str) -> str:
    return "" if setup.session_scope is SessionScope.AGENT else thread


def _session(setup: AgentSetup, thread: str, result: RunResult) -> Session | None:
    if result.turns:
        return Session(thread, setup.provider, None, result.turns)
    if result.session_id is None:
        return None
    return Session(_session_thread(setup, thread), setup.provider, result.session_id, state=result.session_state)


def prompt_for(claim: Claim, texts: Sequence[str]) -> str:
    """Join the messages in order; `texts` are their texts after the plugins."""
    parts = [_with_files(message, text) for message, text in zip(claim.messages, texts, strict=True)]
    people = {(message.channel, message.sender) for message in claim.messages if not message.is_room_post}
    if len(people) > 1:
        # Name the sender of each text only when several people share the run.
        parts = [_with_sender(message, text) for message, text in zip(claim.messages, parts, strict=True)]
    return _attempt_note(claim.attempt) + "\n\n".join(parts)


def _with_files(message: Message, text: str) -> str:
    files = msgspec.json.decode(message.files, type=list[str]) if message.files else []
    missing = [f"[file: {path}]" for path in files if f"[file: {path}]" not in text]
    return "\n".join([text, *missing])


def _with_sender(message: Message, text: str) -> str:
    if message.is_room_post or message.from_agent is not None:
        return text
    return f"[From {message.sender} on {message.channel}]:\n{text}"


def _attempt_note(attempt: int) -> str:
    if attempt == 1:
        return ""
    return f"[This is attempt {attempt}: an earlier run of this message did not finish. See what is done already.]\n\n"
