"""Maintenance, one slice per transaction: adopt rows that other tools inserted, prune old rows, and record rows again
for a reader that missed their events.
"""

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from datetime import timedelta
from typing import Any, Final, NamedTuple

from tinyagi.domain.events import ChatPosted, MessageReceived, ResponseReady, RowImported
from tinyagi.domain.ids import is_valid_id
from tinyagi.domain.instants import millis
from tinyagi.domain.limits import Retention
from tinyagi.domain.messages import ROOM_PRIORITY, Message, Status, thread_of
from tinyagi.domain.responses import ChatMessage, HistoryEntry, Response, Role
from tinyagi.domain.routing import Route
from tinyagi.store.responses import record_failed_delivery
from tinyagi.store.transaction import Transaction

RouteText = Callable[[str], Route]

ADOPT_SLICE: Final = 500
RERECORD_SLICE: Final = 500
PRUNE_SLICE: Final = 1000


def adopt(tx: Transaction, route: RouteText) -> int:
    """Returns how many rows of the four tables it adopted; fewer than a slice when none are left."""
    return _adopt_messages(tx, route) + _adopt_responses(tx) + _adopt_chat_messages(tx) + _adopt_agent_messages(tx)


def _adopt_messages(tx: Transaction, route: RouteText) -> int:
    rows = tx.connection.execute(tx.sql["unadopted_messages"], (ADOPT_SLICE,)).fetchall()
    for row in rows:
        _adopt_message(tx, _routed(tx, Message._make(row), route))
    return len(rows)


def _routed(tx: Transaction, message: Message, route: RouteText) -> Message:
    """The message after adoption. Without a valid agent, the text is routed as at enqueue."""
    if not message.agent or not is_valid_id(message.agent):
        target = route(message.message)
        message = message._replace(agent=target.agent, team=target.team, conversation_team=target.team)
    known = tx.connection.execute(tx.sql["conversation"], (message.conversation_id,)).fetchone()
    if known is not None:
        message = message._replace(conversation_started_at=known[0], conversation_team=known[1])
    if message.status == Status.PENDING and _is_answered(tx, message):
        message = message._replace(status=Status.COMPLETED, answered_by=message.message_id)
    return message._replace(
        thread=thread_of(message, message.conversation_id),
        # Never passive: a message of another tool must not wait for another run.
        priority=max(message.priority, ROOM_PRIORITY),
        updated_at=tx.now,
        last_event_id=tx.next_event_id(),
    )


def _is_answered(tx: Transaction, message: Message) -> bool:
    """True when the answer exists: the original stored it first, and may have crashed before it ended the message."""
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
    return (*who, message.message, tx.now, message.last_event_id, message.from_agent)


def _adopt_responses(tx: Transaction) -> int:
    rows = tx.connection.execute(tx.sql["unadopted_responses"], (ADOPT_SLICE,)).fetchall()
    for response in map(Response._make, rows):
        adopted = response._replace(last_event_id=tx.next_event_id())
        tx.record_alone(ResponseReady(adopted._asdict()), response.agent, response.message_id)
        tx.change("adopt_response", (response.id, adopted.last_event_id))
    return len(rows)


def _adopt_chat_messages(tx: Transaction) -> int:
    rows = tx.connection.execute(tx.sql["unadopted_chat_messages"], (ADOPT_SLICE,)).fetchall()
    for line in map(ChatMessage._make, rows):
        tx.change("adopt_chat_message", (line.id, tx.record_alone(ChatPosted(line._asdict()))))
    return len(rows)


def _adopt_agent_messages(tx: Transaction) -> int:
    rows = tx.connection.execute(tx.sql["unadopted_agent_messages"], (ADOPT_SLICE,)).fetchall()
    for entry in map(HistoryEntry._make, rows):
        event = RowImported("agent_messages", entry._asdict())
        tx.change("adopt_agent_message", (entry.id, tx.record_alone(event, entry.agent_id, entry.message_id)))
    return len(rows)


@dataclass(frozen=True, slots=True)
class PruneReport:
    """Numbers of deleted rows, and of responses that failed because no client fetched them."""

    messages: int
    responses: int
    events: int
    unfetched: int
    history: int = 0
    rooms: int = 0

    def __add__(self, other: "PruneReport") -> "PruneReport":
        return PruneReport(*(one + two for one, two in zip(astuple(self), astuple(other), strict=True)))

    @property
    def largest(self) -> int:
        largest: int = max(astuple(self))
        return largest


def prune(tx: Transaction, retention: Retention) -> PruneReport:
    """Returns how many rows of one slice were deleted."""
    bounds = {"floor": tx.connection.execute(tx.sql["archive_floor"]).get, "limit": PRUNE_SLICE}

    def older_than(age: timedelta) -> dict[str, object]:
        return {**bounds, "before": tx.now - millis(age)}

    messages = _prune_parts(tx, "prune_messages", older_than(retention.completed) | {"status": Status.COMPLETED})
    responses = _prune_parts(tx, "prune_responses", older_than(retention.acked))
    events = tx.count("prune_events", older_than(retention.events))
    unfetched = _fail_unfetched(tx, tx.now - millis(retention.unfetched))
    history = rooms = 0
    # People may still want to read these rows, so delete them only when a lake has them.
    if tx.connection.execute(tx.sql["is_archived"]).get:
        messages += _prune_parts(tx, "prune_messages", older_than(retention.dead) | {"status": Status.DEAD})
        responses += _prune_parts(tx, "prune_failed_responses", older_than(retention.dead))
        history = _prune_history(tx, older_than(retention.history))
        rooms = tx.count("prune_chat_messages", older_than(retention.history))
    return PruneReport(messages, responses, events, unfetched, history, rooms)


def _prune_parts(tx: Transaction, statement: str, bounds: dict[str, object]) -> int:
    """Delete messages or responses, and the conversations that have none left."""
    deleted = tx.connection.execute(tx.sql[statement], bounds).fetchall()
    tx.connection.executemany(tx.sql["prune_conversation"], set(deleted))
    return len(deleted)


def _prune_history(tx: Transaction, bounds: dict[str, object]) -> int:
    deleted = tx.connection.execute(tx.sql["prune_history"], bounds).fetchall()
    tx.connection.executemany(tx.sql["prune_history_index"], deleted)
    return len(deleted)


def _fail_unfetched(tx: Transaction, before: int) -> int:
    """Fail responses that no client fetched, so that they stop waiting and show up as failed."""
    expired = 0
    for channel, *_ in tx.connection.execute(tx.sql["depth_by_channel"]).fetchall():
        oldest = {"channel": channel, "before": before, "limit": PRUNE_SLICE}
        for row in tx.connection.execute(tx.sql["unfetched_responses"], oldest).fetchall():
            record_failed_delivery(tx, Response._make(row), 0, "no client fetched it", None)
            expired += 1
    return expired


class Place(NamedTuple):
    """The last id of each table that was examined."""

    messages: int = 0
    responses: int = 0
    chat_messages: int = 0
    agent_messages: int = 0


class Rerecorded(NamedTuple):
    rows: int
    place: Place
    """Where the next slice begins; equal to the place where this one began when no rows are left."""


def rerecord(tx: Transaction, first: Place, *, after: int, before: int) -> Rerecorded:
    """Record the rows of a slice again whose last event lies between the two ids."""
    ends: Any = tx.connection.execute(tx.sql["ends_of_slices"], {**first._asdict(), "limit": RERECORD_SLICE}).fetchone()
    last = Place(*(begin if end is None else end for begin, end in zip(first, ends, strict=True)))

    def within(begin: int, end: int) -> dict[str, int]:
        return {"first": begin, "last": end, "after": after, "before": before}

    messages = within(first.messages, last.messages)
    responses = within(first.responses, last.responses)
    lines = within(first.chat_messages, last.chat_messages)
    history = within(first.agent_messages, last.agent_messages)
    rows = (
        _rerecord_messages(tx, messages)
        + _rerecord_rows(tx, responses, "responses", "untold_responses", "adopt_response", Response._make)
        + _rerecord_rows(tx, lines, "chat_messages", "untold_chat_messages", "adopt_chat_message", ChatMessage._make)
        + _rerecord_rows(
            tx, history, "agent_messages", "untold_agent_messages", "adopt_agent_message", HistoryEntry._make
        )
    )
    return Rerecorded(rows, last)


def _rerecord_messages(tx: Transaction, bounds: Mapping[str, int]) -> int:
    rows = tx.connection.execute(tx.sql["untold_messages"], bounds).fetchall()
    for message in map(Message._make, rows):
        recorded = message._replace(last_event_id=tx.next_event_id())
        tx.change("told_message", (message.id, tx.record(RowImported("messages", recorded._asdict()), recorded)))
    return len(rows)


def _rerecord_rows(
    tx: Transaction,
    bounds: Mapping[str, int],
    table: str,
    select: str,
    update: str,
    make: Callable[[Any], Response | ChatMessage | HistoryEntry],
) -> int:
    rows = tx.connection.execute(tx.sql[select], bounds).fetchall()
    for row in map(make, rows):
        tx.change(update, (row.id, tx.record_alone(RowImported(table, row._asdict()))))
    return len(rows)
