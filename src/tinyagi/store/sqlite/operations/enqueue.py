"""Enqueue: the message, its place in a conversation, its line in the agent's history, and its events."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

import apsw

from tinyagi.domain.errors import DuplicateMessage
from tinyagi.domain.events import MessageReceived
from tinyagi.domain.ids import ConversationId, MessageId, TeamId
from tinyagi.domain.messages import Message, NewMessage, Status, thread_of
from tinyagi.domain.responses import Role
from tinyagi.store.sqlite.transaction import Transaction, encode_json

MAX_UNINDEXED: Final = 2000
"""Lines of history that a reader has to look through; indexing them together costs few pages of the log."""

COLUMNS: Final = (
    *("id", "message_id", "channel", "sender", "sender_id", "message", "agent", "from_agent", "files"),
    *("conversation_id", "parent_message_id", "hop", "team", "thread", "priority", "available_at", "created_at"),
    *("updated_at", "last_event_id"),
)
"""What `insert_message` takes; the other columns of a new message have their defaults."""
_row_of = itemgetter(*map(Message._fields.index, COLUMNS))


class EnqueueRequest(NamedTuple):
    messages: tuple[NewMessage, ...]
    are_parts: bool = False
    """The messages are parts of one: the first is the conversation's root, the others are named after it."""


def enqueue(tx: Transaction, requests: Sequence[EnqueueRequest]) -> list[tuple[Message, ...]]:
    inflow = Inflow(tx)
    stored = [
        inflow.add_parts(request.messages) if request.are_parts else tuple(map(inflow.add, request.messages))
        for request in requests
    ]
    try:
        inflow.write()
    except apsw.ConstraintError:
        _refuse_duplicates(tx, requests, stored)
        raise
    return stored


def _refuse_duplicates(
    tx: Transaction, requests: Sequence[EnqueueRequest], stored: Sequence[tuple[Message, ...]]
) -> None:
    """Tell a repeated id of a client from a clash of ids that we made: the first is an answer, the second a retry."""
    # Some of these messages are in the tables already: only older rows are another's.
    first = next(message.id for messages in stored for message in messages)
    seen: set[str] = set()
    for request, messages in zip(requests, stored, strict=True):
        for new, message in zip(request.messages, messages, strict=True):
            given = request.messages[0].message_id if request.are_parts else new.message_id
            if not given:
                continue
            used = tx.connection.execute(tx.sql["message_id_in_use"], (message.message_id, first, tx.now)).fetchone()
            if used or message.message_id in seen:
                raise DuplicateMessage(message.message_id)
            seen.add(message.message_id)


class Inflow:
    """Collects messages that enter the queue in one transaction, and writes each table once."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._messages: list[tuple[object, ...]] = []
        self._history: list[tuple[object, ...]] = []
        self._starting: list[tuple[object, ...]] = []
        self._joining: list[tuple[object, ...]] = []
        self._known: dict[str, tuple[int, TeamId | None]] = {}

    def add_parts(self, parts: Sequence[NewMessage]) -> tuple[Message, ...]:
        owner = next((part.team for part in parts if part.team is not None), None)
        root = self.add(parts[0], owner=owner)
        rest = (self.add(part, f"{root.message_id}.{n}", root) for n, part in enumerate(parts[1:], start=2))
        return (root, *rest)

    def add_together(self, messages: Sequence[NewMessage]) -> tuple[Message, ...]:
        """Independent messages of one conversation, named after the first."""
        root = self.add(messages[0])
        return (root, *(self.add(message, root=root) for message in messages[1:]))

    def add(
        self, new: NewMessage, message_id: str = "", root: Message | None = None, owner: TeamId | None = None
    ) -> Message:
        """Give the message its ids, its thread and its events; an empty id is made from the message or its channel.

        A conversation that starts with it belongs to the owner, or to the message's own team.
        """
        tx = self._tx
        message_id = message_id or new.message_id or tx.new_id(new.channel)
        joined = root.conversation_id if root is not None else new.conversation_id
        if joined is None:
            conversation_id, started_at, team = ConversationId(message_id), tx.now, owner or new.team
            self._starting.append((conversation_id, team, started_at))
            self._known[conversation_id] = (started_at, team)
        else:
            conversation_id = joined
            started_at, team = self._conversation(conversation_id, new.team)
            self._joining.append((conversation_id, team, started_at))
        event_id = tx.next_event_id()
        # A dictionary first: the event takes it as it is, which costs less than one made from the message again.
        fields: dict[str, Any] = {
            "id": tx.next_id("messages"),
            "message_id": MessageId(message_id),
            "channel": new.channel,
            "sender": new.sender,
            "sender_id": new.sender_id,
            "message": new.message,
            "agent": new.agent,
            "from_agent": new.from_agent,
            "files": encode_json(new.files) if new.files else None,
            "conversation_id": conversation_id,
            "conversation_started_at": started_at,
            "conversation_team": team,
            "parent_message_id": new.parent_message_id,
            "hop": new.hop,
            "team": new.team,
            "thread": thread_of(new, conversation_id),
            "priority": new.priority,
            "status": Status.PENDING,
            "retry_count": 0,
            "last_error": None,
            "available_at": new.available_at,
            "claim_id": None,
            "started_at": None,
            "answered_by": None,
            "created_at": tx.now,
            "updated_at": tx.now,
            "last_event_id": event_id,
        }
        message = Message(**fields)
        waits_for = "time" if new.available_at > tx.now else None
        self._messages.append((*_row_of(message), waits_for))
        history_id = self.add_history(message, Role.USER, new.message, event_id)
        tx.record(MessageReceived(fields, history_id), message)
        for fact in new.facts:
            tx.record(fact, message)
        return message

    def give_to_team(self, conversation_id: str, team: TeamId) -> bool:
        """Make a conversation the team's own; False when it has a team already."""
        given = self._tx.change("give_to_team", (conversation_id, team))
        if given:
            self._known.pop(conversation_id, None)
        return given

    def add_history(self, message: Message, role: Role, content: str, event_id: int) -> int:
        """A line in the history of the message's agent."""
        tx = self._tx
        history_id = tx.next_id("agent_messages")
        sender = message.sender if role is Role.USER else message.agent
        self._history.append(
            (
                history_id,
                message.agent,
                role,
                message.channel,
                sender,
                message.message_id,
                content,
                tx.now,
                event_id,
            )
        )
        return history_id

    def write(self) -> None:
        tx = self._tx
        tx.insert("insert_message", self._messages)
        tx.insert("start_conversation", self._starting)
        tx.insert("join_conversation", self._joining)
        tx.insert("insert_history", self._history)
        if tx.unindexed_history() > MAX_UNINDEXED:
            tx.connection.execute(tx.sql["index_history"])
            tx.connection.execute(tx.sql["mark_history_indexed"])

    def _conversation(self, conversation_id: str, team: TeamId | None) -> tuple[int, TeamId | None]:
        """When the conversation started and whose it is; one that nobody knows starts now."""
        known = self._known.get(conversation_id)
        if known is None:
            row = self._tx.connection.execute(self._tx.sql["conversation"], (conversation_id,)).fetchone()
            known = self._known[conversation_id] = row or (self._tx.now, team)
        return known
