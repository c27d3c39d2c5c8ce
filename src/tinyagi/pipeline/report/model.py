"""The data of a report, for the terminal, the HTML page and JSON. Instants and durations are in ms."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Percentiles of a duration; None without a measurement."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    is_exact: bool = False
    """False for values from a histogram: then each is in the right bucket of 1, 2, 5, 10, … ms."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the range; `tables.gold` defines the terms."""

    messages: int = 0
    """From people."""
    people: int = 0
    conversations: int = 0
    """All that started, including those of heartbeats, schedules and rooms."""
    open_conversations: int = 0
    """Conversations with a pending or running message; room posts do not count."""
    handoffs: int = 0
    runs: int = 0
    completed: int = 0
    failures: int = 0
    """Runs that failed, retried or not."""
    interrupted: int = 0
    """Runs that were stopped, released or recovered."""
    retries: int = 0
    dead: int = 0
    """Messages that are dead."""
    dead_from_people: int = 0
    """Dead messages from people."""
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
    interrupted: int
    retries: int
    dead: int
    """Dead messages in its lane."""
    wait: Percentiles
    run: Percentiles
    tokens: int
    cost: float


@dataclass(frozen=True, slots=True)
class AgentHour:
    """One agent in one hour, with exact percentiles."""

    agent: str
    hour: int
    runs: int
    wait: Percentiles
    run: Percentiles


@dataclass(frozen=True, slots=True)
class Slot:
    """Runs that ended within one hour or one day (UTC)."""

    start: int
    runs: int = 0
    completed: int = 0
    failures: int = 0
    tokens: int = 0
    cost: float = 0.0

    @property
    def interrupted(self) -> int:
        """Runs that neither completed nor failed."""
        return self.runs - self.completed - self.failures


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
    """The 95th percentile of the latency on the worst day: percentiles of days cannot be averaged."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause of dead messages, over all agents."""

    fingerprint: str
    error_kind: str
    error: str
    """The latest such error."""
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
class OpenConversation:
    """A conversation with a pending or running message."""

    conversation_id: str
    started_at: int
    channel: str
    agent: str
    message: str
    messages: int
    open: int


@dataclass(frozen=True, slots=True)
class ChannelFigures:
    channel: str
    messages: int
    people: int
    """0 on an internal channel such as `heartbeat`."""
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
    """The last event that every table includes."""


@dataclass(frozen=True, slots=True)
class Report:
    days: int
    start: int
    """Midnight UTC of the first day."""
    now: int
    freshness: Freshness | None
    """None when no pipeline run has ended yet."""
    notes: tuple[str, ...] = ()
    """What is missing, and the remedy."""
    totals: Totals = Totals()
    agents: tuple[AgentFigures, ...] = ()
    """The busiest first."""
    hourly: tuple[Slot, ...] = ()
    """Every hour, with or without runs; empty for a long range."""
    daily: tuple[Slot, ...] = ()
    """Every day, with or without runs."""
    costs: tuple[DayCost, ...] = ()
    slowest_hours: tuple[AgentHour, ...] = ()
    edges: tuple[Edge, ...] = ()
    causes: tuple[Cause, ...] = ()
    slowest: tuple[SlowConversation, ...] = ()
    """Of ended conversations."""
    open: tuple[OpenConversation, ...] = ()
    """The oldest first."""
    channels: tuple[ChannelFigures, ...] = ()
    alerts: tuple[Alert, ...] = ()
    """The latest first."""
    quarantined: int = 0
    quarantine: tuple[QuarantineReason, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True without runs, messages and conversations."""
        return not (self.totals.runs or self.totals.messages or self.totals.conversations)
