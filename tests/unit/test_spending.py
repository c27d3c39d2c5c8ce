"""What runs cost and when a daily budget is used up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagi.domain.ids import AgentId, TeamId
from tinyagi.domain.limits import OVERALL, Budget, Charge, Price, Spent, Usage, charge, excess, scopes_of

CODER, DEV = AgentId("coder"), TeamId("dev")
PRICE = Price(input=3.0, output=15.0, cache=0.3)
counts = st.integers(0, 10**9)


def test_a_run_counts_overall_and_for_its_agent_and_team() -> None:
    assert scopes_of(CODER, DEV) == (OVERALL, "agent:coder", "team:dev")
    assert scopes_of(CODER, None) == (OVERALL, "agent:coder")


def test_a_price_is_per_million_tokens_of_each_kind() -> None:
    assert PRICE.of(Usage(1_000_000, 100_000, 1_000_000)) == pytest.approx(3.0 + 1.5 + 0.3)


def test_the_providers_cost_wins_over_the_price_table() -> None:
    assert charge(Usage(10, 5, cost=0.5), PRICE, "2026-01-01", ("*",)) == Charge("2026-01-01", ("*",), 15, 0.5)


def test_a_provider_cost_of_zero_wins_over_the_price_table() -> None:
    assert charge(Usage(10, 5, cost=0.0), PRICE, "2026-01-01", ("*",)) == Charge("2026-01-01", ("*",), 15, 0.0)


@pytest.mark.parametrize("usage", [None, Usage(), Usage(0, 0, 0, 0.0)])
def test_a_run_without_usage_is_not_charged(usage: Usage | None) -> None:
    assert charge(usage, PRICE, "2026-01-01", ("*",)) is None


@given(counts, counts, counts)
def test_every_kind_of_token_counts(given_in: int, out: int, cached: int) -> None:
    charged = charge(Usage(given_in, out, cached), Price(), "2026-01-01", ("*",))
    assert (0 if charged is None else charged.tokens) == given_in + out + cached


@pytest.mark.parametrize(("cost", "stopped"), [(9.99, False), (10.0, True), (11.0, True)])
def test_a_budget_of_cost_is_used_up_when_it_is_reached(cost: float, stopped: bool) -> None:
    found = excess(("*",), {"*": Budget(cost=10)}, {"*": Spent(5, cost)})
    assert (found is not None) is stopped


@pytest.mark.parametrize(("tokens", "stopped"), [(999, False), (1000, True)])
def test_a_budget_of_tokens_is_used_up_when_it_is_reached(tokens: int, stopped: bool) -> None:
    found = excess(("*",), {"*": Budget(tokens=1000)}, {"*": Spent(tokens, 0)})
    assert (found is not None) is stopped


def test_spending_without_a_budget_is_unlimited() -> None:
    assert excess(("*", "agent:coder"), {}, {"*": Spent(10**9, 10**6)}) is None
    assert excess(("*",), {"*": Budget()}, {"*": Spent(10**9, 10**6)}) is None


def test_a_budget_of_zero_is_used_up_from_the_start() -> None:
    assert excess(("*",), {"*": Budget(cost=0)}, {}) is not None


@pytest.mark.parametrize(
    ("scope", "words"), [("*", "for all agents"), ("agent:coder", "of @coder"), ("team:dev", "of team dev")]
)
def test_the_reason_says_whose_budget_it_is(scope: str, words: str) -> None:
    found = excess(("other", scope), {scope: Budget(cost=2)}, {scope: Spent(0, 3)})
    assert found is not None
    assert found.scope == scope
    assert words in found.reason
