"""The queue as people watch and steer it: depths, lanes, what runs and what is dead."""

from typing import Annotated

from pydantic import Field

from tinyagi.api.base import Model
from tinyagi.api.texts import Text


class QueueStatus(Model):
    """How many messages and responses stand where."""

    pending: int
    processing: int
    completed: int
    dead: int
    incoming: Annotated[int, Field(description="The same as `pending`.")]
    queued: Annotated[int, Field(description="The same as `pending`.")]
    outgoing: Annotated[int, Field(description="Responses that no channel has acknowledged.")]
    active_conversations: int


class LaneStatus(Model):
    """An agent's lane."""

    agent: str
    pending: int
    queued: Annotated[int, Field(description="The same as `pending`.")]
    processing: int
    dead: int
    paused: bool
    hold_until: Annotated[int | None, Field(description="No run begins before this instant, in ms.")] = None
    hold_reason: str | None = None


class RunningMessage(Model):
    """A message that is being run."""

    id: int
    message_id: str
    channel: str
    sender: str
    message: str
    agent: str
    status: str
    conversation_id: str
    attempt: int
    process_alive: Annotated[bool, Field(description="True when this daemon carries the run.")]
    started_at: int | None
    duration: Annotated[int, Field(description="Milliseconds since it began.")]
    progress: Annotated[str, Field(description="The latest that the run has said.")]


class RunKilled(Model):
    """The run is over and its messages are dead; `processKilled` is false when it had just ended by itself."""

    ok: bool = True
    agent: str
    process_killed: bool


class DeadData(Model):
    """What was to be done."""

    channel: str
    sender: str
    sender_id: str | None
    message: str
    message_id: str
    agent: str


class DeadMessage(Model):
    """A message that is not tried again by itself."""

    id: int
    data: DeadData
    conversation_id: str
    failed_reason: str
    attempts_made: int
    timestamp: Annotated[int, Field(description="When it was sent, in ms.")]
    failed_at: Annotated[int, Field(description="When it died, in ms.")]


class RetryDead(Model):
    """Send a dead message again, perhaps with another text."""

    message: Annotated[Text | None, Field(description="Another text; without one, the stored text.")] = None
