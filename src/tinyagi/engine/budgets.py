"""Daily budgets: whether a run may start, and otherwise how long it waits."""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, time, timedelta

from tinyagi.domain.errors import TinyAGIError
from tinyagi.domain.events import BudgetReached
from tinyagi.domain.ids import AgentId, TeamId
from tinyagi.domain.limits import Budget, Charge, Price, Usage, charge, excess, scope_of_team, scopes_of
from tinyagi.domain.runs import Claim, Deferral
from tinyagi.store.sessions import SpendStore

log = logging.getLogger(__name__)


def local_time() -> datetime:
    return datetime.now().astimezone()


class RunDeferred(TinyAGIError):
    """The run may not start now; its messages wait."""

    def __init__(self, reason: str, withheld: Deferral) -> None:
        super().__init__(reason)
        self.withheld = withheld


class Budgets:
    """Compares today's spend with the budgets of the settings. A day ends at local midnight."""

    def __init__(self, spending: SpendStore, now: Callable[[], datetime] = local_time) -> None:
        self._spending = spending
        self._now = now
        self._deferred_teams: set[tuple[str, TeamId]] = set()
        """Teams, by day, with a run that was deferred because the team's budget is used up."""
        self._unpriced: set[str] = set()

    def charge(
        self,
        usage: Usage | None,
        price: Price,
        claim: Claim,
        budgets: Mapping[str, Budget],
    ) -> Charge | None:
        """The run's share of today's spend; None when its usage is unknown."""
        if usage is None:
            return None
        made = charge(usage, price, self._today(), scopes_of(claim.agent, claim.primary.team))
        if made is not None and usage.cost is None and price == Price():
            self._warn_of_missing_price(usage.model or "", budgets)
        return made

    def _warn_of_missing_price(self, model: str, budgets: Mapping[str, Budget]) -> None:
        """Warn once per model that a budget cannot count its cost."""
        if model not in self._unpriced and any(budget.cost is not None for budget in budgets.values()):
            self._unpriced.add(model)
            log.warning("no price is known for %s: it counts as free. Set limits.prices in the settings.", model)

    async def check(self, claim: Claim, budgets: Mapping[str, Budget]) -> None:
        """Raise RunDeferred when a budget that this run counts towards is used up."""
        if not budgets:
            return
        team = claim.primary.team
        over = excess(scopes_of(claim.agent, team), budgets, await self._spending.of_day(self._today()))
        if over is None:
            return
        midnight = self._midnight_ms()
        over_team = team if team is not None and over.scope == scope_of_team(team) else None
        if over_team is not None:
            # From now on claims skip the team's messages; the lane continues with its other work.
            self._deferred_teams.add((self._today(), over_team))
        notice = (
            f"@{claim.agent} cannot start on this now: {over.reason}. It continues at midnight or with a higher limit."
        )
        fact = BudgetReached(over.scope, over.reason, midnight)
        raise RunDeferred(over.reason, Deferral(fact, notice, midnight if over_team is None else None))

    async def held_teams(self, budgets: Mapping[str, Budget]) -> frozenset[TeamId]:
        """Teams whose budget is used up and whose senders have got a notice."""
        today = self._today()
        self._deferred_teams = {(day, team) for day, team in self._deferred_teams if day == today}
        if not self._deferred_teams:
            return frozenset()
        spent = await self._spending.of_day(today)
        return frozenset(team for _, team in self._deferred_teams if excess([scope_of_team(team)], budgets, spent))

    async def allows(self, agent: AgentId, budgets: Mapping[str, Budget]) -> bool:
        """True when neither the agent's own budget nor the overall one is used up."""
        return (
            not budgets or excess(scopes_of(agent, None), budgets, await self._spending.of_day(self._today())) is None
        )

    def _today(self) -> str:
        return self._now().date().isoformat()

    def _midnight_ms(self) -> int:
        now = self._now()
        # Computed from the naive date: the night of a clock change is an hour longer or shorter.
        midnight = datetime.combine(now.date() + timedelta(days=1), time()).astimezone()
        return int(midnight.timestamp() * 1000)
