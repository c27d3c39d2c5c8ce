"""Claim, renew and release: the hold on a lane and on the messages of one run."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tinyagi.domain.batching import MAX_MESSAGES, Batching, coalesce, joins_thread
from tinyagi.domain.errors import ClaimLost
from tinyagi.domain.events import ChainStepStart
from tinyagi.domain.ids import AgentId, ClaimId, TeamId
from tinyagi.domain.messages import PASSIVE_PRIORITY, ROOM_CHANNEL, ROOM_PRIORITY, Claim, Message
from tinyagi.domain.sessions import SessionId
from tinyagi.store.sqlite.transaction import Transaction, encode_json

_COLUMNS: Final = len(Message._fields)
_AGENT: Final = Message._fields.index("agent")
_TEAM: Final = Message._fields.index("team")
_THREAD: Final = Message._fields.index("thread")


class ClaimRequest(NamedTuple):
    agent: AgentId
    batching: Batching
    lease_ms: int
    held_teams: frozenset[TeamId] = frozenset()


class RenewRequest(NamedTuple):
    claim: Claim
    lease_ms: int


def claim(tx: Transaction, requests: Sequence[ClaimRequest]) -> list[Claim | None]:
    # One look at all lanes together; each gives one row or none.
    looks = [(request.agent, tx.now, PASSIVE_PRIORITY) for request in requests]
    ready = {row[_AGENT]: row for row in tx.connection.executemany(tx.sql["claim_ready"], looks)}
    sessions = _sessions(tx, [(row[_AGENT], row[_THREAD]) for row in ready.values()])
    claims: list[Claim | None] = []
    started: list[tuple[object, ...]] = []
    new_lanes: list[tuple[object, ...]] = []
    lanes: list[tuple[object, ...]] = []
    owner = str(tx.owner)
    for request in requests:
        row = ready.pop(request.agent, None)
        is_plain = row is not None and not row[-1] and row[_TEAM] not in request.held_teams
        if not is_plain:
            row = _primary(tx, request, taken=new_lanes + lanes)
        if row is None:
            claims.append(None)
            continue
        if not is_plain:
            sessions[request.agent] = _sessions(tx, [(request.agent, row[_THREAD])]).get(request.agent, [])
        messages = _with_company(tx, Message._make(row[:_COLUMNS]), request, is_plain)
        holds = row[_COLUMNS]
        # A run's key in the lake: what `new_id` makes comes again after nineteen days, the number of its event never.
        claim_id = ClaimId(f"{tx.new_id('claim')}_{tx.next_event_id()}")
        resumable = tuple(sessions.get(request.agent, ()))
        held = Claim(claim_id, request.agent, messages, tx.now, tx.now + request.lease_ms, holds or 0, resumable)
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


def _primary(tx: Transaction, request: ClaimRequest, taken: list[tuple[object, ...]]) -> tuple[Any, ...] | None:
    """The full search, for a lane where something waits, is held or has a lower priority, or nothing seemed ready."""
    if any(lane[0] == request.agent for lane in taken):
        return None
    return tx.connection.execute(tx.sql["claim_primary"], _search(tx, request)).fetchone()


def _with_company(tx: Transaction, primary: Message, request: ClaimRequest, is_plain: bool) -> tuple[Message, ...]:
    """The primary and what is coalesced with it. In the plain case nothing of a lower priority is there."""
    if primary.failed_before:
        return (primary,)
    if request.batching is Batching.ALL:
        return coalesce(primary, _messages(tx, "claim_everything", _search(tx, request)))
    company: list[Message] = []
    if request.batching is Batching.THREAD and joins_thread(primary):
        thread = {"primary": primary.id, "thread": primary.thread}
        company += _messages(tx, "claim_thread", _search(tx, request) | thread)
    if not is_plain or primary.priority <= ROOM_PRIORITY:
        posts = {"priority": ROOM_PRIORITY, "channel": ROOM_CHANNEL}
        found = _messages(tx, "claim_room_posts", _search(tx, request) | posts)
        company += _passive_only(found, primary) if request.batching is Batching.NONE else found
    return coalesce(primary, company) if company else (primary,)


def _passive_only(posts: list[Message], primary: Message) -> list[Message]:
    """Posts that start no run, up to the first one in their room that does: it is read before what follows it."""
    waking = [post for post in posts if post.priority > PASSIVE_PRIORITY and post.id != primary.id]
    return [
        post
        for post in posts
        if post.priority <= PASSIVE_PRIORITY
        and not any(other.thread == post.thread and other.id < post.id for other in waking)
    ]


def _search(tx: Transaction, request: ClaimRequest) -> dict[str, object]:
    held = encode_json(sorted(request.held_teams))
    return {"agent": request.agent, "now": tx.now, "limit": MAX_MESSAGES, "passive": PASSIVE_PRIORITY, "held": held}


def _sessions(tx: Transaction, primaries: Sequence[tuple[AgentId, str]]) -> dict[AgentId, list[SessionId]]:
    """What the runs of these agents and threads may resume."""
    found: dict[AgentId, list[SessionId]] = {}
    for agent, *session in tx.connection.executemany(tx.sql["sessions_of_lane"], primaries):
        found.setdefault(agent, []).append(SessionId._make(session))
    return found


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
