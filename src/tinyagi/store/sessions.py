"""Sessions and turns that the next run of an agent resumes, their reset, and spending per day."""

from collections.abc import Iterable, Mapping
from typing import Final

from tinyagi.domain.events import SessionReset
from tinyagi.domain.ids import AgentId, ClaimId
from tinyagi.domain.limits import Charge, Spent
from tinyagi.domain.responses import Role
from tinyagi.domain.runs import Claim, Session, Turn
from tinyagi.store.readers import Readers
from tinyagi.store.transaction import Transaction
from tinyagi.store.writer import Writer

MAX_TURNS: Final = 400
"""Per thread; more than any provider gets as context."""


class SessionStore:
    """Sessions and turns that agents resume; `MessageQueue.complete` writes them."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def find(self, agent: AgentId, thread: str, provider: str) -> str | None:
        """This provider's last session id, or None to start a new session."""
        row = await self._readers.row("session", (agent, thread, provider))
        session_id: str | None = None if row is None else row[0]
        return session_id

    async def turns(self, agent: AgentId, thread: str, *, limit: int = 200) -> tuple[Turn, ...]:
        """The last turns of a thread, oldest first, for providers that store none."""
        newest = await self._readers.rows("newest_turns", {"agent": agent, "thread": thread, "limit": limit})
        return tuple(Turn(Role(role), content) for role, content in reversed(newest))

    async def reset(self, agent: AgentId, *, by: str, starting: ClaimId | None = None) -> int:
        """Delete every session and turn of an agent and return the number of sessions.

        The current run saves no session either, unless its claim is `starting`: the run that this reset begins.
        """
        return await self._writer.run(reset, agent, by=by, starting=starting)


class SpendStore:
    """Spending; `MessageQueue.complete` and `MessageQueue.fail` write it."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers

    async def of_day(self, day: str) -> Mapping[str, Spent]:
        """Spending of each scope on this day."""
        rows = await self._readers.rows("spend_of_day", (day,))
        return {scope: Spent(tokens, cost) for scope, tokens, cost in rows}


def save_session(tx: Transaction, claim: Claim, session: Session) -> None:
    """Save what the agent's next run resumes, unless the agent was reset during this run."""
    if tx.connection.execute(tx.sql["was_reset"], (claim.agent, claim.id)).fetchone():
        return
    key = (claim.agent, session.thread)
    if session.session_id is not None:
        tx.connection.execute(
            tx.sql["keep_session"], (*key, session.provider, session.session_id, session.state, tx.now)
        )
    if session.turns:
        last: int = tx.connection.execute(tx.sql["last_turn"], key).get
        rows = [
            (*key, number, turn.role, turn.content, tx.now) for number, turn in enumerate(session.turns, start=last + 1)
        ]
        tx.connection.executemany(tx.sql["insert_turn"], rows)
        tx.connection.execute(tx.sql["forget_old_turns"], (*key, last + len(rows) - MAX_TURNS))


def reset(tx: Transaction, agent: AgentId, *, by: str, starting: ClaimId | None) -> int:
    """Returns the number of deleted sessions."""
    sessions = tx.count("forget_sessions", (agent,))
    tx.connection.execute(tx.sql["forget_turns"], (agent,))
    tx.connection.execute(tx.sql["mark_reset"], (agent, starting))
    tx.record_alone(SessionReset(by), agent)
    return sessions


def add_charges(tx: Transaction, charges: Iterable[Charge]) -> None:
    rows = [(charge.day, scope, charge.tokens, charge.cost) for charge in charges for scope in charge.scopes]
    tx.connection.executemany(tx.sql["add_spend"], rows)
