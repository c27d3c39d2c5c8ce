"""Claim, renew and release: the hold on a lane and on the messages of one run."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tinyagi.domain.batching import MAX_MESSAGES, Batching, coalesce, joins_thread
from tinyagi.domain.errors import ClaimLost
from tinyagi.domain.events import ChainStepStart
from tinyagi.domain.ids import AgentId, ClaimId
from tinyagi.domain.messages import ROOM_CHANNEL, ROOM_PRIORITY, Claim, Message
from tinyagi.store.sqlite.transaction import Transaction, encode_json

_COLUMNS: Final = len(Message._fields)
_AGENT: Final = Message._fields.index("agent")


class ClaimRequest(NamedTuple):
    agent: AgentId
    batching: Batching
    lease_ms: int


class RenewRequest(NamedTuple):
    claim: Claim
    lease_ms: int


def claim(tx: Transaction, requests: Sequence[ClaimRequest]) -> list[Claim | None]:
    # One look at all lanes together; each gives one row or none.
    looks = [(request.agent, tx.now) for request in requests]
    ready = {row[_AGENT]: row for row in tx.connection.executemany(tx.sql["claim_ready"], looks)}
    claims: list[Claim | None] = []
    started: list[tuple[object, ...]] = []
    new_lanes: list[tuple[object, ...]] = []
    lanes: list[tuple[object, ...]] = []
    owner = str(tx.owner)
    for request in requests:
        row = ready.pop(request.agent, None)
        if row is None or row[-1]:
            row = _primary(tx, request.agent, taken=new_lanes + lanes)
            if row is None:
                claims.append(None)
                continue
        messages = _with_company(tx, Message._make(row[:_COLUMNS]), request.batching)
        holds = row[_COLUMNS]
        claim_id = ClaimId(tx.new_id("claim"))
        held = Claim(claim_id, request.agent, messages, tx.now, tx.now + request.lease_ms, holds or 0)
        claims.append(held)
        start = _start_of(held)
        event_id = tx.record(start, held.primary)
        started.extend([(number, claim_id, tx.now, event_id) for number in start.ids])
        lane = (held.agent, claim_id, encode_json(start.ids), owner, held.lease_until)
        (new_lanes if holds is None else lanes).append(lane)
    tx.connection.executemany(tx.sql["start_message"], started)
    tx.connection.executemany(tx.sql["open_lane"], new_lanes)
    change_lanes(tx, "take_lane", lanes)
    return claims


def _primary(tx: Transaction, agent: AgentId, taken: list[tuple[object, ...]]) -> tuple[Any, ...] | None:
    """The full search, for a lane where something waits or has a lower priority, or where nothing seemed ready."""
    if any(lane[0] == agent for lane in taken):
        return None
    return tx.connection.execute(tx.sql["claim_primary"], {"agent": agent, "now": tx.now}).fetchone()


def _with_company(tx: Transaction, primary: Message, batching: Batching) -> tuple[Message, ...]:
    """The primary and what is coalesced with it."""
    if batching is Batching.NONE or primary.failed_before:
        return (primary,)
    lane = {"agent": primary.agent, "now": tx.now, "limit": MAX_MESSAGES}
    if batching is Batching.ALL:
        return coalesce(primary, _messages(tx, "claim_everything", lane))
    posts = _messages(tx, "claim_room_posts", {**lane, "priority": ROOM_PRIORITY, "channel": ROOM_CHANNEL})
    followers = []
    if joins_thread(primary):
        followers = _messages(tx, "claim_thread", {**lane, "primary": primary.id, "thread": primary.thread})
    return coalesce(primary, [*followers, *posts]) if followers or posts else (primary,)


def _messages(tx: Transaction, name: str, parameters: dict[str, object]) -> list[Message]:
    return [Message._make(row) for row in tx.connection.execute(tx.sql[name], parameters)]


def _start_of(held: Claim) -> ChainStepStart:
    primary = held.primary
    return ChainStepStart(
        claim_id=held.id,
        ids=tuple([message.id for message in held.messages]),
        message_ids=tuple([message.message_id for message in held.messages]),
        attempt=primary.attempt,
        from_agent=primary.from_agent,
        wait_ms=max(0, held.started_at - max(primary.created_at, primary.available_at)),
    )


def renew(tx: Transaction, requests: Sequence[RenewRequest]) -> list[int]:
    """Move the leases; returns the instant each one now ends."""
    ends = [tx.now + request.lease_ms for request in requests]
    rows = [(request.claim.agent, request.claim.id, end) for request, end in zip(requests, ends, strict=True)]
    change_lanes(tx, "renew_lane", rows)
    return ends


def change_lanes(tx: Transaction, name: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Write lane rows that are conditional on their claim; the first two columns are agent and claim."""
    if not rows:
        return
    before = tx.connection.total_changes()
    tx.connection.executemany(tx.sql[name], rows)
    if tx.connection.total_changes() - before != len(rows):
        # With one row this names the lost claim; with more the group is written again one by one, and it will.
        agent, claim_id = rows[0][:2]
        raise ClaimLost(str(claim_id), str(agent))
