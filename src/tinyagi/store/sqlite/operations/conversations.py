"""Conversations as messages leave them: whose they are by now, and which of a team have ended."""

from collections.abc import Iterable, Mapping, Sequence

from tinyagi.domain.events import TeamChainEnd
from tinyagi.domain.ids import TeamId
from tinyagi.domain.messages import Message
from tinyagi.store.sqlite.transaction import Transaction


def teams_of(tx: Transaction, messages: Iterable[Message]) -> dict[str, TeamId]:
    """Teams by conversation as they are now: a run elsewhere may have given one to a team since the claim."""
    places = [(message.conversation_id,) for message in messages]
    return dict(tx.connection.executemany(tx.sql["conversation_teams"], places))


def close_conversations(tx: Transaction, messages: Sequence[Message], teams: Mapping[str, TeamId]) -> None:
    """Count messages out of their conversations; a team's conversation that has nothing open any more has ended."""
    tx.connection.executemany(tx.sql["leave_conversation"], [(message.conversation_id,) for message in messages])
    if not teams:
        return
    for conversation_id, message in {message.conversation_id: message for message in messages}.items():
        if conversation_id in teams:
            ended = tx.connection.execute(tx.sql["ended_conversation"], (conversation_id,)).fetchone()
            if ended is not None:
                tx.record(TeamChainEnd(teams[conversation_id], ended[0]), message)
