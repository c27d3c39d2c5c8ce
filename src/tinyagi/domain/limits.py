"""Limits: loop brakes on hand-offs, the cost of runs, daily budgets, and how long rows are kept."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tinyagi.domain.ids import AgentId, TeamId

OVERALL: Final = "*"


@dataclass(frozen=True, slots=True)
class Brake:
    """The limit that refused a message."""

    reason: str
    limit: int


@dataclass(frozen=True, slots=True)
class Brakes:
    hops: int = 10
    """Hand-offs in a row, counted from the person's message."""
    conversation: int = 50
    """Messages in one conversation, the person's included."""
    per_minute: int = 30
    """Messages from agents into one lane within a minute."""

    def refuse(self, *, to: str, hop: int, total: int, recent: int) -> Brake | None:
        """Check one more message to `to`; `total` and `recent` count the messages already there."""
        if hop > self.hops:
            return Brake(f"more than {self.hops} hand-offs in a row", self.hops)
        if total >= self.conversation:
            return Brake(f"more than {self.conversation} messages in one conversation", self.conversation)
        if recent >= self.per_minute:
            return Brake(f"more than {self.per_minute} messages from agents to @{to} within a minute", self.per_minute)
        return None


def loop_notice(agent: str, refused: tuple[str, ...], brake: Brake) -> str:
    """The notice to the person when a brake refused an agent's hand-offs."""
    names = ", ".join(f"@{name}" for name in dict.fromkeys(refused))
    return f"@{agent} wanted to hand work to {names}, but a limit stopped it: {brake.reason}. Write again to continue."


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of a run; None where the provider does not report it."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_tokens: int | None = None
    cost: float | None = None
    provider: str | None = None
    model: str | None = None


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
    """The amount that one run adds to a day's spend in each of its scopes."""

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
    """Per day; None means no limit."""

    cost: float | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Excess:
    """A scope whose budget is used up, and the reason in words."""

    scope: str
    reason: str


def scope_of_agent(agent: AgentId) -> str:
    return f"agent:{agent}"


def scope_of_team(team: TeamId) -> str:
    return f"team:{team}"


def scopes_of(agent: AgentId, team: TeamId | None) -> tuple[str, ...]:
    """The scopes that a run of this agent for this team counts towards, widest first."""
    return (OVERALL, scope_of_agent(agent), *(() if team is None else (scope_of_team(team),)))


def charge(usage: Usage | None, price: Price, day: str, scopes: tuple[str, ...]) -> Charge | None:
    """The charge for a run: the provider's own figure if it gives one, else the price table's."""
    if usage is None:
        return None
    tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0) + (usage.cache_tokens or 0)
    cost = usage.cost if usage.cost is not None else price.of(usage)
    return Charge(day, scopes, tokens, cost) if tokens or cost else None


def excess(scopes: Iterable[str], budgets: Mapping[str, Budget], spent: Mapping[str, Spent]) -> Excess | None:
    """The first scope whose budget is used up, or None."""
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


@dataclass(frozen=True, slots=True)
class Retention:
    """How long rows stay once the lake has them."""

    completed: timedelta = timedelta(hours=24)
    acked: timedelta = timedelta(hours=24)
    events: timedelta = timedelta(days=7)
    unfetched: timedelta = timedelta(days=7)
    history: timedelta = timedelta(days=30)
    """Lines of histories and rooms; without a lake they stay forever."""
    dead: timedelta = timedelta(days=90)
    """Dead messages and failed responses; without a lake they stay forever."""
