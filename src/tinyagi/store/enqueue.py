"""Stores new messages and room posts: the row, its conversation, its line of history and its events."""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

import apsw

from tinyagi.domain.errors import DuplicateMessage
from tinyagi.domain.events import ChatPosted, MessageReceived, TeamChainEnd
from tinyagi.domain.ids import AgentId, ConversationId, MessageId, TeamId
from tinyagi.domain.messages import (
    MAX_CHARACTERS,
    PASSIVE_PRIORITY,
    ROOM_CHANNEL,
    ROOM_PRIORITY,
    Message,
    NewMessage,
    Status,
    thread_of,
)
from tinyagi.domain.responses import ChatMessage, Role
from tinyagi.domain.runs import RoomPost
from tinyagi.store.transaction import Transaction, encode_json

MAX_UNINDEXED: Final = 2000
"""Lines of history that a reader has to scan. Indexing them in bulk writes few pages to the log."""

COLUMNS: Final = (
    *("id", "message_id", "channel", "sender", "sender_id", "message", "agent", "from_agent", "files"),
    *("conversation_id", "parent_message_id", "hop", "team", "thread", "priority", "available_at", "created_at"),
    *("updated_at", "last_event_id"),
)
"""Parameters of `insert_message`; the other columns of a new message have their defaults."""
_row_of = itemgetter(*map(Message._fields.index, COLUMNS))


class EnqueueRequest(NamedTuple):
    messages: tuple[NewMessage, ...]
    are_parts: bool = False
    """The messages are parts of one: the first is the conversation's root, the others get ids based on its id."""


def enqueue(tx: Transaction, requests: Sequence[EnqueueRequest]) -> list[tuple[Message, ...]]:
    batch = MessageBatch(tx)
    stored = [
        batch.add_parts(request.messages) if request.are_parts else tuple(map(batch.add, request.messages))
        for request in requests
    ]
    try:
        batch.write()
    except apsw.ConstraintError:
        _refuse_duplicates(tx, requests, stored)
        raise
    return stored


def _refuse_duplicates(
    tx: Transaction, requests: Sequence[EnqueueRequest], stored: Sequence[tuple[Message, ...]]
) -> None:
    """Raise DuplicateMessage when a client repeated an id. For a clash of generated ids the writer retries."""
    # Some of these messages are already in the tables, so only rows with a lower id count.
    first = next(message.id for messages in stored for message in messages)
    seen: set[str] = set()
    for request, messages in zip(requests, stored, strict=True):
        for new, message in zip(request.messages, messages, strict=True):
            client_id = request.messages[0].message_id if request.are_parts else new.message_id
            if not client_id:
                continue
            used = tx.connection.execute(tx.sql["message_id_in_use"], (message.message_id, first, tx.now)).fetchone()
            if used or message.message_id in seen:
                raise DuplicateMessage(message.message_id)
            seen.add(message.message_id)


class MessageBatch:
    """Collects the messages that one transaction adds to the queue, and writes each table once."""

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
        """Independent messages of one conversation; the first is its root."""
        root = self.add(messages[0])
        return (root, *(self.add(message, root=root) for message in messages[1:]))

    def add(
        self, new: NewMessage, message_id: str = "", root: Message | None = None, owner: TeamId | None = None
    ) -> Message:
        """Assign ids and a thread, and record the events. Without a `message_id`, use the message's own or make one.

        A conversation that starts here belongs to `owner`, or else to the message's team.
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
        # The event takes this dictionary as it is, which is cheaper than building one from the message.
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
        """Assign a conversation to the team; False when it already has a team."""
        changed = self._tx.change("give_to_team", (conversation_id, team))
        if changed:
            self._known.pop(conversation_id, None)
        return changed

    def add_history(self, message: Message, role: Role, content: str, event_id: int) -> int:
        """Add a line to the history of the message's agent and return its id."""
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
                message.from_agent if role is Role.USER else None,
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
        """Start time and team of a conversation; an unknown one starts now."""
        known = self._known.get(conversation_id)
        if known is None:
            row = self._tx.connection.execute(self._tx.sql["conversation"], (conversation_id,)).fetchone()
            known = self._known[conversation_id] = row or (self._tx.now, team)
        return known


def enqueue_with_posts(tx: Transaction, request: EnqueueRequest, posts: Sequence[RoomPost]) -> tuple[Message, ...]:
    """Store both or neither, so that a duplicate message does not post the lines that it contains again."""
    (stored,) = enqueue(tx, [request])
    for line in posts:
        post(tx, line, request.messages[0].sender)
    return stored


def post(tx: Transaction, new: RoomPost, sender: str) -> ChatMessage:
    """Store a person's line and its deliveries."""
    line = new_line(tx, new, sender)
    row = (*line, tx.record_alone(ChatPosted(line._asdict())))
    tx.connection.execute(tx.sql["insert_chat_message"], row)
    if new.members:
        batch = MessageBatch(tx)
        batch.add_together([delivery(new, member, sender) for member in new.members])
        batch.write()
    return line


def new_line(tx: Transaction, post: RoomPost, sender: str) -> ChatMessage:
    return ChatMessage(tx.next_id("chat_messages"), post.team, sender, post.message, tx.now)


def delivery(post: RoomPost, member: AgentId, sender: str) -> NewMessage:
    """The message that brings the line to one member."""
    # A post that is too long to share a run would wait for ever, and block all later posts of its room.
    is_passive = not post.wakes and len(post.prompt) <= MAX_CHARACTERS // 2
    return NewMessage(
        message=post.prompt,
        agent=member,
        channel=ROOM_CHANNEL,
        sender=sender,
        team=post.team,
        priority=PASSIVE_PRIORITY if is_passive else ROOM_PRIORITY,
    )


def teams_of(tx: Transaction, messages: Iterable[Message]) -> dict[str, TeamId]:
    """Teams by conversation, read now: another run may have given a conversation to a team since the claim."""
    ids = [(message.conversation_id,) for message in messages]
    return dict(tx.connection.executemany(tx.sql["conversation_teams"], ids))


def close_conversations(tx: Transaction, messages: Sequence[Message], teams: Mapping[str, TeamId]) -> None:
    """Count messages out of their conversations, and record the end of a team's conversation with no open message."""
    tx.connection.executemany(tx.sql["leave_conversation"], [(message.conversation_id,) for message in messages])
    if not teams:
        return
    for conversation_id, message in {message.conversation_id: message for message in messages}.items():
        if conversation_id in teams:
            ended = tx.connection.execute(tx.sql["ended_conversation"], (conversation_id,)).fetchone()
            if ended is not None:
                tx.record(TeamChainEnd(teams[conversation_id], ended[0]), message)
