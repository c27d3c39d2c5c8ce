"""Where agents go on: what a completed run leaves to be resumed, and a person's reset."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from tinyagi.domain.events import SessionReset
from tinyagi.domain.ids import AgentId, ClaimId
from tinyagi.domain.messages import Claim
from tinyagi.domain.sessions import Session
from tinyagi.store.sqlite.transaction import Transaction

MAX_TURNS: Final = 400
"""Of one thread: more than any provider is told again."""


class ResetRequest(NamedTuple):
    agent: AgentId
    by: str
    starting: ClaimId | None = None


def keep_session(tx: Transaction, claim: Claim, session: Session) -> None:
    """Store where the agent's next run goes on, unless the agent was reset while this one ran."""
    if tx.connection.execute(tx.sql["was_reset"], (claim.agent, claim.id)).fetchone():
        return
    place = (claim.agent, session.thread)
    if session.session_id is not None:
        tx.connection.execute(tx.sql["keep_session"], (*place, session.provider, session.session_id, tx.now))
    if session.turns:
        last: int = tx.connection.execute(tx.sql["last_turn"], place).get
        rows = [
            (*place, number, turn.role, turn.content, tx.now)
            for number, turn in enumerate(session.turns, start=last + 1)
        ]
        tx.connection.executemany(tx.sql["insert_turn"], rows)
        tx.connection.execute(tx.sql["forget_old_turns"], (*place, last + len(rows) - MAX_TURNS))


def reset(tx: Transaction, requests: Sequence[ResetRequest]) -> list[int]:
    """Returns how many sessions each agent had; a run that is going on leaves none."""
    forgotten = []
    for agent, by, starting in requests:
        forgotten.append(tx.count("forget_sessions", (agent,)))
        tx.connection.execute(tx.sql["forget_turns"], (agent,))
        tx.connection.execute(tx.sql["mark_reset"], (agent, starting))
        tx.record_alone(SessionReset(by), agent)
    return forgotten
