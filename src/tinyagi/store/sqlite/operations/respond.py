"""Responses about a message: its answer, and notices beside it. Recorded here, written by the caller."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Final

from tinyagi.domain.events import ResponseReady
from tinyagi.domain.messages import Message
from tinyagi.domain.responses import NOBODYS_CHANNELS, Response, ResponseStatus
from tinyagi.store.sqlite.transaction import Transaction, encode_json

COLUMNS: Final = (
    *("id", "message_id", "channel", "sender", "sender_id", "message", "original_message", "agent", "files"),
    *("metadata", "status", "conversation_id", "seq", "created_at", "acked_at", "last_event_id"),
)
"""What `insert_response` takes; the other columns of a new response have their defaults."""
row_of = itemgetter(*map(Response._fields.index, COLUMNS))


def notice(tx: Transaction, message: Message, text: str) -> Response:
    """A message to the person about their message, beside its answer."""
    seq = tx.connection.execute(tx.sql["next_notice"], (message.message_id, message.agent)).get
    return respond(tx, message, text, (), {}, seq)


def respond(
    tx: Transaction, message: Message, text: str, files: Sequence[str], metadata: Mapping[str, str], seq: int = 0
) -> Response:
    is_read = message.channel in NOBODYS_CHANNELS
    response = Response(
        id=tx.next_id("responses"),
        message_id=message.message_id,
        channel=message.channel,
        sender=message.sender,
        sender_id=message.sender_id,
        message=text,
        original_message=message.message,
        agent=message.agent,
        files=encode_json(files) if files else None,
        metadata=encode_json(metadata) if metadata else None,
        status=ResponseStatus.ACKED if is_read else ResponseStatus.PENDING,
        conversation_id=message.conversation_id,
        seq=seq,
        attempts=0,
        last_error=None,
        available_at=0,
        created_at=tx.now,
        acked_at=tx.now if is_read else None,
        last_event_id=tx.next_event_id(),
    )
    tx.record(ResponseReady(response._asdict()), message)
    return response
