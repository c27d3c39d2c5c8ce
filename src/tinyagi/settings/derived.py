"""What the settings mean for the queue: its policies, limits and people, as the domain knows them."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from tinyagi.domain.brakes import Brakes
from tinyagi.domain.ids import AgentId, TeamId
from tinyagi.domain.retry import RetryPolicy
from tinyagi.domain.spending import OVERALL, Budget, Price, scope_of_agent, scope_of_team
from tinyagi.domain.teams import Agent, Roster, Team
from tinyagi.settings.model import DEFAULT_AGENT, Settings
from tinyagi.settings.queue import BudgetSettings
from tinyagi.store.base import Retention

_DATE: Final = re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$")


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
    """The price of a model, found by its name, with or without the date at its end; nothing when there is none."""
    prices = settings.limits.prices
    price = prices.get(model) or prices.get(_DATE.sub("", model))
    return Price() if price is None else Price(price.input, price.output, price.cache)


def default_agent(settings: Settings) -> AgentId:
    """Who takes what names nobody: the configured one, else `tinyagi`, else the first."""
    if settings.default_agent is not None:
        return AgentId(settings.default_agent)
    return AgentId(DEFAULT_AGENT if DEFAULT_AGENT in settings.agents else next(iter(settings.agents)))


def roster(settings: Settings) -> Roster:
    agents = {AgentId(name): Agent(AgentId(name), agent.name or name) for name, agent in settings.agents.items()}
    teams = {
        TeamId(name): Team(
            id=TeamId(name),
            name=team.name or name,
            # Whoever stands twice in the list is one member.
            agents=tuple(AgentId(member) for member in dict.fromkeys(team.agents)),
            leader=AgentId(team.leader_agent),
        )
        for name, team in settings.teams.items()
    }
    return Roster(agents, teams, default_agent(settings))


def heartbeat_of(settings: Settings, agent: AgentId) -> timedelta | None:
    """How often the agent is asked by itself, or None when it is not."""
    configured = settings.agents.get(agent)
    if configured is None or not configured.heartbeat.enabled:
        return None
    interval = configured.heartbeat.interval
    seconds = settings.monitoring.heartbeat_interval if interval is None else interval
    return timedelta(seconds=seconds) if seconds else None
