"""Retell: rows whose events are pruned are told again, as rows that were there before, a slice per transaction."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tinyagi.domain.events import RowImported
from tinyagi.domain.messages import Message
from tinyagi.domain.responses import ChatMessage, HistoryEntry, Response
from tinyagi.store.sqlite.transaction import Transaction

SLICE: Final = 500


class Place(NamedTuple):
    """The last id of each table that was looked at."""

    messages: int = 0
    responses: int = 0
    chat_messages: int = 0
    agent_messages: int = 0


class RetellRequest(NamedTuple):
    after: int
    before: int
    place: Place = Place()


class Retold(NamedTuple):
    rows: int
    place: Place
    """Where the next slice begins; where this one began when there are no further rows."""


def retell(tx: Transaction, requests: Sequence[RetellRequest]) -> list[Retold]:
    return [_retell_slice(tx, request) for request in requests]


def _retell_slice(tx: Transaction, request: RetellRequest) -> Retold:
    first = request.place
    ends: Any = tx.connection.execute(tx.sql["ends_of_slices"], {**first._asdict(), "limit": SLICE}).fetchone()
    last = Place(*(begin if end is None else end for begin, end in zip(first, ends, strict=True)))

    def within(begin: int, end: int) -> dict[str, int]:
        return {"first": begin, "last": end, "after": request.after, "before": request.before}

    messages = within(first.messages, last.messages)
    responses = within(first.responses, last.responses)
    lines = within(first.chat_messages, last.chat_messages)
    history = within(first.agent_messages, last.agent_messages)
    rows = (
        _messages(tx, messages)
        + _rows(tx, responses, "responses", "untold_responses", "adopt_response", Response._make)
        + _rows(tx, lines, "chat_messages", "untold_chat_messages", "adopt_chat_message", ChatMessage._make)
        + _rows(tx, history, "agent_messages", "untold_agent_messages", "adopt_agent_message", HistoryEntry._make)
    )
    return Retold(rows, last)


def _messages(tx: Transaction, bounds: Mapping[str, int]) -> int:
    rows = tx.connection.execute(tx.sql["untold_messages"], bounds).fetchall()
    for message in map(Message._make, rows):
        told = message._replace(last_event_id=tx.next_event_id())
        tx.change("told_message", (message.id, tx.record(RowImported("messages", told._asdict()), told)))
    return len(rows)


def _rows(
    tx: Transaction,
    bounds: Mapping[str, int],
    table: str,
    untold: str,
    told: str,
    make: Callable[[Any], Response | ChatMessage | HistoryEntry],
) -> int:
    rows = tx.connection.execute(tx.sql[untold], bounds).fetchall()
    for row in map(make, rows):
        tx.change(told, (row.id, tx.record_alone(RowImported(table, row._asdict()))))
    return len(rows)
