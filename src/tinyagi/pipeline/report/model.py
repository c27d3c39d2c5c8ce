"""What a report holds: figures of the last days, ready for a terminal, a page or JSON. Instants and durations in ms."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Percentiles:
    """None where nothing was measured."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    is_exact: bool = False
    """False when they are read off a histogram: then each lies in the right bucket of 1, 2, 5, 10, … ms."""


@dataclass(frozen=True, slots=True)
class Totals:
    messages: int = 0
    """What people sent; hand-offs and room posts are none."""
    people: int = 0
    """Who began conversations: different names, each channel for itself; rooms are none."""
    conversations: int = 0
    handoffs: int = 0
    runs: int = 0
    completed: int = 0
    failures: int = 0
    """Runs that failed, whether or not they were tried again; dead ones are among them."""
    retries: int = 0
    dead: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_tokens: int = 0
    tokens: int = 0
    """All three kinds."""
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class AgentFigures:
    agent: str
    runs: int
    completed: int
    failures: int
    retries: int
    dead: int
    wait: Percentiles
    run: Percentiles
    tokens: int
    cost: float


@dataclass(frozen=True, slots=True)
class AgentHour:
    """One agent in one hour: here the percentiles are exact."""

    agent: str
    hour: int
    runs: int
    wait: Percentiles
    run: Percentiles


@dataclass(frozen=True, slots=True)
class Slot:
    """What ended within one hour or one day (UTC)."""

    start: int
    runs: int = 0
    completed: int = 0
    failures: int = 0
    dead: int = 0
    tokens: int = 0
    cost: float = 0.0

    @property
    def failed(self) -> int:
        """Runs that failed and did not end their message."""
        return max(0, self.failures - self.dead)


@dataclass(frozen=True, slots=True)
class DayCost:
    day: int
    agent: str
    cost: float


@dataclass(frozen=True, slots=True)
class Edge:
    from_agent: str
    to_agent: str
    handoffs: int
    completed: int
    dead: int
    worst_p95: float | None
    """95 % took no longer until the teammate was done, on the worst day: days cannot be averaged."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why messages died, over all agents."""

    fingerprint: str
    error_kind: str
    error: str
    """The latest one."""
    agents: tuple[str, ...]
    messages: int
    still_dead: int
    first_at: int | None
    last_at: int | None
    example_id: int | None


@dataclass(frozen=True, slots=True)
class SlowConversation:
    conversation_id: str
    started_at: int
    channel: str
    agent: str
    message: str
    messages: int
    depth: int
    agents: int
    critical_path_ms: int
    run_ms: int
    cost: float


@dataclass(frozen=True, slots=True)
class ChannelFigures:
    channel: str
    messages: int
    people: int
    completed: int
    dead: int
    responses: int
    delivered: int
    undelivered: int
    worst_p95: float | None
    """From message to completion, on the worst day."""


@dataclass(frozen=True, slots=True)
class Alert:
    rule: str
    agent: str
    hour: int
    text: str


@dataclass(frozen=True, slots=True)
class QuarantineReason:
    reason: str
    events: int


@dataclass(frozen=True, slots=True)
class Freshness:
    written_at: int
    """When the last finished pipeline run ended."""
    through_id: int
    """The last event that is part of every table."""


@dataclass(frozen=True, slots=True)
class Report:
    days: int
    start: int
    """The first of the days, from midnight UTC."""
    now: int
    freshness: Freshness | None
    """None when no pipeline run has ended yet."""
    notes: tuple[str, ...] = ()
    """What is missing, and the remedy."""
    totals: Totals = Totals()
    agents: tuple[AgentFigures, ...] = ()
    """The busiest first."""
    hourly: tuple[Slot, ...] = ()
    """Every hour, with or without runs; none for a long range."""
    daily: tuple[Slot, ...] = ()
    """Every day, with or without runs."""
    costs: tuple[DayCost, ...] = ()
    slowest_hours: tuple[AgentHour, ...] = ()
    edges: tuple[Edge, ...] = ()
    causes: tuple[Cause, ...] = ()
    slowest: tuple[SlowConversation, ...] = ()
    channels: tuple[ChannelFigures, ...] = ()
    alerts: tuple[Alert, ...] = ()
    """The latest first."""
    quarantined: int = 0
    quarantine: tuple[QuarantineReason, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True when nothing ran and nothing came."""
        return not (self.totals.runs or self.totals.messages or self.totals.conversations)
