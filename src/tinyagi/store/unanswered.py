"""Ends runs without an answer (fail, stop, release, recover), each only while the claim holds; retries and deletes dead
messages.
"""

from collections.abc import Sequence
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
from tinyagi.domain.retry import Dead, Failure, FailureKind, HoldCause, Retry, RetryPolicy, Wait
from tinyagi.domain.runs import Claim, Deferral
from tinyagi.store.claim import Unfinished, hold_lane, update_claimed_lanes
from tinyagi.store.enqueue import close_conversations, teams_of
from tinyagi.store.responses import notice, row_of
from tinyagi.store.sessions import add_charges
from tinyagi.store.transaction import Transaction


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


def fail(tx: Transaction, claim: Claim, failure: Failure, policy: RetryPolicy) -> None:
    update_claimed_lanes(tx, "free_lane", [(claim.agent, claim.id)])
    batch = UnansweredBatch(tx, claim.id)
    for message in claim.messages:
        _return_failed(batch, message, claim, failure, policy)
    batch.write()
    if failure.charge is not None:
        add_charges(tx, [failure.charge])
    if failure.kind is FailureKind.UNAVAILABLE:
        until = policy.hold_until(failure, claim.holds, tx.now, tx.dice.random())
        hold_lane(tx, claim.agent, until=until, reason=failure.reason, cause=failure.hold_cause, holds=claim.holds + 1)


def _return_failed(
    batch: UnansweredBatch, message: Message, claim: Claim, failure: Failure, policy: RetryPolicy
) -> None:
    tx = batch.tx
    is_primary = message.id == claim.primary.id
    # Record the run's usage once, not once per message.
    usage = failure.usage if is_primary else None
    verdict = policy.verdict(failure, message, tx.now, tx.dice.random())
    error: str | None = failure.reason
    match verdict:
        case Dead():
            dead = MessageDead(message.id, claim.id, message.attempt, failure.kind, failure.reason, usage)
            batch.add_dead(message, message.attempt, dead, failure.reason)
            return
        case Retry(at=at):
            count, used = message.attempt, True
        case Wait():
            # Not the message's fault: its attempts, error and due time stay.
            count, error, at, used = message.retry_count, message.last_error, message.available_at, False
        case _:
            assert_never(verdict)
    event = MessageFailed(message.id, claim.id, message.attempt, used, failure.kind, failure.reason, at, usage)
    batch.add_pending(message, count, error, at, event)
    if failure.notice is not None and is_primary:
        batch.add_notice(message, failure.notice)


def stop(tx: Transaction, claim: Claim, reason: str) -> None:
    """End the run on a person's request: the messages are dead, and their senders get a notice with the reason."""
    update_claimed_lanes(tx, "free_lane", [(claim.agent, claim.id)])
    batch = UnansweredBatch(tx, claim.id)
    for message in claim.messages:
        stopped = MessageStopped(message.id, claim.id, message.attempt, reason)
        batch.add_dead(message, message.retry_count, stopped, reason)
    batch.write()


def release(tx: Transaction, claim: Claim, reason: str, withheld: Deferral | None = None) -> None:
    """Give the messages back unchanged, with no attempt used.

    For a withheld run, record why there was none, notify the sender, and hold the lane if the deferral says so.
    """
    update_claimed_lanes(tx, "free_lane", [(claim.agent, claim.id)])
    batch = UnansweredBatch(tx, claim.id)
    for message in claim.messages:
        released = MessageReleased(message.id, claim.id, message.attempt, reason)
        batch.add_pending(message, message.retry_count, message.last_error, message.available_at, released)
    if withheld is not None:
        tx.record(withheld.fact, claim.primary)
        batch.add_notice(claim.primary, withheld.notice)
    batch.write()
    if withheld is not None and withheld.hold_until is not None:
        hold_lane(tx, claim.agent, until=withheld.hold_until, reason=reason, cause=HoldCause.BUDGET)


def release_orphans(tx: Transaction, claims: Sequence[Claim | Unfinished | None]) -> list[None]:
    """Release claims whose callers were gone before they got them."""
    for claim in claims:
        if isinstance(claim, Claim):
            release(tx, claim, "the caller is gone")
    return [None] * len(claims)


def recover(tx: Transaction, agent: AgentId, claim_id: ClaimId, policy: RetryPolicy) -> int:
    """Take back a claim whose process is gone; returns the number of its messages, 0 for a claim that has ended."""
    rows = tx.connection.execute(tx.sql["messages_of_lane"], (agent,)).fetchall()
    if not tx.change("free_lane", (agent, claim_id)):
        return 0
    failure = Failure(FailureKind.CRASH, "the process that ran it is gone")
    batch = UnansweredBatch(tx, claim_id)
    for message in map(Message._make, rows):
        if isinstance(policy.verdict(failure, message, tx.now, 0.0), Dead):
            reason = f"{failure.reason}, {message.attempt} times in a row or after other failures"
            dead = MessageDead(message.id, claim_id, message.attempt, failure.kind, reason)
            batch.add_dead(message, message.attempt, dead, reason)
        else:
            recovered = MessageRecovered(message.id, claim_id, message.attempt, failure.reason)
            batch.add_pending(message, message.attempt, failure.reason, 0, recovered)
    batch.write()
    return len(rows)


def retry_dead(tx: Transaction, message_id: int, text: str | None = None) -> Message:
    """Returns the message as it is then; `text` replaces the stored one."""
    message = _dead_message(tx, message_id)
    text = message.message if text is None else text
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


def delete_dead(tx: Transaction, message_id: int, reason: str) -> None:
    message = _dead_message(tx, message_id)
    tx.record(MessageDeleted(message.id, reason), message)
    tx.connection.execute(tx.sql["delete_message"], (message.id,))
    tx.connection.execute(tx.sql["prune_conversation"], (message.conversation_id,))


def _dead_message(tx: Transaction, message_id: int) -> Message:
    row = tx.connection.execute(tx.sql["message_by_id"], (message_id,)).fetchone()
    if row is None or Message._make(row).status != Status.DEAD:
        raise NotFound(f"There is no dead message {message_id}. `tinyagi queue dead` lists them.")
    return Message._make(row)
