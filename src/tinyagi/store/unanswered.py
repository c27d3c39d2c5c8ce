"""Ends runs without an answer (fail, stop, release, recover), each only while the claim holds; retries and deletes dead
messages.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

from tinyagi.domain.errors import NotFound
from tinyagi.domain.events import (
    Event,
    MessageDead,
    MessageDeleted,
    MessageFailed,
    MessageRecovered,
    MessageReleased,
    MessageRetried,
    MessageStopped,
)
from tinyagi.domain.ids import AgentId, ClaimId
from tinyagi.domain.messages import Message, Status
from tinyagi.domain.responses import dead_notice
from tinyagi.domain.retry import Dead, Failure, FailureKind, Retry, RetryPolicy, Wait
from tinyagi.domain.runs import Claim, Deferral
from tinyagi.store.claim import Unfinished, hold_lane, update_claimed_lanes
from tinyagi.store.enqueue import close_conversations, teams_of
from tinyagi.store.responses import notice, row_of
from tinyagi.store.sessions import add_charges
from tinyagi.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class FailRequest:
    claim: Claim
    failure: Failure
    policy: RetryPolicy


@dataclass(frozen=True, slots=True)
class EndRequest:
    """Stop or release a claim; people see the reason."""

    claim: Claim
    reason: str
    withheld: Deferral | None = None


@dataclass(frozen=True, slots=True)
class RecoverRequest:
    agent: AgentId
    claim_id: ClaimId
    policy: RetryPolicy


@dataclass(frozen=True, slots=True)
class RetryRequest:
    id: int
    message: str | None
    """A new text instead of the stored one."""


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    id: int
    reason: str


class UnansweredBatch:
    """Collects the unanswered messages of one claim, or of none, and writes each table once."""

    def __init__(self, tx: Transaction, claim_id: ClaimId | None) -> None:
        self.tx = tx
        self._claim_id = claim_id
        self._rows: list[tuple[object, ...]] = []
        self._dead: list[Message] = []
        self._notices: list[tuple[object, ...]] = []

    def add_pending(self, message: Message, retry_count: int, error: str | None, at: int, event: Event) -> None:
        self._add(message, Status.PENDING, retry_count, error, at, event)

    def add_dead(
        self, message: Message, retry_count: int, event: Event, reason: str, *, notice: str | None = None
    ) -> None:
        self._add(message, Status.DEAD, retry_count, reason, message.available_at, event)
        self._dead.append(message)
        self.add_notice(message, notice or dead_notice(message.agent, reason))

    def add_notice(self, message: Message, text: str) -> None:
        """Notify the sender; room posts get no notice."""
        if not message.is_room_post:
            self._notices.append(row_of(notice(self.tx, message, text)))

    def write(self) -> None:
        self.tx.connection.executemany(self.tx.sql["return_message"], self._rows)
        self.tx.connection.executemany(self.tx.sql["insert_response"], self._notices)
        if self._dead:
            close_conversations(self.tx, self._dead, teams_of(self.tx, self._dead))

    def _add(
        self, message: Message, status: Status, retry_count: int, error: str | None, at: int, event: Event
    ) -> None:
        event_id = self.tx.record(event, message)
        priority = message.priority if retry_count == message.retry_count else message.priority_once_tried
        self._rows.append((message.id, self._claim_id, status, retry_count, error, at, priority, self.tx.now, event_id))


def fail(tx: Transaction, requests: Sequence[FailRequest]) -> list[None]:
    update_claimed_lanes(tx, "free_lane", [(request.claim.agent, request.claim.id) for request in requests])
    for request in requests:
        batch = UnansweredBatch(tx, request.claim.id)
        for message in request.claim.messages:
            _return_failed(batch, message, request)
        batch.write()
        if request.failure.charge is not None:
            add_charges(tx, [request.failure.charge])
        if request.failure.kind is FailureKind.UNAVAILABLE:
            _hold_after(tx, request)
    return [None] * len(requests)


def _return_failed(batch: UnansweredBatch, message: Message, request: FailRequest) -> None:
    failure, tx = request.failure, batch.tx
    is_primary = message.id == request.claim.primary.id
    # Record the run's usage once, not once per message.
    usage = failure.usage if is_primary else None
    verdict = request.policy.verdict(failure, message, tx.now, tx.dice.random())
    error: str | None = failure.reason
    match verdict:
        case Dead():
            dead = MessageDead(message.id, request.claim.id, message.attempt, failure.kind, failure.reason, usage)
            batch.add_dead(message, message.attempt, dead, failure.reason)
            return
        case Retry(at=at):
            count, used = message.attempt, True
        case Wait():
            # Not the message's fault: its attempts, error and due time stay.
            count, error, at, used = message.retry_count, message.last_error, message.available_at, False
        case _:
            assert_never(verdict)
    event = MessageFailed(message.id, request.claim.id, message.attempt, used, failure.kind, failure.reason, at, usage)
    batch.add_pending(message, count, error, at, event)
    if failure.notice is not None and is_primary:
        batch.add_notice(message, failure.notice)


def _hold_after(tx: Transaction, request: FailRequest) -> None:
    claim = request.claim
    until = request.policy.hold_until(request.failure, claim.holds, tx.now, tx.dice.random())
    hold_lane(tx, claim.agent, until, request.failure.reason, claim.holds + 1)


def stop(tx: Transaction, requests: Sequence[EndRequest]) -> list[None]:
    """End the runs on a person's request: the messages are dead, and their senders get a notice."""
    return _end(
        tx,
        requests,
        lambda batch, message, request: batch.add_dead(
            message,
            message.retry_count,
            MessageStopped(message.id, request.claim.id, message.attempt, request.reason),
            request.reason,
        ),
    )


def release(tx: Transaction, requests: Sequence[EndRequest]) -> list[None]:
    """Give the messages back unchanged, with no attempt used."""
    _end(
        tx,
        requests,
        lambda batch, message, request: batch.add_pending(
            message,
            message.retry_count,
            message.last_error,
            message.available_at,
            MessageReleased(message.id, request.claim.id, message.attempt, request.reason),
        ),
    )
    for request in requests:
        if request.withheld is not None:
            _withhold(tx, request, request.withheld)
    return [None] * len(requests)


def _withhold(tx: Transaction, request: EndRequest, withheld: Deferral) -> None:
    """Record why there was no run, notify the sender, and hold the lane if the request says so."""
    primary = request.claim.primary
    tx.record(withheld.fact, primary)
    if not primary.is_room_post:
        tx.connection.execute(tx.sql["insert_response"], row_of(notice(tx, primary, withheld.notice)))
    if withheld.hold_until is not None:
        hold_lane(tx, request.claim.agent, withheld.hold_until, request.reason, 0)


def _end(
    tx: Transaction,
    requests: Sequence[EndRequest],
    add: Callable[[UnansweredBatch, Message, EndRequest], None],
) -> list[None]:
    update_claimed_lanes(tx, "free_lane", [(request.claim.agent, request.claim.id) for request in requests])
    for request in requests:
        batch = UnansweredBatch(tx, request.claim.id)
        for message in request.claim.messages:
            add(batch, message, request)
        batch.write()
    return [None] * len(requests)


def release_orphans(tx: Transaction, claims: Sequence[Claim | Unfinished | None]) -> list[None]:
    """Release claims whose callers were gone before they got them."""
    release(tx, [EndRequest(claim, "the caller is gone") for claim in claims if isinstance(claim, Claim)])
    return [None] * len(claims)


def recover(tx: Transaction, requests: Sequence[RecoverRequest]) -> list[int]:
    """Take back claims whose process is gone; returns the number of messages of each, 0 for a claim that has ended."""
    return [_recover_one(tx, request) for request in requests]


def _recover_one(tx: Transaction, request: RecoverRequest) -> int:
    rows = tx.connection.execute(tx.sql["messages_of_lane"], (request.agent,)).fetchall()
    if not tx.change("free_lane", (request.agent, request.claim_id)):
        return 0
    failure = Failure(FailureKind.CRASH, "the process that ran it is gone")
    batch = UnansweredBatch(tx, request.claim_id)
    for message in map(Message._make, rows):
        if isinstance(request.policy.verdict(failure, message, tx.now, 0.0), Dead):
            reason = f"{failure.reason}, {message.attempt} times in a row or after other failures"
            dead = MessageDead(message.id, request.claim_id, message.attempt, failure.kind, reason)
            batch.add_dead(message, message.attempt, dead, reason)
        else:
            recovered = MessageRecovered(message.id, request.claim_id, message.attempt, failure.reason)
            batch.add_pending(message, message.attempt, failure.reason, 0, recovered)
    batch.write()
    return len(rows)


def retry_dead(tx: Transaction, requests: Sequence[RetryRequest]) -> list[Message]:
    return [_retry_one(tx, request) for request in requests]


def _retry_one(tx: Transaction, request: RetryRequest) -> Message:
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


def delete_dead(tx: Transaction, requests: Sequence[DeleteRequest]) -> list[None]:
    for request in requests:
        message = _dead_message(tx, request.id)
        tx.record(MessageDeleted(message.id, request.reason), message)
        tx.connection.execute(tx.sql["delete_message"], (message.id,))
        tx.connection.execute(tx.sql["prune_conversation"], (message.conversation_id,))
    return [None] * len(requests)


def _dead_message(tx: Transaction, message_id: int) -> Message:
    row = tx.connection.execute(tx.sql["message_by_id"], (message_id,)).fetchone()
    if row is None or Message._make(row).status != Status.DEAD:
        raise NotFound(f"There is no dead message {message_id}. `tinyagi queue dead` lists them.")
    return Message._make(row)
