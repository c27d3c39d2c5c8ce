"""The settings as domain values: retry policy, limits, budgets, roster, and the setup of each agent."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, NamedTuple

from tinyagi.domain.ids import AgentId, TeamId
from tinyagi.domain.limits import OVERALL, Brakes, Budget, Price, Retention, scope_of_agent, scope_of_team
from tinyagi.domain.messages import Batching
from tinyagi.domain.retry import RetryPolicy
from tinyagi.domain.routing import DEFAULT_AGENT, Agent, Roster, Team
from tinyagi.domain.runs import Endpoint, Permissions
from tinyagi.settings.agent_setup import AgentSetup, NotConfigured, agent_setup
from tinyagi.settings.home import Home
from tinyagi.settings.live import LiveSettings
from tinyagi.settings.model import BudgetSettings, Settings

HEARTBEAT_SECONDS: Final = 3_600
"""The interval of a heartbeat that is enabled without one."""

_DATE: Final = re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$")

PROVIDER_CHANGED: Final = "its provider settings have changed"
"""The reason for ending a hold early."""


class ProviderUse(NamedTuple):
    """How an agent uses its provider. When any part changes, a failed provider is worth another try."""

    provider: str
    model: str
    endpoint: Endpoint
    permissions: Permissions
    pass_environment: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EffectiveSettings:
    """One version of the settings. A run keeps the version that its claim was made under."""

    settings: Settings
    home: Home
    roster: Roster
    brakes: Brakes
    budgets: Mapping[str, Budget]
    policy: RetryPolicy
    retention: Retention
    lease: timedelta
    passive_rooms: frozenset[TeamId]
    _setups: dict[AgentId, AgentSetup] = field(default_factory=dict, repr=False, compare=False)

    def setup_of(self, agent: AgentId) -> AgentSetup:
        """The setup of the agent's runs; raise NotConfigured when the settings lack it."""
        setup = self._setups.get(agent)
        if setup is None:
            setup = self._setups[agent] = agent_setup(self.settings, agent, self.home)
        return setup

    def provider_of(self, agent: AgentId) -> ProviderUse | None:
        """How the agent uses its provider; None when the settings lack it."""
        try:
            setup = self.setup_of(agent)
        except NotConfigured:
            return None
        return ProviderUse(setup.provider, setup.model, setup.endpoint, setup.permissions, setup.pass_environment)

    def has_other_provider(self, agent: AgentId, later: "EffectiveSettings") -> bool:
        """True when the later settings give the agent another provider, model or key."""
        return later.settings is not self.settings and later.provider_of(agent) != self.provider_of(agent)

    def batching_of(self, agent: AgentId) -> Batching:
        configured = self.settings.agents.get(agent)
        return Batching.THREAD if configured is None else configured.batching


class EffectiveSettingsCache:
    """The effective settings of the current version, computed once per version."""

    def __init__(self, live: LiveSettings, home: Home) -> None:
        self.live = live
        self._home = home
        self._effective = _effective(live.current, home)

    @property
    def current(self) -> EffectiveSettings:
        if self._effective.settings is not self.live.current:
            self._effective = _effective(self.live.current, self._home)
        return self._effective


def _effective(settings: Settings, home: Home) -> EffectiveSettings:
    return EffectiveSettings(
        settings=settings,
        home=home,
        roster=roster(settings),
        brakes=brakes(settings),
        budgets=budgets(settings),
        policy=retry_policy(settings),
        retention=retention(settings),
        lease=timedelta(seconds=settings.queue.lease_seconds),
        passive_rooms=frozenset(TeamId(id_) for id_, team in settings.teams.items() if team.chatroom == "passive"),
    )


def retry_policy(settings: Settings) -> RetryPolicy:
    queue = settings.queue
    return RetryPolicy(
        attempts=queue.attempts,
        timeout_attempts=queue.timeout_attempts,
        base=timedelta(seconds=queue.retry_base_seconds),
        factor=queue.retry_factor,
        jitter=queue.retry_jitter,
        hold_base=timedelta(seconds=queue.hold_base_seconds),
        hold_cap=timedelta(seconds=queue.hold_cap_seconds),
        delivery_attempts=queue.delivery_attempts,
        delivery_cap=timedelta(seconds=queue.delivery_cap_seconds),
    )


def retention(settings: Settings) -> Retention:
    queue = settings.queue
    return Retention(
        completed=timedelta(hours=queue.keep_completed_hours),
        acked=timedelta(hours=queue.keep_acked_hours),
        events=timedelta(days=queue.keep_events_days),
        unfetched=timedelta(days=queue.unfetched_days),
        history=timedelta(days=queue.keep_history_days),
        dead=timedelta(days=queue.keep_dead_days),
    )


def brakes(settings: Settings) -> Brakes:
    limits = settings.limits
    return Brakes(
        hops=limits.hops, conversation=limits.conversation_messages, per_minute=limits.agent_messages_per_minute
    )


def budgets(settings: Settings) -> Mapping[str, Budget]:
    """The budget of every scope that has one."""
    limits = settings.limits
    scopes: dict[str, BudgetSettings] = {OVERALL: limits}
    scopes.update({scope_of_agent(AgentId(agent)): budget for agent, budget in limits.agents.items()})
    scopes.update({scope_of_team(TeamId(team)): budget for team, budget in limits.teams.items()})
    limited = {scope: Budget(budget.daily_cost, budget.daily_tokens) for scope, budget in scopes.items()}
    return {scope: budget for scope, budget in limited.items() if budget != Budget()}


def price_of(settings: Settings, model: str) -> Price:
    """The price of a model, by its name with or without a date suffix; zero when none is configured."""
    prices = settings.limits.prices
    price = prices.get(model) or prices.get(_DATE.sub("", model))
    return Price() if price is None else Price(price.input, price.output, price.cache)


def default_agent(settings: Settings) -> AgentId:
    """The agent for messages without a recipient: the configured one, else `tinyagi`, else the first."""
    if settings.default_agent is not None:
        return AgentId(settings.default_agent)
    return AgentId(DEFAULT_AGENT if DEFAULT_AGENT in settings.agents else next(iter(settings.agents)))


def roster(settings: Settings) -> Roster:
    agents = {AgentId(name): Agent(AgentId(name), agent.name or name) for name, agent in settings.agents.items()}
    teams = {
        TeamId(name): Team(
            id=TeamId(name),
            name=team.name or name,
            # An agent that is listed twice is one member.
            agents=tuple(AgentId(member) for member in dict.fromkeys(team.agents)),
            leader=AgentId(team.leader_agent),
        )
        for name, team in settings.teams.items()
    }
    return Roster(agents, teams, default_agent(settings))


def heartbeat_of(settings: Settings, agent: AgentId) -> timedelta | None:
    """The interval of the agent's heartbeat, or None when it is off."""
    configured = settings.agents.get(agent)
    if configured is None or configured.heartbeat.enabled is False:
        return None
    intervals = (configured.heartbeat.interval, settings.monitoring.heartbeat_interval)
    default = HEARTBEAT_SECONDS if configured.heartbeat.enabled else 0
    seconds = next((interval for interval in intervals if interval is not None), default)
    return timedelta(seconds=seconds) if seconds else None
