"""What runs cost, and the daily budgets that they are held to."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tinyagi.domain.ids import AgentId, TeamId
from tinyagi.domain.messages import Usage

OVERALL: Final = "*"


@dataclass(frozen=True, slots=True)
class Price:
    """Per million tokens, in the currency of the budgets."""

    input: float = 0.0
    output: float = 0.0
    cache: float = 0.0

    def of(self, usage: Usage) -> float:
        tokens = (usage.input_tokens or 0, usage.output_tokens or 0, usage.cache_tokens or 0)
        return (
            sum(count * price for count, price in zip(tokens, (self.input, self.output, self.cache), strict=True)) / 1e6
        )


@dataclass(frozen=True, slots=True)
class Charge:
    """What one run adds to a day's spend, in every scope that it counts for."""

    day: str
    scopes: tuple[str, ...]
    tokens: int
    cost: float


@dataclass(frozen=True, slots=True)
class Spent:
    tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Budget:
    """Per day; None is no limit."""

    cost: float | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Excess:
    """The scope whose budget is used up, in words."""

    scope: str
    reason: str


def scope_of_agent(agent: AgentId) -> str:
    return f"agent:{agent}"


def scope_of_team(team: TeamId) -> str:
    return f"team:{team}"


def scopes_of(agent: AgentId, team: TeamId | None) -> tuple[str, ...]:
    """Every scope that a run of this agent for this team counts for, the widest first."""
    return (OVERALL, scope_of_agent(agent), *(() if team is None else (scope_of_team(team),)))


def charge(usage: Usage | None, price: Price, day: str, scopes: tuple[str, ...]) -> Charge | None:
    """What a run costs: the provider's own figure where it gives one, else the price table's."""
    if usage is None:
        return None
    tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0) + (usage.cache_tokens or 0)
    cost = usage.cost if usage.cost is not None else price.of(usage)
    return Charge(day, scopes, tokens, cost) if tokens or cost else None


def excess(scopes: Iterable[str], budgets: Mapping[str, Budget], spent: Mapping[str, Spent]) -> Excess | None:
    """The first of the scopes whose budget is used up."""
    for scope in scopes:
        budget, used = budgets.get(scope, Budget()), spent.get(scope, Spent())
        if budget.cost is not None and used.cost >= budget.cost:
            return Excess(scope, f"the daily budget of {budget.cost:g} {_of(scope)} is used up ({used.cost:.2f} spent)")
        if budget.tokens is not None and used.tokens >= budget.tokens:
            return Excess(scope, f"the daily budget of {budget.tokens:,} tokens {_of(scope)} is used up")
    return None


def _of(scope: str) -> str:
    kind, _, name = scope.partition(":")
    if not name:
        return "for all agents"
    return f"of @{name}" if kind == "agent" else f"of team {name}"
