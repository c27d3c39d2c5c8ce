"""Claims the next messages of a lane, renews leases and updates lane rows. complete.py and unanswered.py end claims."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

from tinyagi.domain.errors import ClaimLost
from tinyagi.domain.events import ChainStepStart, LaneHeld
from tinyagi.domain.ids import AgentId, ClaimId, TeamId
from tinyagi.domain.messages import MAX_MESSAGES, PASSIVE_PRIORITY, Batching, Message, coalesce, joins_thread
from tinyagi.domain.retry import HoldCause
from tinyagi.domain.runs import Claim, ResumableSession
from tinyagi.store.transaction import Transaction, encode_json

_COLUMNS: Final = len(Message._fields)
_AGENT: Final = Message._fields.index("agent")
_THREAD: Final = Message._fields.index("thread")
# Columns that `claim_ready` adds to those of a message.
_HOLDS, _HAS_WAITING, _HAS_POSTS = range(_COLUMNS, _COLUMNS + 3)

SEARCH_LIMIT: Final = 500
"""Messages that one claim examines before other writes can run."""
PROMOTE_SLICE: Final = 500
PROMOTE_WITH_CLAIM: Final = 10
"""Enough when messages become due one by one; when many are due at once, `promote` moves the rest."""
UNPARK_SLICE: Final = MAX_MESSAGES + 1
"""More than a run takes: one message of the thread is always left, and its claim unparks the next ones."""


class ClaimRequest(NamedTuple):
    agent: AgentId
    batching: Batching
    lease_ms: int
    held_teams: frozenset[TeamId] = frozenset()


class Unfinished(NamedTuple):
    """The search parked messages up to its limit and found none that can run: claim again."""

    agent: AgentId


def claim(tx: Transaction, requests: Sequence[ClaimRequest]) -> list[Claim | Unfinished | None]:
    # One query for all lanes; each yields one row or none.
    keys = [(request.agent, tx.now) for request in requests]
    ready = {row[_AGENT]: row for row in tx.connection.executemany(tx.sql["claim_ready"], keys)}
    sessions = _sessions(tx, [(row[_AGENT], row[_THREAD]) for row in ready.values()])
    claims: list[Claim | Unfinished | None] = []
    started: list[tuple[object, ...]] = []
    new_lanes: list[tuple[object, ...]] = []
    lanes: list[tuple[object, ...]] = []
    owner = str(tx.owner)
    for request in requests:
        row = ready.pop(request.agent, None)
        if row is None or row[_HAS_WAITING] or request.held_teams or request.batching is Batching.ALL:
            is_taken = any(lane[0] == request.agent for lane in new_lanes + lanes)
            choice = None if is_taken else _search(tx, request)
            if isinstance(choice, _Choice):
                primary = choice.messages[0]
                sessions[request.agent] = _sessions(tx, [(request.agent, primary.thread)]).get(request.agent, [])
        else:
            choice = _Choice(_with_batched(tx, row, request), row[_HOLDS])
        if not isinstance(choice, _Choice):
            claims.append(choice)
            continue
        messages, holds = choice
        # The claim id is the run's key in the lake. `new_id` repeats after nineteen days; an event id never does.
        event_id = tx.next_event_id()
        claim_id = ClaimId(f"{tx.new_id('claim')}_{event_id}")
        resumable = tuple(sessions.get(request.agent, ()))
        lease_until = tx.now + request.lease_ms
        new_claim = Claim(claim_id, request.agent, messages, tx.now, lease_until, holds or 0, resumable, event_id)
        claims.append(new_claim)
        start = _start_event(new_claim)
        tx.record(start, new_claim.primary)
        started.extend([(number, claim_id, tx.now, event_id) for number in start.ids])
        lane = (request.agent, claim_id, encode_json(start.ids), owner, lease_until)
        (new_lanes if holds is None else lanes).append(lane)
    tx.connection.executemany(tx.sql["start_message"], started)
    tx.connection.executemany(tx.sql["open_lane"], new_lanes)
    update_claimed_lanes(tx, "take_lane", lanes)
    return claims


class _Choice(NamedTuple):
    """The messages that a claim takes, and the lane's count of holds: None for a lane without a row."""

    messages: tuple[Message, ...]
    holds: int | None


def _search(tx: Transaction, request: ClaimRequest) -> _Choice | Unfinished | None:
    """The full search: promote due messages, park blocked ones, and batch across threads."""
    lane = tx.connection.execute(tx.sql["free_lane_state"], (request.agent, tx.now)).fetchone()
    if lane is None:
        return None
    takes_all = request.batching is Batching.ALL
    found = _find_ready(tx, request.agent, request.held_teams, MAX_MESSAGES if takes_all else 1)
    if not isinstance(found, _Ready):
        return found
    wanted = MAX_MESSAGES if request.batching is Batching.THREAD else 1
    thread = _read_thread(tx, request.agent, found.thread, 0, request.held_teams, wanted)
    if not thread:
        return Unfinished(request.agent)
    primary, *followers = thread
    posts = _read_room_posts(tx, request.agent, request.held_teams)
    if takes_all:
        candidates = _messages(tx, "messages_in_order", {"ids": encode_json([primary.id, *found.ids])})
        # Other room posts are already candidates. Passive posts fill the remaining places.
        passive = [post for post in posts if post.priority <= PASSIVE_PRIORITY]
        messages = coalesce(primary, candidates + passive[: max(0, MAX_MESSAGES - len(candidates))])
    else:
        messages = _coalesced(primary, followers, posts, request)
    unpark_threads(tx, request.agent, {message.thread for message in messages})
    return _Choice(messages, lane[0])


def _with_batched(tx: Transaction, row: tuple[Any, ...], request: ClaimRequest) -> tuple[Message, ...]:
    """The primary of the common case and the messages coalesced with it."""
    primary = Message._make(row[:_COLUMNS])
    if primary.failed_before:
        return (primary,)
    followers: list[Message] = []
    if request.batching is Batching.THREAD and joins_thread(primary):
        followers = _read_thread(tx, request.agent, primary.thread, primary.id + 1, (), MAX_MESSAGES)
    posts = _read_room_posts(tx, request.agent, ()) if row[_HAS_POSTS] else []
    return _coalesced(primary, followers, posts, request) if followers or posts else (primary,)


def _coalesced(
    primary: Message, followers: list[Message], posts: list[Message], request: ClaimRequest
) -> tuple[Message, ...]:
    """The primary with the chat messages of its thread and with room posts, as far as they may share a run."""
    joining = followers if joins_thread(primary) else []
    joining = joining + (_passive_only(posts, primary) if request.batching is Batching.NONE else posts)
    return coalesce(primary, joining)


def _passive_only(posts: list[Message], primary: Message) -> list[Message]:
    """Passive posts up to the first post of their room that starts a run: it must be read before later ones."""
    waking = [post for post in posts if post.priority > PASSIVE_PRIORITY and post.id != primary.id]
    return [
        post
        for post in posts
        if post.priority <= PASSIVE_PRIORITY
        and not any(other.thread == post.thread and other.id < post.id for other in waking)
    ]


def _sessions(tx: Transaction, primaries: Sequence[tuple[AgentId, str]]) -> dict[AgentId, list[ResumableSession]]:
    """Sessions that runs of these agents and threads may resume."""
    found: dict[AgentId, list[ResumableSession]] = {}
    for agent, *session in tx.connection.executemany(tx.sql["sessions_of_lane"], primaries):
        found.setdefault(agent, []).append(ResumableSession._make(session))
    return found


def _messages(tx: Transaction, name: str, parameters: dict[str, object]) -> list[Message]:
    return [Message._make(row) for row in tx.connection.execute(tx.sql[name], parameters)]


def _start_event(claim: Claim) -> ChainStepStart:
    primary = claim.primary
    return ChainStepStart(
        claim_id=claim.id,
        ids=tuple([message.id for message in claim.messages]),
        message_ids=tuple([message.message_id for message in claim.messages]),
        attempt=primary.attempt,
        from_agent=primary.from_agent,
        wait_ms=max(0, claim.started_at - max(primary.created_at, primary.available_at)),
    )


class _Ready(NamedTuple):
    """Ready messages that can run now, in claim order, and the thread of the first."""

    ids: tuple[int, ...]
    thread: str


def _find_ready(
    tx: Transaction, agent: AgentId, held_teams: Collection[TeamId], wanted: int
) -> _Ready | Unfinished | None:
    """Find up to `wanted` messages that can run now; park the blocked ones before them."""
    promote(tx, agent, PROMOTE_WITH_CLAIM)
    _unpark_teams(tx, agent, held_teams)
    found: list[tuple[int, str]] = []
    parked: list[tuple[int, str]] = []
    examined = 0
    for number, thread, team, is_blocked in tx.connection.execute(tx.sql["ready_messages"], (agent, SEARCH_LIMIT)):
        examined += 1
        if team in held_teams:
            parked.append((number, "team"))
        elif is_blocked:
            parked.append((number, "thread"))
        else:
            found.append((number, thread))
            if len(found) == wanted:
                break
    tx.connection.executemany(tx.sql["park_message"], parked)
    if found:
        return _Ready(tuple([number for number, _ in found]), found[0][1])
    return Unfinished(agent) if examined == SEARCH_LIMIT else None


def _read_thread(
    tx: Transaction, agent: AgentId, thread: str, start: int, held_teams: Collection[TeamId], wanted: int
) -> list[Message]:
    """The thread's oldest messages from an id on; messages of held teams are parked."""
    limit = SEARCH_LIMIT if held_teams else wanted
    page = {"agent": agent, "thread": thread, "from": start, "limit": limit}
    messages: list[Message] = []
    parked: list[tuple[int, str]] = []
    for message in map(Message._make, tx.connection.execute(tx.sql["thread_messages"], page)):
        if message.team in held_teams:
            parked.append((message.id, "team"))
        else:
            messages.append(message)
            if len(messages) == wanted:
                break
    tx.connection.executemany(tx.sql["park_message"], parked)
    return messages


def _read_room_posts(tx: Transaction, agent: AgentId, held_teams: Collection[TeamId]) -> list[Message]:
    """Posts that wait for the agent: those that start a run first, then passive ones."""
    posts: list[Message] = []
    thread = ""
    while (thread := tx.connection.execute(tx.sql["next_room"], (agent, thread)).get) is not None:
        if not tx.connection.execute(tx.sql["is_backing_off"], (agent, thread)).get:
            found = map(Message._make, tx.connection.execute(tx.sql["room_posts"], (agent, thread, MAX_MESSAGES)))
            posts += [post for post in found if post.team not in held_teams]
    return sorted(posts, key=lambda post: (-post.priority, post.id))[:MAX_MESSAGES]


def promote(tx: Transaction, agent: AgentId, limit: int = PROMOTE_SLICE) -> int:
    """Move a slice of the lane's due messages into the ready set; returns their number."""
    slice_ = {"agent": agent, "now": tx.now, "limit": limit}
    promoted: list[Any] = tx.connection.execute(tx.sql["promote_due"], slice_).fetchall()
    # Messages behind one in back-off may have a higher priority, which counts for the thread's turn.
    unpark_threads(tx, agent, {thread for thread, retry_count in promoted if retry_count > 0})
    return len(promoted)


def unpark_threads(tx: Transaction, agent: AgentId, threads: Iterable[str]) -> None:
    """Return parked messages of these threads to the ready set."""
    rows = [(agent, thread, UNPARK_SLICE) for thread in threads]
    tx.connection.executemany(tx.sql["unpark_thread"], rows)


def _unpark_teams(tx: Transaction, agent: AgentId, held_teams: Collection[TeamId]) -> None:
    """Return messages to the ready set whose team is no longer held."""
    team = ""
    while (team := tx.connection.execute(tx.sql["next_parked_team"], (agent, team)).get) is not None:
        if team not in held_teams:
            tx.connection.execute(tx.sql["unpark_team"], (agent, team, UNPARK_SLICE))


def renew(tx: Transaction, claim: Claim, lease_ms: int) -> int:
    """Extend the lease; returns when it ends."""
    lease_until = tx.now + lease_ms
    update_claimed_lanes(tx, "renew_lane", [(claim.agent, claim.id, lease_until)])
    return lease_until


def hold_lane(
    tx: Transaction, agent: AgentId, *, until: int, reason: str, cause: HoldCause | None, holds: int = 0
) -> None:
    """Allow no claim before this instant; 0 lifts the hold, and then the reason is only recorded."""
    tx.connection.execute(tx.sql["hold_lane"], (agent, until, reason if until else None, cause, holds))
    tx.record_alone(LaneHeld(until, reason, holds, cause), agent)


def update_claimed_lanes(tx: Transaction, name: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Update lane rows only where the claim still holds, else raise ClaimLost; rows begin with agent and claim id."""
    if not rows:
        return
    before = tx.connection.total_changes()
    tx.connection.executemany(tx.sql[name], rows)
    if tx.connection.total_changes() - before != len(rows):
        # With one row this names the lost claim. With several, the writer repeats the group one by one and gets here.
        agent, claim_id = rows[0][:2]
        raise ClaimLost(str(claim_id), str(agent))
