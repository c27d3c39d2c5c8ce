"""How a run ends without an answer: fail, stop, release, recover. Each is one transaction, conditional on the claim."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

from tinyagi.domain.events import (
    LaneHeld,
    MessageDead,
    MessageFailed,
    MessageRecovered,
    MessageReleased,
    MessageStopped,
)
from tinyagi.domain.ids import AgentId, ClaimId
from tinyagi.domain.messages import Claim, Message
from tinyagi.domain.retry import Dead, Failure, FailureKind, Retry, RetryPolicy, Wait
from tinyagi.store.base import Withheld
from tinyagi.store.sqlite.operations.claim import change_lanes
from tinyagi.store.sqlite.operations.ready import Unfinished
from tinyagi.store.sqlite.operations.respond import notice, row_of
from tinyagi.store.sqlite.operations.returns import Returns
from tinyagi.store.sqlite.operations.spending import add_charges
from tinyagi.store.sqlite.transaction import Transaction


@dataclass(frozen=True, slots=True)
class FailRequest:
    claim: Claim
    failure: Failure
    policy: RetryPolicy


@dataclass(frozen=True, slots=True)
class EndRequest:
    """Stop or release a claim, for a reason that people read."""

    claim: Claim
    reason: str
    withheld: Withheld | None = None


@dataclass(frozen=True, slots=True)
class RecoverRequest:
    agent: AgentId
    claim_id: ClaimId
    policy: RetryPolicy


def fail(tx: Transaction, requests: Sequence[FailRequest]) -> list[None]:
    change_lanes(tx, "free_lane", [(request.claim.agent, request.claim.id) for request in requests])
    for request in requests:
        returns = Returns(tx, request.claim.id)
        for message in request.claim.messages:
            _return_failed(returns, message, request)
        returns.write()
        if request.failure.charge is not None:
            add_charges(tx, [request.failure.charge])
        if request.failure.kind is FailureKind.UNAVAILABLE:
            _hold_after(tx, request)
    return [None] * len(requests)


def stop(tx: Transaction, requests: Sequence[EndRequest]) -> list[None]:
    """A person ended the run: its messages are dead and tell the person so."""
    return _end(
        tx,
        requests,
        lambda returns, message, request: returns.add_dead(
            message,
            message.retry_count,
            MessageStopped(message.id, request.claim.id, message.attempt, request.reason),
            request.reason,
        ),
    )


def release(tx: Transaction, requests: Sequence[EndRequest]) -> list[None]:
    """The run was given up without a verdict: its messages are as they were before."""
    _end(
        tx,
        requests,
        lambda returns, message, request: returns.add_pending(
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


def _withhold(tx: Transaction, request: EndRequest, withheld: Withheld) -> None:
    """Record and tell why there was no run, and hold the lane if asked to."""
    primary = request.claim.primary
    tx.record(withheld.fact, primary)
    if not primary.is_room_post:
        tx.connection.execute(tx.sql["insert_response"], row_of(notice(tx, primary, withheld.notice)))
    if withheld.hold_until is not None:
        hold(tx, request.claim.agent, withheld.hold_until, request.reason, 0)


def release_orphans(tx: Transaction, claims: Sequence[Claim | Unfinished | None]) -> list[None]:
    """Give back claims whose callers have gone before they learned of them."""
    release(tx, [EndRequest(claim, "the caller has gone") for claim in claims if isinstance(claim, Claim)])
    return [None] * len(claims)


def recover(tx: Transaction, requests: Sequence[RecoverRequest]) -> list[int]:
    """Take back claims whose process is gone; returns how many messages each held. One that has ended counts 0."""
    return [_recover_one(tx, request) for request in requests]


def _recover_one(tx: Transaction, request: RecoverRequest) -> int:
    rows = tx.connection.execute(tx.sql["messages_of_lane"], (request.agent,)).fetchall()
    if not tx.change("free_lane", (request.agent, request.claim_id)):
        return 0
    failure = Failure(FailureKind.CRASH, "the process that ran it is gone")
    returns = Returns(tx, request.claim_id)
    for message in map(Message._make, rows):
        if isinstance(request.policy.verdict(failure, message, tx.now, 0.0), Dead):
            reason = f"{failure.reason}, {message.attempt} times in a row or after other failures"
            dead = MessageDead(message.id, request.claim_id, message.attempt, failure.kind, reason)
            returns.add_dead(message, message.attempt, dead, reason)
        else:
            recovered = MessageRecovered(message.id, request.claim_id, message.attempt, failure.reason)
            returns.add_pending(message, message.attempt, failure.reason, 0, recovered)
    returns.write()
    return len(rows)


def _return_failed(returns: Returns, message: Message, request: FailRequest) -> None:
    failure, tx = request.failure, returns.tx
    is_primary = message.id == request.claim.primary.id
    # A run's use is told once, however many messages shared it.
    usage = failure.usage if is_primary else None
    verdict = request.policy.verdict(failure, message, tx.now, tx.dice.random())
    error: str | None = failure.reason
    match verdict:
        case Dead():
            dead = MessageDead(message.id, request.claim.id, message.attempt, failure.kind, failure.reason, usage)
            returns.add_dead(message, message.attempt, dead, failure.reason)
            return
        case Retry(at=at):
            count, used = message.attempt, True
        case Wait():
            # Not the message's fault: its own record and due time stay as they are.
            count, error, at, used = message.retry_count, message.last_error, message.available_at, False
        case _:
            assert_never(verdict)
    event = MessageFailed(message.id, request.claim.id, message.attempt, used, failure.kind, failure.reason, at, usage)
    returns.add_pending(message, count, error, at, event)
    if failure.notice is not None and is_primary:
        returns.add_notice(message, failure.notice)


def _hold_after(tx: Transaction, request: FailRequest) -> None:
    claim = request.claim
    until = request.policy.hold_until(request.failure, claim.holds, tx.now, tx.dice.random())
    hold(tx, claim.agent, until, request.failure.reason, claim.holds + 1)


def hold(tx: Transaction, agent: AgentId, until: int, reason: str, holds: int) -> None:
    """Take no claim before this instant; 0 lifts the hold, and the reason is only recorded."""
    tx.connection.execute(tx.sql["hold_lane"], (agent, until, reason if until else None, holds))
    tx.record_alone(LaneHeld(until, reason, holds), agent)


def _end(
    tx: Transaction,
    requests: Sequence[EndRequest],
    add: Callable[[Returns, Message, EndRequest], None],
) -> list[None]:
    change_lanes(tx, "free_lane", [(request.claim.agent, request.claim.id) for request in requests])
    for request in requests:
        returns = Returns(tx, request.claim.id)
        for message in request.claim.messages:
            add(returns, message, request)
        returns.write()
    return [None] * len(requests)
