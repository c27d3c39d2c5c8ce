"""How the queue runs: how much at once, how often again, how long things are kept."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from tinyagi.settings.section import Amount, Period, Seconds, Section

Attempts = Annotated[int, Field(ge=1, le=1000)]
Hours = Annotated[float, Field(ge=0, le=24 * 3660, allow_inf_nan=False)]
Days = Annotated[float, Field(ge=0, le=3660, allow_inf_nan=False)]


class QueueSettings(Section):
    max_runs: Annotated[int, Field(ge=1, le=1000)] = 8
    lease_seconds: Annotated[float, Field(ge=1, le=3600, allow_inf_nan=False)] = 60
    attempts: Attempts = 5
    timeout_attempts: Attempts = 2
    retry_base_seconds: Seconds = 2
    retry_factor: Annotated[int, Field(ge=1, le=100)] = 4
    retry_jitter: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.2
    hold_base_seconds: Period = 15
    hold_cap_seconds: Period = 900
    delivery_attempts: Attempts = 10
    delivery_cap_seconds: Period = 900
    recover_seconds: Period = 5
    maintenance_seconds: Period = 60
    shutdown_grace_seconds: Seconds = 20
    kill_grace_seconds: Seconds = 5
    interrupt_debounce_seconds: Seconds = 2
    interrupt_max: Annotated[int, Field(ge=0, le=1000)] = 3
    max_answer_characters: Annotated[int, Field(ge=1, le=1_000_000_000)] = 4_000_000
    keep_completed_hours: Hours = 24
    keep_acked_hours: Hours = 24
    keep_events_days: Days = 7
    unfetched_days: Days = 7
    keep_history_days: Days = 30
    """Of histories and rooms, once they are in the lake."""
    keep_dead_days: Days = 90
    """Dead messages and failed responses, once they are in the lake."""


class BudgetSettings(Section):
    """Per day; what is not set is not limited."""

    daily_cost: Amount | None = None
    daily_tokens: Annotated[int, Field(ge=0)] | None = None


class PriceSettings(Section):
    """Per million tokens."""

    input: Amount = 0
    output: Amount = 0
    cache: Amount = 0


class LimitsSettings(BudgetSettings):
    """Loop brakes, and budgets overall, per agent and per team."""

    hops: Annotated[int, Field(ge=0, le=1000)] = 10
    conversation_messages: Annotated[int, Field(ge=1, le=1_000_000)] = 50
    agent_messages_per_minute: Annotated[int, Field(ge=1, le=1_000_000)] = 30
    agents: Mapping[str, BudgetSettings] = Field(default_factory=dict)
    teams: Mapping[str, BudgetSettings] = Field(default_factory=dict)
    prices: Mapping[str, PriceSettings] = Field(default_factory=dict)
