"""Pauses, holds and resumes lanes; moves or ends their pending messages, one message or a whole lane in slices."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tinyagi.domain.errors import Conflict, NotFound
from tinyagi.domain.events import LanePaused, LaneResumed, MessageDead, MessageMoved
from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import Message, Status
from tinyagi.domain.responses import cancel_notice
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
    holds: int
    claim_id: str | None
    owner: str | None
    lease_until: int | None


class Lanes:
    """Pause and hold of lanes, by a person or by a budget."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def pause(self, agent: AgentId) -> bool:
        """Let the current run finish and allow no further claim; False when the lane was already paused."""
        return await self._writer.write(pause, agent)

    async def resume(self, agent: AgentId) -> bool:
        """Lift pause and hold; False when there was neither."""
        return await self._writer.write(resume, agent)

    async def hold(self, agent: AgentId, *, until: int, reason: str) -> None:
        """Allow no claim before this instant; 0 lifts the hold, and the reason is recorded."""
        await self._writer.write(hold_lanes, HoldRequest(agent, until, reason))

    async def all(self) -> tuple[LaneState, ...]:
        """Every lane that was ever claimed, paused or held."""
        rows = await self._readers.rows("lane_rows")
        return tuple(LaneState(AgentId(agent), bool(paused), *rest) for agent, paused, *rest in rows)


@dataclass(frozen=True, slots=True)
class HoldRequest:
    agent: AgentId
    until: int
    reason: str


def pause(tx: Transaction, agents: Sequence[AgentId]) -> list[bool]:
    """Returns True for each lane that was not paused before."""
    changed = []
    for agent in agents:
        changed.append(tx.change("pause_lane", (agent,)))
        if changed[-1]:
            tx.record_alone(LanePaused(), agent)
    return changed


def resume(tx: Transaction, agents: Sequence[AgentId]) -> list[bool]:
    """Returns True for each lane that was paused or held before."""
    changed = []
    for agent in agents:
        changed.append(tx.change("resume_lane", (agent,)))
        if changed[-1]:
            tx.record_alone(LaneResumed(), agent)
    return changed


def hold_lanes(tx: Transaction, requests: Sequence[HoldRequest]) -> list[None]:
    """Hold each lane until its instant; 0 lifts the hold."""
    for request in requests:
        hold_lane(tx, request.agent, request.until, request.reason, 0)
    return [None] * len(requests)


@dataclass(frozen=True, slots=True)
class AbandonRequest:
    agent: AgentId
    reason: str
    notice: str | None = None


@dataclass(frozen=True, slots=True)
class MoveRequest:
    agent: AgentId
    to: AgentId


@dataclass(frozen=True, slots=True)
class CancelRequest:
    id: int
    reason: str


@dataclass(frozen=True, slots=True)
class MoveMessageRequest:
    id: int
    to: AgentId


def abandon(tx: Transaction, requests: Sequence[AbandonRequest]) -> list[int]:
    """Returns how many messages of each lane were ended as dead."""
    return [_abandon_slice(tx, request) for request in requests]


def _abandon_slice(tx: Transaction, request: AbandonRequest) -> int:
    messages = _pending(tx, request.agent)
    batch = UnansweredBatch(tx, None)
    for message in messages:
        # Uses no attempt: the message did not run.
        dead = MessageDead(message.id, None, message.retry_count, ABANDONED, request.reason)
        batch.add_dead(message, message.retry_count, dead, request.reason, notice=request.notice)
    batch.write()
    return len(messages)


def move_pending(tx: Transaction, requests: Sequence[MoveRequest]) -> list[int]:
    """Returns how many messages of each lane were moved."""
    return [_move_slice(tx, request) for request in requests]


def _move_slice(tx: Transaction, request: MoveRequest) -> int:
    return len(_move(tx, _pending(tx, request.agent), request.to))


def cancel(tx: Transaction, requests: Sequence[CancelRequest]) -> list[Message]:
    """Returns the messages as they were before the call."""
    messages = []
    for request in requests:
        message = _pending_message(tx, request.id)
        batch = UnansweredBatch(tx, None)
        dead = MessageDead(message.id, None, message.retry_count, ABANDONED, request.reason)
        batch.add_dead(message, message.retry_count, dead, request.reason, notice=cancel_notice(message.agent))
        batch.write()
        messages.append(message)
    return messages


def move_message(tx: Transaction, requests: Sequence[MoveMessageRequest]) -> list[Message]:
    """Returns the moved messages."""
    messages = []
    for request in requests:
        message = _pending_message(tx, request.id)
        if message.agent == request.to:
            raise Conflict(f"Message {message.id} already waits for @{message.agent}.")
        messages.append(_move(tx, [message], request.to)[0])
    return messages


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
