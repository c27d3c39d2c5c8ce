"""Dead letters: a person sends one again or removes it."""

from collections.abc import Sequence
from dataclasses import dataclass

from tinyagi.domain.errors import NotFound
from tinyagi.domain.events import MessageDeleted, MessageRetried
from tinyagi.domain.messages import Message, Status
from tinyagi.store.sqlite.transaction import Transaction


@dataclass(frozen=True, slots=True)
class RetryRequest:
    id: int
    message: str | None
    """Another text to send instead of the stored one."""


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    id: int
    reason: str


def retry_dead(tx: Transaction, requests: Sequence[RetryRequest]) -> list[Message]:
    return [_revive(tx, request) for request in requests]


def delete_dead(tx: Transaction, requests: Sequence[DeleteRequest]) -> list[None]:
    for request in requests:
        message = _dead_message(tx, request.id)
        tx.record(MessageDeleted(message.id, request.reason), message)
        tx.connection.execute(tx.sql["delete_message"], (message.id,))
        tx.connection.execute(tx.sql["prune_conversation"], (message.conversation_id,))
    return [None] * len(requests)


def _revive(tx: Transaction, request: RetryRequest) -> Message:
    message = _dead_message(tx, request.id)
    text = message.message if request.message is None else request.message
    event_id = tx.record(MessageRetried(message.id, text), message)
    priority = message.priority_once_tried
    tx.change("revive_message", (message.id, text, priority, tx.now, event_id))
    tx.connection.execute(tx.sql["reopen_conversation"], (message.conversation_id,))
    return message._replace(
        message=text,
        status=Status.PENDING,
        retry_count=0,
        available_at=0,
        priority=priority,
        updated_at=tx.now,
        last_event_id=event_id,
    )


def _dead_message(tx: Transaction, message_id: int) -> Message:
    row = tx.connection.execute(tx.sql["message_by_id"], (message_id,)).fetchone()
    if row is None or Message._make(row).status != Status.DEAD:
        raise NotFound(f"There is no dead message {message_id}. `tinyagi queue dead` lists them.")
    return Message._make(row)
