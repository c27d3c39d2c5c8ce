"""Responses about a message: its answer, and notices beside it. Recorded here, written by the caller."""

from collections.abc import Mapping, Sequence

from tinyagi.domain.events import ResponseReady
from tinyagi.domain.messages import Message
from tinyagi.domain.responses import NOBODYS_CHANNELS, Response, ResponseStatus
from tinyagi.store.sqlite.transaction import Transaction, encode_json


def notice(tx: Transaction, message: Message, text: str) -> Response:
    """A message to the person about their message, beside its answer."""
    seq = tx.connection.execute(tx.sql["next_notice"], (message.message_id, message.agent)).get
    return respond(tx, message, text, (), {}, seq)


def respond(
    tx: Transaction, message: Message, text: str, files: Sequence[str], metadata: Mapping[str, str], seq: int = 0
) -> Response:
    is_read = message.channel in NOBODYS_CHANNELS
    response = Response(
        tx.next_id("responses"),
        message.message_id,
        message.channel,
        message.sender,
        message.sender_id,
        text,
        message.message,
        message.agent,
        encode_json(files) if files else None,
        encode_json(metadata) if metadata else None,
        ResponseStatus.ACKED if is_read else ResponseStatus.PENDING,
        message.conversation_id,
        seq,
        attempts=0,
        last_error=None,
        available_at=0,
        created_at=tx.now,
        acked_at=tx.now if is_read else None,
        last_event_id=tx.next_event_id(),
    )
    tx.record(ResponseReady(response._asdict()), message)
    return response


def row_of(response: Response) -> tuple[object, ...]:
    """What `insert_response` takes."""
    ends = response.created_at, response.acked_at, response.last_event_id
    return (*response[:13], *ends)
