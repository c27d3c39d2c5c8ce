"""Responses on their way to people: proactive ones, acknowledgement, failed deliveries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tinyagi.domain.errors import NotFound
from tinyagi.domain.events import ResponseAcked, ResponseFailed, ResponseReady
from tinyagi.domain.ids import MessageId
from tinyagi.domain.responses import NewResponse, Response, ResponseStatus
from tinyagi.domain.retry import RetryPolicy
from tinyagi.store.sqlite.operations.respond import row_of
from tinyagi.store.sqlite.transaction import Transaction, encode_json

PARK_SLICE: Final = 1000
UNPARK_SLICE: Final = 100
"""At least a page of what channels fetch: the next ones follow as these are delivered."""


@dataclass(frozen=True, slots=True)
class DeliveryFailure:
    id: int
    reason: str
    policy: RetryPolicy


def send(tx: Transaction, requests: Sequence[NewResponse]) -> list[Response]:
    sent = [_proactive(tx, new) for new in requests]
    tx.connection.executemany(tx.sql["insert_response"], [row_of(response) for response in sent])
    return sent


def ack(tx: Transaction, ids: Sequence[int]) -> list[None]:
    for response_id in ids:
        response = _pending(tx, response_id)
        if response.status is ResponseStatus.ACKED:
            continue
        event_id = tx.record_alone(ResponseAcked(response_id), response.agent, response.message_id)
        tx.connection.execute(tx.sql["ack_response"], (response_id, tx.now, event_id))
        _unpark(tx, response)
    return [None] * len(ids)


def park_responses(tx: Transaction, channels: Sequence[str]) -> list[int]:
    """Set aside a slice of what failed deliveries hold back in each channel; returns how many."""
    slices = ({"channel": channel, "now": tx.now, "limit": PARK_SLICE} for channel in channels)
    return [tx.count("park_responses", slice_) for slice_ in slices]


def _unpark(tx: Transaction, response: Response) -> None:
    """A response has left its chat's line: the next ones may be delivered."""
    chat = (response.channel, response.sender_id, response.sender)
    tx.connection.execute(tx.sql["unpark_responses"], (*chat, UNPARK_SLICE))


def fail_delivery(tx: Transaction, requests: Sequence[DeliveryFailure]) -> list[bool]:
    """True for each response that is tried again."""
    return [_fail_one(tx, request) for request in requests]


def _fail_one(tx: Transaction, request: DeliveryFailure) -> bool:
    response = _pending(tx, request.id)
    if response.status is ResponseStatus.ACKED:
        return False
    attempts = response.attempts + 1
    at = request.policy.deliver_again_at(attempts, tx.now, tx.dice.random())
    give_up(tx, response, attempts, request.reason, at)
    return at is not None


def give_up(tx: Transaction, response: Response, attempts: int, reason: str, at: int | None) -> None:
    """Record a failed delivery: another try at this instant, or None for none."""
    status = ResponseStatus.FAILED if at is None else ResponseStatus.PENDING
    event = ResponseFailed(response.id, attempts, reason, at or 0, at is None)
    event_id = tx.record_alone(event, response.agent, response.message_id)
    tx.change("fail_response", (response.id, status, attempts, reason, at or 0, event_id))
    if at is None:
        _unpark(tx, response)


def _pending(tx: Transaction, response_id: int) -> Response:
    """The response, pending or acked: to acknowledge twice is no error, a channel may repeat itself after a crash."""
    row = tx.connection.execute(tx.sql["response_by_id"], (response_id,)).fetchone()
    response = None if row is None else Response._make(row)
    if response is None or response.status == ResponseStatus.FAILED:
        raise NotFound(f"There is no response {response_id} to deliver.")
    return response._replace(status=ResponseStatus(response.status))


def _proactive(tx: Transaction, new: NewResponse) -> Response:
    response = Response(
        id=tx.next_id("responses"),
        message_id=MessageId(tx.new_id("proactive")),
        channel=new.channel,
        sender=new.sender,
        sender_id=new.sender_id,
        message=new.message,
        original_message="",
        agent=new.agent,
        files=encode_json(new.files) if new.files else None,
        metadata=encode_json(new.metadata) if new.metadata else None,
        status=ResponseStatus.PENDING,
        conversation_id=None,
        seq=0,
        attempts=0,
        last_error=None,
        available_at=0,
        created_at=tx.now,
        acked_at=None,
        last_event_id=tx.next_event_id(),
    )
    tx.record_alone(ResponseReady(response._asdict()), new.agent, response.message_id)
    return response
