"""The events of the log: one frozen type each, whose fields are the payload. Together they rebuild every table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from tinyagi.domain.ids import AgentId, ClaimId, MessageId, TeamId
from tinyagi.domain.limits import Usage
from tinyagi.domain.retry import HoldCause

Row = Mapping[str, Any]
"""A whole row: column name to value."""


class Event:
    """Base of all events. `type` is the name on the wire and never changes; `version` counts the payload's shapes."""

    __slots__ = ()
    type: ClassVar[str]
    version: ClassVar[int] = 1


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event as the log stores it."""

    id: int
    type: str
    version: int
    message_id: str | None
    conversation_id: str | None
    conversation_started_at: int | None
    agent: str | None
    payload: Row
    created_at: int


@dataclass(frozen=True, slots=True)
class MessageReceived(Event):
    type = "message_received"
    message: Row
    history_id: int


@dataclass(frozen=True, slots=True)
class AgentRouted(Event):
    type = "agent_routed"
    agent_name: str
    provider: str
    model: str
    team_id: TeamId | None = None


@dataclass(frozen=True, slots=True)
class ChainStepStart(Event):
    """A run begins."""

    type = "chain_step_start"
    claim_id: ClaimId
    ids: tuple[int, ...]
    """`messages.id` of every message of the run, the primary first."""
    message_ids: tuple[MessageId, ...]
    attempt: int
    from_agent: AgentId | None
    wait_ms: int


@dataclass(frozen=True, slots=True)
class AgentProgress(Event):
    """Text of a run in progress: live only, never stored."""

    type = "agent_progress"
    claim_id: ClaimId
    text: str


@dataclass(frozen=True, slots=True)
class ChainStepDone(Event):
    """A run succeeded: its messages are completed, its answer is in the agent's history."""

    type = "chain_step_done"
    claim_id: ClaimId
    ids: tuple[int, ...]
    message_ids: tuple[MessageId, ...]
    channel: str
    sender: str
    content: str
    history_id: int
    team_id: TeamId | None
    duration_ms: int
    usage: Usage | None


@dataclass(frozen=True, slots=True)
class ChainHandoff(Event):
    type = "chain_handoff"
    team_id: TeamId | None
    from_agent: AgentId
    to_agent: AgentId
    message_id: MessageId


@dataclass(frozen=True, slots=True)
class ResponseReady(Event):
    type = "response_ready"
    response: Row


@dataclass(frozen=True, slots=True)
class TeamChainStart(Event):
    type = "team_chain_start"
    team_id: TeamId
    agents: tuple[AgentId, ...]
    leader: AgentId


@dataclass(frozen=True, slots=True)
class TeamChainEnd(Event):
    type = "team_chain_end"
    team_id: TeamId
    total_steps: int


@dataclass(frozen=True, slots=True)
class MessageFailed(Event):
    """A run failed and the message goes back to pending."""

    type = "message_failed"
    id: int
    claim_id: ClaimId
    attempt: int
    attempt_used: bool
    kind: str
    reason: str
    available_at: int
    usage: Usage | None = None
    """The usage of the failed run; recorded once per run, with its primary message."""


@dataclass(frozen=True, slots=True)
class MessageDead(Event):
    """No automatic retry: the last attempt failed, or the message was abandoned before it ran."""

    type = "message_dead"
    id: int
    claim_id: ClaimId | None
    """None when no run ended with it; `attempt` then counts the earlier runs."""
    attempt: int
    kind: str
    reason: str
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class MessageStopped(Event):
    """A person ended the run: the message is dead."""

    type = "message_stopped"
    id: int
    claim_id: ClaimId
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class MessageReleased(Event):
    """The run ended without a result, at shutdown or by an interrupt: pending again, no attempt used."""

    type = "message_released"
    id: int
    claim_id: ClaimId
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class MessageRecovered(Event):
    """The process that held the claim is gone: pending again, an attempt used."""

    type = "message_recovered"
    id: int
    claim_id: ClaimId
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class MessageRetried(Event):
    """A person retried a dead message: its attempts start over, perhaps with another text."""

    type = "message_retried"
    id: int
    message: str


@dataclass(frozen=True, slots=True)
class MessageMoved(Event):
    """A pending message moved to another lane."""

    type = "message_moved"
    id: int
    to_agent: AgentId


@dataclass(frozen=True, slots=True)
class MessageDeleted(Event):
    type = "message_deleted"
    id: int
    reason: str


@dataclass(frozen=True, slots=True)
class ResponseAcked(Event):
    type = "response_acked"
    id: int


@dataclass(frozen=True, slots=True)
class ResponseFailed(Event):
    """A delivery failed; `final` means no further attempt."""

    type = "response_failed"
    id: int
    attempts: int
    reason: str
    available_at: int
    final: bool


@dataclass(frozen=True, slots=True)
class ChatPosted(Event):
    type = "chat_posted"
    post: Row


@dataclass(frozen=True, slots=True)
class RowImported(Event):
    """A row that is older than the event log; `row` holds every column."""

    type = "row_imported"
    table: str
    row: Row


@dataclass(frozen=True, slots=True)
class LoopStopped(Event):
    """A brake refused an agent's hand-offs."""

    type = "loop_stopped"
    reason: str
    limit: int
    to_agents: tuple[AgentId, ...] = ()


@dataclass(frozen=True, slots=True)
class BudgetReached(Event):
    """A run waits because a daily budget is used up."""

    type = "budget_reached"
    scope: str
    reason: str
    until: int


@dataclass(frozen=True, slots=True)
class SessionLost(Event):
    """The provider no longer knew the stored session; the run started a new one."""

    type = "session_lost"
    provider: str
    session_id: str


@dataclass(frozen=True, slots=True)
class SessionReset(Event):
    """The agent's stored sessions were deleted; its next run starts a new one."""

    type = "session_reset"
    by: str


@dataclass(frozen=True, slots=True)
class LaneHeld(Event):
    type = "lane_held"
    hold_until: int
    reason: str
    holds: int
    cause: HoldCause | None = None


@dataclass(frozen=True, slots=True)
class LanePaused(Event):
    type = "lane_paused"


@dataclass(frozen=True, slots=True)
class LaneResumed(Event):
    """The lane takes claims again: pause and hold are lifted."""

    type = "lane_resumed"


@dataclass(frozen=True, slots=True)
class SettingsRejected(Event):
    type = "settings_rejected"
    reason: str


@dataclass(frozen=True, slots=True)
class ProcessorStart(Event):
    type = "processor_start"
    owner: str


@dataclass(frozen=True, slots=True)
class ProcessorStop(Event):
    type = "processor_stop"
    owner: str


EVENT_TYPES: Final[Mapping[str, type[Event]]] = {
    event.type: event
    for event in (
        MessageReceived,
        AgentRouted,
        ChainStepStart,
        AgentProgress,
        ChainStepDone,
        ChainHandoff,
        ResponseReady,
        TeamChainStart,
        TeamChainEnd,
        MessageFailed,
        MessageDead,
        MessageStopped,
        MessageReleased,
        MessageRecovered,
        MessageRetried,
        MessageMoved,
        MessageDeleted,
        ResponseAcked,
        ResponseFailed,
        ChatPosted,
        RowImported,
        LoopStopped,
        BudgetReached,
        SessionLost,
        SessionReset,
        LaneHeld,
        LanePaused,
        LaneResumed,
        SettingsRejected,
        ProcessorStart,
        ProcessorStop,
    )
}
