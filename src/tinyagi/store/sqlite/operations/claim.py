"""Claim, renew and release: the hold on a lane and on the messages of one run."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tinyagi.domain.batching import MAX_MESSAGES, Batching, coalesce, joins_thread
from tinyagi.domain.errors import ClaimLost
from tinyagi.domain.events import ChainStepStart
from tinyagi.domain.ids import AgentId, ClaimId, TeamId
from tinyagi.domain.messages import PASSIVE_PRIORITY, Claim, Message
from tinyagi.domain.sessions import SessionId
from tinyagi.store.sqlite.operations.ready import (
    Found,
    Unfinished,
    read_room_posts,
    read_thread,
    search,
    unpark_threads,
)
from tinyagi.store.sqlite.transaction import Transaction, encode_json

_COLUMNS: Final = len(Message._fields)
_AGENT: Final = Message._fields.index("agent")
_THREAD: Final = Message._fields.index("thread")
# What `claim_ready` adds to a message's columns.
_HOLDS, _HAS_WAITING, _HAS_POSTS = range(_COLUMNS, _COLUMNS + 3)


class ClaimRequest(NamedTuple):
    agent: AgentId
    batching: Batching
    lease_ms: int
    held_teams: frozenset[TeamId] = frozenset()


class RenewRequest(NamedTuple):
    claim: Claim
    lease_ms: int


def claim(tx: Transaction, requests: Sequence[ClaimRequest]) -> list[Claim | Unfinished | None]:
    # One look at all lanes together; each gives one row or none.
    looks = [(request.agent, tx.now) for request in requests]
    ready = {row[_AGENT]: row for row in tx.connection.executemany(tx.sql["claim_ready"], looks)}
    sessions = _sessions(tx, [(row[_AGENT], row[_THREAD]) for row in ready.values()])
    claims: list[Claim | Unfinished | None] = []
    started: list[tuple[object, ...]] = []
    new_lanes: list[tuple[object, ...]] = []
    lanes: list[tuple[object, ...]] = []
    owner = str(tx.owner)
    for request in requests:
        row = ready.pop(request.agent, None)
        if row is None or row[_HAS_WAITING] or request.held_teams or request.batching is Batching.ALL:
            taken = any(lane[0] == request.agent for lane in new_lanes + lanes)
            choice = None if taken else _search(tx, request)
            if isinstance(choice, _Choice):
                primary = choice.messages[0]
                sessions[request.agent] = _sessions(tx, [(request.agent, primary.thread)]).get(request.agent, [])
        else:
            choice = _Choice(_with_company(tx, row, request), row[_HOLDS])
        if not isinstance(choice, _Choice):
            claims.append(choice)
            continue
        messages, holds = choice
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


class _Choice(NamedTuple):
    """What a claim takes from a lane."""

    messages: tuple[Message, ...]
    holds: int | None


def _search(tx: Transaction, request: ClaimRequest) -> _Choice | Unfinished | None:
    """The full search: promotes what is due, parks what cannot run, and batches across threads."""
    lane = tx.connection.execute(tx.sql["free_lane_state"], (request.agent, tx.now)).fetchone()
    if lane is None:
        return None
    takes_all = request.batching is Batching.ALL
    found = search(tx, request.agent, request.held_teams, MAX_MESSAGES if takes_all else 1)
    if not isinstance(found, Found):
        return found
    wanted = MAX_MESSAGES if request.batching is Batching.THREAD else 1
    line = read_thread(tx, request.agent, found.thread, 0, request.held_teams, wanted)
    if not line:
        return Unfinished(request.agent)
    primary, *followers = line
    posts = read_room_posts(tx, request.agent, request.held_teams)
    if takes_all:
        candidates = _messages(tx, "messages_in_order", {"ids": encode_json([primary.id, *found.ids])})
        # The others are among the candidates. What starts no run fills the places that are left.
        passive = [post for post in posts if post.priority <= PASSIVE_PRIORITY]
        messages = coalesce(primary, candidates + passive[: max(0, MAX_MESSAGES - len(candidates))])
    else:
        messages = _coalesced(primary, followers, posts, request)
    unpark_threads(tx, request.agent, {message.thread for message in messages})
    return _Choice(messages, lane[0])


def _with_company(tx: Transaction, row: tuple[Any, ...], request: ClaimRequest) -> tuple[Message, ...]:
    """The primary of the common case and what is coalesced with it."""
    primary = Message._make(row[:_COLUMNS])
    if primary.failed_before:
        return (primary,)
    followers: list[Message] = []
    if request.batching is Batching.THREAD and joins_thread(primary):
        followers = read_thread(tx, request.agent, primary.thread, primary.id + 1, (), MAX_MESSAGES)
    posts = read_room_posts(tx, request.agent, ()) if row[_HAS_POSTS] else []
    return _coalesced(primary, followers, posts, request) if followers or posts else (primary,)


def _coalesced(
    primary: Message, followers: list[Message], posts: list[Message], request: ClaimRequest
) -> tuple[Message, ...]:
    """Chat messages of the primary's thread join it, and so do room posts."""
    company = followers if joins_thread(primary) else []
    company = company + (_passive_only(posts, primary) if request.batching is Batching.NONE else posts)
    return coalesce(primary, company)


def _passive_only(posts: list[Message], primary: Message) -> list[Message]:
    """Posts that start no run, up to the first one in their room that does: it is read before what follows it."""
    waking = [post for post in posts if post.priority > PASSIVE_PRIORITY and post.id != primary.id]
    return [
        post
        for post in posts
        if post.priority <= PASSIVE_PRIORITY
        and not any(other.thread == post.thread and other.id < post.id for other in waking)
    ]


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
