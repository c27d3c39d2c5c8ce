"""Adopt: rows that other tools inserted get a lane, a conversation and their events, a slice per transaction."""

from collections.abc import Callable, Sequence
from typing import Final

from tinyagi.domain.events import ChatPosted, MessageReceived, ResponseReady, RowImported
from tinyagi.domain.ids import is_valid_id
from tinyagi.domain.messages import ROOM_PRIORITY, Message, Status, thread_of
from tinyagi.domain.responses import ChatMessage, HistoryEntry, Response, Role
from tinyagi.domain.routing import Route
from tinyagi.store.sqlite.transaction import Transaction

SLICE: Final = 500

RouteText = Callable[[str], Route]


def adopt(tx: Transaction, routers: Sequence[RouteText]) -> list[int]:
    """Returns how many rows each slice adopted."""
    return [
        _adopt_messages(tx, route) + _adopt_responses(tx) + _adopt_chat_messages(tx) + _adopt_agent_messages(tx)
        for route in routers
    ]


def _adopt_messages(tx: Transaction, route: RouteText) -> int:
    rows = tx.connection.execute(tx.sql["unadopted_messages"], (SLICE,)).fetchall()
    for row in rows:
        _adopt_message(tx, _in_its_lane(tx, Message._make(row), route))
    return len(rows)


def _in_its_lane(tx: Transaction, message: Message, route: RouteText) -> Message:
    """The message as it stands after adoption. Without a usable agent its text decides, as it does at enqueue."""
    if not message.agent or not is_valid_id(message.agent):
        target = route(message.message)
        message = message._replace(
            agent=target.agent, message=target.text, team=target.team, conversation_team=target.team
        )
    known = tx.connection.execute(tx.sql["conversation"], (message.conversation_id,)).fetchone()
    if known is not None:
        message = message._replace(conversation_started_at=known[0], conversation_team=known[1])
    if message.status == Status.PENDING and _is_answered(tx, message):
        message = message._replace(status=Status.COMPLETED, answered_by=message.message_id)
    return message._replace(
        thread=thread_of(message, message.conversation_id),
        # Nothing that another tool sends waits for others' runs.
        priority=max(message.priority, ROOM_PRIORITY),
        updated_at=tx.now,
        last_event_id=tx.next_event_id(),
    )


def _is_answered(tx: Transaction, message: Message) -> bool:
    """The original stored an answer before it ended the message; a crash in between left the message to run again."""
    answered: int = tx.connection.execute(tx.sql["is_answered"], (message.message_id, message.agent)).get
    return bool(answered)


def _adopt_message(tx: Transaction, message: Message) -> None:
    is_pending = message.status == Status.PENDING
    if is_pending:
        history_id = tx.next_id("agent_messages")
        tx.record(MessageReceived(message._asdict(), history_id), message)
        tx.connection.execute(tx.sql["insert_history"], _history_row(tx, message, history_id))
    else:
        tx.record(RowImported("messages", message._asdict()), message)
    tx.connection.execute(
        tx.sql["join_conversation" if is_pending else "count_conversation"],
        (message.conversation_id, message.conversation_team, message.conversation_started_at),
    )
    tx.connection.execute(
        tx.sql["adopt_message"],
        (
            message.id,
            message.message,
            message.agent,
            message.team,
            message.conversation_id,
            message.thread,
            message.priority,
            message.status,
            message.answered_by,
            message.updated_at,
            message.last_event_id,
        ),
    )


def _history_row(tx: Transaction, message: Message, history_id: int) -> tuple[object, ...]:
    who = (history_id, message.agent, Role.USER, message.channel, message.sender, message.message_id)
    return (*who, message.message, tx.now, message.last_event_id)


def _adopt_responses(tx: Transaction) -> int:
    rows = tx.connection.execute(tx.sql["unadopted_responses"], (SLICE,)).fetchall()
    for response in map(Response._make, rows):
        adopted = response._replace(last_event_id=tx.next_event_id())
        tx.record_alone(ResponseReady(adopted._asdict()), response.agent, response.message_id)
        tx.change("adopt_response", (response.id, adopted.last_event_id))
    return len(rows)


def _adopt_chat_messages(tx: Transaction) -> int:
    rows = tx.connection.execute(tx.sql["unadopted_chat_messages"], (SLICE,)).fetchall()
    for line in map(ChatMessage._make, rows):
        tx.change("adopt_chat_message", (line.id, tx.record_alone(ChatPosted(line._asdict()))))
    return len(rows)


def _adopt_agent_messages(tx: Transaction) -> int:
    rows = tx.connection.execute(tx.sql["unadopted_agent_messages"], (SLICE,)).fetchall()
    for entry in map(HistoryEntry._make, rows):
        event = RowImported("agent_messages", entry._asdict())
        tx.change("adopt_agent_message", (entry.id, tx.record_alone(event, entry.agent_id, entry.message_id)))
    return len(rows)
