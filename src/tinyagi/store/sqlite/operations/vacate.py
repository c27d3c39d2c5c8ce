"""Vacate a lane: what is pending in it ends as dead or goes to another lane, a slice per transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tinyagi.domain.events import MessageDead, MessageMoved
from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import Message
from tinyagi.store.sqlite.operations.ready import unpark_threads
from tinyagi.store.sqlite.operations.returns import Returns
from tinyagi.store.sqlite.transaction import Transaction

SLICE: Final = 1000
ABANDONED: Final = "abandoned"


@dataclass(frozen=True, slots=True)
class AbandonRequest:
    agent: AgentId
    reason: str


@dataclass(frozen=True, slots=True)
class MoveRequest:
    agent: AgentId
    to: AgentId


def abandon(tx: Transaction, requests: Sequence[AbandonRequest]) -> list[int]:
    """Returns how many messages of each lane are dead now."""
    return [_abandon_slice(tx, request) for request in requests]


def move(tx: Transaction, requests: Sequence[MoveRequest]) -> list[int]:
    """Returns how many messages of each lane are in the other one now."""
    return [_move_slice(tx, request) for request in requests]


def _abandon_slice(tx: Transaction, request: AbandonRequest) -> int:
    messages = _pending(tx, request.agent)
    returns = Returns(tx, None)
    for message in messages:
        # No attempt is used: the message never ran for this.
        dead = MessageDead(message.id, None, message.retry_count, ABANDONED, request.reason)
        returns.add_dead(message, message.retry_count, dead, request.reason)
    returns.write()
    return len(messages)


def _move_slice(tx: Transaction, request: MoveRequest) -> int:
    messages = _pending(tx, request.agent)
    rows = [
        (message.id, request.to, tx.now, tx.record(MessageMoved(message.id, request.to), message))
        for message in messages
    ]
    tx.connection.executemany(tx.sql["move_message"], rows)
    return len(messages)


def _pending(tx: Transaction, agent: AgentId) -> list[Message]:
    found = tx.connection.execute(tx.sql["pending_of_lane"], {"agent": agent, "limit": SLICE})
    messages = [Message._make(row) for row in found]
    # If no further slice follows, nothing else would bring back what waits behind these.
    unpark_threads(tx, agent, {message.thread for message in messages})
    return messages
