"""Retell: rows whose events are pruned are told again, as rows that were there before, a slice per transaction."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tinyagi.domain.events import RowImported
from tinyagi.domain.messages import Message
from tinyagi.domain.responses import ChatMessage, HistoryEntry, Response
from tinyagi.store.sqlite.transaction import Transaction

SLICE: Final = 500


class RetellRequest(NamedTuple):
    after: int
    before: int


def retell(tx: Transaction, requests: Sequence[RetellRequest]) -> list[int]:
    """Returns how many rows each slice told."""
    return [_retell_slice(tx, request) for request in requests]


def _retell_slice(tx: Transaction, request: RetellRequest) -> int:
    bounds = {"after": request.after, "before": request.before, "limit": SLICE}
    return (
        _messages(tx, bounds)
        + _rows(tx, bounds, "responses", "untold_responses", "adopt_response", Response._make)
        + _rows(tx, bounds, "chat_messages", "untold_chat_messages", "adopt_chat_message", ChatMessage._make)
        + _rows(tx, bounds, "agent_messages", "untold_agent_messages", "adopt_agent_message", HistoryEntry._make)
    )


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
