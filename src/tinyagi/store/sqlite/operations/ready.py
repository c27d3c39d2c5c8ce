"""The ready set of a lane: due messages enter it, blocked ones leave it, so a claim never reads a blocked backlog.

Each message is moved once per reason, by the claim that meets it. Of every thread with parked messages another one is
ready, in back-off or running; it brings the parked ones back.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

from tinyagi.domain.batching import MAX_MESSAGES
from tinyagi.domain.ids import AgentId, TeamId
from tinyagi.domain.messages import Message
from tinyagi.store.sqlite.transaction import Transaction

SEARCH_LIMIT: Final = 500
"""Messages that one claim looks at before other writes have their turn."""
PROMOTE_SLICE: Final = 500
PROMOTE_WITH_CLAIM: Final = 10
"""Enough for a lane whose messages become due one by one; when many are due at once, `promote` brings the rest."""
UNPARK_SLICE: Final = MAX_MESSAGES + 1
"""More than a run takes: one of the thread's messages is always left to bring back the next ones."""


class Unfinished(NamedTuple):
    """The search parked messages up to its limit and found none that can run: ask again."""

    agent: AgentId


class Found(NamedTuple):
    """Ready messages that can run now, in claim order; the thread of the first has its turn."""

    ids: tuple[int, ...]
    thread: str


def promote(tx: Transaction, lanes: Sequence[AgentId]) -> list[int]:
    """Move a slice of each lane's due messages into the ready set; returns how many."""
    return [_promote_lane(tx, agent, PROMOTE_SLICE) for agent in lanes]


def _promote_lane(tx: Transaction, agent: AgentId, limit: int) -> int:
    slice_ = {"agent": agent, "now": tx.now, "limit": limit}
    promoted: list[Any] = tx.connection.execute(tx.sql["promote_due"], slice_).fetchall()
    # What waited behind a message in back-off may have a higher priority, which counts for the thread's turn.
    unpark_threads(tx, agent, {thread for thread, retry_count in promoted if retry_count > 0})
    return len(promoted)


def search(tx: Transaction, agent: AgentId, held_teams: Collection[TeamId], wanted: int) -> Found | Unfinished | None:
    """Find up to `wanted` messages that can run now; park what stands before them and cannot."""
    _promote_lane(tx, agent, PROMOTE_WITH_CLAIM)
    _unpark_teams(tx, agent, held_teams)
    found: list[tuple[int, str]] = []
    parked: list[tuple[int, str]] = []
    looked = 0
    for number, thread, team, is_blocked in tx.connection.execute(tx.sql["ready_messages"], (agent, SEARCH_LIMIT)):
        looked += 1
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
        return Found(tuple([number for number, _ in found]), found[0][1])
    return Unfinished(agent) if looked == SEARCH_LIMIT else None


def read_thread(
    tx: Transaction, agent: AgentId, thread: str, start: int, held_teams: Collection[TeamId], wanted: int
) -> list[Message]:
    """The thread's oldest messages from an id on, without those of held teams, which are parked."""
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


def read_room_posts(tx: Transaction, agent: AgentId, held_teams: Collection[TeamId]) -> list[Message]:
    """Posts that wait for the agent, room by room: those that wake before those that only come along."""
    posts: list[Message] = []
    thread = ""
    while (thread := tx.connection.execute(tx.sql["next_room"], (agent, thread)).get) is not None:
        if not tx.connection.execute(tx.sql["is_backing_off"], (agent, thread)).get:
            found = map(Message._make, tx.connection.execute(tx.sql["room_posts"], (agent, thread, MAX_MESSAGES)))
            posts += [post for post in found if post.team not in held_teams]
    return sorted(posts, key=lambda post: (-post.priority, post.id))[:MAX_MESSAGES]


def unpark_threads(tx: Transaction, agent: AgentId, threads: Iterable[str]) -> None:
    """Bring parked messages of these threads back into the ready set."""
    rows = [(agent, thread, UNPARK_SLICE) for thread in threads]
    tx.connection.executemany(tx.sql["unpark_thread"], rows)


def _unpark_teams(tx: Transaction, agent: AgentId, held_teams: Collection[TeamId]) -> None:
    """Bring back what waits for a team that is held no longer."""
    team = ""
    while (team := tx.connection.execute(tx.sql["next_parked_team"], (agent, team)).get) is not None:
        if team not in held_teams:
            tx.connection.execute(tx.sql["unpark_team"], (agent, team, UNPARK_SLICE))
