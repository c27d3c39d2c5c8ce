"""State and depth of lanes: pauses, holds and resumes them; moves or ends their pending messages, one message or a
whole lane in slices.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tinyagi.domain.errors import Conflict, NotFound
from tinyagi.domain.events import LanePaused, LaneResumed, MessageDead, MessageMoved
from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import Message, Status
from tinyagi.domain.responses import cancel_notice
from tinyagi.domain.retry import HoldCause
from tinyagi.store.claim import hold_lane, unpark_threads
from tinyagi.store.readers import Readers
from tinyagi.store.transaction import Transaction
from tinyagi.store.unanswered import UnansweredBatch
from tinyagi.store.writer import Writer

LANE_SLICE: Final = 1000
ABANDONED: Final = "abandoned"


@dataclass(frozen=True, slots=True)
class LaneState:
    agent: AgentId
    paused: bool
    hold_until: int
    hold_reason: str | None
    hold_cause: HoldCause | None
    holds: int
    claim_id: str | None
    owner: str | None
    lease_until: int | None


@dataclass(frozen=True, slots=True)
class LaneDepth:
    agent: str
    pending: int = 0
    processing: int = 0
    completed: int = 0
    dead: int = 0

    @property
    def queued(self) -> int:
        """Pending messages behind a run of the same lane."""
        return self.pending if self.processing else 0


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """How many messages and responses are in each state; triggers keep the counts."""

    pending: int
    processing: int
    completed: int
    dead: int
    outgoing: int
    open_conversations: int
    lanes: tuple[LaneDepth, ...]

    @property
    def queued(self) -> int:
        """Pending messages whose agent is running another one."""
        return sum(lane.queued for lane in self.lanes)


class ClaimableLane(NamedTuple):
    agent: AgentId
    pending: int
    has_due: bool
    """True when due messages are not in the ready set yet: `promote` moves them there."""


class Lanes:
    """Pause and hold of lanes, by a person or by a budget."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def pause(self, agent: AgentId) -> bool:
        """Let the current run finish and allow no further claim; False when the lane was already paused."""
        return await self._writer.run(pause, agent)

    async def resume(self, agent: AgentId) -> bool:
        """Lift pause and hold; False when there was neither."""
        return await self._writer.run(resume, agent)

    async def hold(self, agent: AgentId, *, until: int, reason: str, cause: HoldCause | None = None) -> None:
        """Allow no claim before this instant; 0 lifts the hold, and the reason is recorded."""
        await self._writer.run(hold_lane, agent, until=until, reason=reason, cause=cause)

    async def all(self) -> tuple[LaneState, ...]:
        """Every lane that was ever claimed, paused or held."""
        rows = await self._readers.rows("lane_rows")
        return tuple(
            LaneState(AgentId(agent), bool(paused), until, reason, cause and HoldCause(cause), *rest)
            for agent, paused, until, reason, cause, *rest in rows
        )


def pause(tx: Transaction, agent: AgentId) -> bool:
    """Returns True when the lane was not paused before."""
    changed = tx.change("pause_lane", (agent,))
    if changed:
        tx.record_alone(LanePaused(), agent)
    return changed


def resume(tx: Transaction, agent: AgentId) -> bool:
    """Returns True when the lane was paused or held before."""
    changed = tx.change("resume_lane", (agent,))
    if changed:
        tx.record_alone(LaneResumed(), agent)
    return changed


def abandon(tx: Transaction, agent: AgentId, *, reason: str, notice: str | None = None) -> int:
    """Returns how many messages of the slice were ended as dead."""
    messages = _pending(tx, agent)
    batch = UnansweredBatch(tx, None)
    for message in messages:
        _add_abandoned(batch, message, reason=reason, notice=notice)
    batch.write()
    return len(messages)


def cancel(tx: Transaction, message_id: int, reason: str) -> Message:
    """Returns the message as it was before the call."""
    message = _pending_message(tx, message_id)
    batch = UnansweredBatch(tx, None)
    _add_abandoned(batch, message, reason=reason, notice=cancel_notice(message.agent))
    batch.write()
    return message


def _add_abandoned(batch: UnansweredBatch, message: Message, *, reason: str, notice: str | None) -> None:
    # Uses no attempt: the message did not run.
    dead = MessageDead(message.id, None, message.retry_count, ABANDONED, reason)
    batch.add_dead(message, message.retry_count, dead, reason, notice=notice)


def move_pending(tx: Transaction, agent: AgentId, *, to: AgentId) -> int:
    """Returns how many messages of the slice were moved."""
    return len(_move(tx, _pending(tx, agent), to))


def move_message(tx: Transaction, message_id: int, to: AgentId) -> Message:
    """Returns the moved message."""
    message = _pending_message(tx, message_id)
    if message.agent == to:
        raise Conflict(f"Message {message.id} already waits for @{message.agent}.")
    return _move(tx, [message], to)[0]


def _move(tx: Transaction, messages: Sequence[Message], to: AgentId) -> list[Message]:
    moved = [
        message._replace(agent=to, updated_at=tx.now, last_event_id=tx.record(MessageMoved(message.id, to), message))
        for message in messages
    ]
    rows = [(message.id, message.agent, message.updated_at, message.last_event_id) for message in moved]
    tx.connection.executemany(tx.sql["move_message"], rows)
    return moved


def _pending(tx: Transaction, agent: AgentId) -> list[Message]:
    found = tx.connection.execute(tx.sql["pending_of_lane"], {"agent": agent, "limit": LANE_SLICE})
    messages = [Message._make(row) for row in found]
    # If this is the last slice, nothing else would unpark the messages behind these.
    unpark_threads(tx, agent, {message.thread for message in messages})
    return messages


def _pending_message(tx: Transaction, number: int) -> Message:
    row = tx.connection.execute(tx.sql["message_by_id"], (number,)).fetchone()
    if row is None:
        raise NotFound(f"There is no message {number}. `tinyagi queue list` lists pending messages.")
    message = Message._make(row)
    if message.status == Status.PROCESSING:
        raise Conflict(f"Message {number} is running. `tinyagi queue kill {number}` ends the run.")
    if message.status != Status.PENDING:
        raise Conflict(f"Message {number} is {message.status}, no longer pending.")
    # Messages behind one in back-off are parked until it ends.
    unpark_threads(tx, message.agent, {message.thread})
    return message
