"""Models of the queue: depth, lanes, running, waiting and dead messages."""

from typing import Annotated, Literal

from pydantic import Field

from tinyagi.api.base import Id, Instant, Model, Text
from tinyagi.domain.retry import HoldCause

Reason = Literal["next", "busy", "thread", "passive", "retry", "delayed", "team", "paused", "held"]


class QueueStatus(Model):
    """Counts of messages and responses. Each message is counted once: as pending, queued, processing, completed or
    dead."""

    pending: Annotated[int, Field(description="They wait although their agent is idle: paused, held or delayed.")]
    processing: int
    completed: int
    dead: int
    waiting: Annotated[int, Field(description="`pending` and `queued` together.")]
    incoming: Annotated[int, Field(description="The same as `pending`.")]
    queued: Annotated[int, Field(description="They wait for their agent's current run to finish.")]
    outgoing: Annotated[int, Field(description="Responses that no channel has acknowledged yet.")]
    active_conversations: int
    retrying: Annotated[int, Field(description="Pending messages that wait for another attempt.")] = 0
    next_retry_at: Annotated[int | None, Field(description="When the first of these is due, in ms.")] = None


class LaneStatus(Model):
    """An agent's lane."""

    agent: str
    pending: Annotated[int, Field(description="They wait although the agent is idle.")]
    queued: Annotated[int, Field(description="They wait for the agent's current run to finish.")]
    waiting: Annotated[int, Field(description="`pending` and `queued` together.")]
    processing: int
    dead: int
    paused: bool
    hold_until: Annotated[int | None, Field(description="No run starts before this instant, in ms.")] = None
    hold_reason: str | None = None
    hold_cause: Annotated[HoldCause | None, Field(description="`fix`: only a person can end it.")] = None


class RunningMessage(Model):
    """A running or waiting message."""

    id: int
    message_id: str
    channel: str
    sender: str
    sender_id: Annotated[str | None, Field(description="The chat that it came from.")]
    message: str
    agent: str
    status: Annotated[str, Field(description="`processing`, or `queued` while it waits for any reason.")]
    conversation_id: str
    attempt: int
    process_alive: Annotated[bool, Field(description="True when this daemon executes the run.")]
    started_at: int | None
    duration: Annotated[int, Field(description="Milliseconds since it started.")]
    progress: Annotated[str, Field(description="The latest output of the run.")]


class RunKilled(Model):
    """The run has ended and its messages are dead; `processKilled` is false if it ended before the kill."""

    ok: bool = True
    agent: str
    process_killed: bool


class DeadData(Model):
    """The message itself."""

    channel: str
    sender: str
    sender_id: str | None
    message: str
    message_id: str
    agent: str


class DeadMessage(Model):
    """A message that is not retried automatically."""

    id: int
    data: DeadData
    conversation_id: str
    failed_reason: str
    attempts_made: int
    timestamp: Annotated[int, Field(description="When it was sent, in ms.")]
    failed_at: Annotated[int, Field(description="When it died, in ms.")]


class RetryDead(Model):
    """Retry a dead message, optionally with a new text."""

    message: Annotated[Text | None, Field(description="A new text; defaults to the stored one.")] = None


class WaitingMessage(Model):
    """A waiting message, with the reason.

    `next`: it is claimed as soon as a run is free. `busy`: the agent runs another message. `thread`: an older message
    of its thread goes first. `passive`: a room post that joins the agent's next run. `retry`: its last run failed.
    `delayed`: it was sent with a delay. `team`: the budget of its team is used up. `paused`, `held`: the agent
    starts no run.
    """

    id: int
    message_id: str
    agent: str
    channel: str
    sender: str
    sender_id: Annotated[str | None, Field(description="The chat that it came from.")]
    from_agent: Annotated[str | None, Field(description="The agent that sent it.")]
    team: str | None
    conversation_id: str
    thread: Annotated[str, Field(description="Messages of a thread run in order.")]
    priority: int
    message: Annotated[str, Field(description="The first 500 characters.")]
    created_at: Instant
    reason: Reason
    until: Annotated[Instant | None, Field(description="When the reason ends, if that is known.")] = None
    behind: Annotated[int | None, Field(description="The `id` of the message that runs or goes first.")] = None
    detail: Annotated[str | None, Field(description="Why the lane is held, or the last error.")] = None
    hold_cause: HoldCause | None = None
    attempt: Annotated[int, Field(description="The number of its next run.")]
    attempts: Annotated[int, Field(description="Failed runs after which it is dead.")]


class CancelledMessage(Model):
    """The message is dead: it can be retried or deleted."""

    ok: bool = True
    id: int
    message_id: str
    agent: str


class LaneCancelled(Model):
    """The number of cancelled messages."""

    ok: bool = True
    cancelled: int


class MoveMessage(Model):
    """The new agent of a message."""

    to: Annotated[Id, Field(description="Another agent.")]


class MovedMessage(Model):
    """The message now waits for another agent."""

    ok: bool = True
    id: int
    message_id: str
    agent: str
