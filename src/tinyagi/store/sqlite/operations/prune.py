"""Prune: rows that are old enough and that every durable reader has seen, a slice per transaction."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from tinyagi.domain.durations import millis
from tinyagi.domain.messages import Status
from tinyagi.domain.responses import Response
from tinyagi.store.base import PruneReport, Retention
from tinyagi.store.sqlite.operations.deliver import give_up
from tinyagi.store.sqlite.transaction import Transaction

SLICE: Final = 1000


def prune(tx: Transaction, requests: Sequence[Retention]) -> list[PruneReport]:
    return [_prune_slice(tx, retention) for retention in requests]


def _prune_slice(tx: Transaction, retention: Retention) -> PruneReport:
    bounds = {"floor": tx.connection.execute(tx.sql["archive_floor"]).get, "limit": SLICE}

    def older_than(age: timedelta) -> dict[str, object]:
        return {**bounds, "before": tx.now - millis(age)}

    messages = _prune_parts(tx, "prune_messages", older_than(retention.completed) | {"status": Status.COMPLETED})
    responses = _prune_parts(tx, "prune_responses", older_than(retention.acked))
    events = tx.count("prune_events", older_than(retention.events))
    unfetched = _expire(tx, tx.now - millis(retention.unfetched))
    history = rooms = 0
    # What somebody may still want to see goes only when there is a lake to see it in.
    if tx.connection.execute(tx.sql["is_archived"]).get:
        messages += _prune_parts(tx, "prune_messages", older_than(retention.dead) | {"status": Status.DEAD})
        responses += _prune_parts(tx, "prune_failed_responses", older_than(retention.dead))
        history = _prune_history(tx, older_than(retention.history))
        rooms = tx.count("prune_chat_messages", older_than(retention.history))
    return PruneReport(messages, responses, events, unfetched, history, rooms)


def _prune_parts(tx: Transaction, statement: str, bounds: dict[str, object]) -> int:
    """Parts of conversations, and the conversations that nothing is left of."""
    gone = tx.connection.execute(tx.sql[statement], bounds).fetchall()
    tx.connection.executemany(tx.sql["prune_conversation"], set(gone))
    return len(gone)


def _prune_history(tx: Transaction, bounds: dict[str, object]) -> int:
    gone = tx.connection.execute(tx.sql["prune_history"], bounds).fetchall()
    tx.connection.executemany(tx.sql["prune_history_index"], gone)
    return len(gone)


def _expire(tx: Transaction, before: int) -> int:
    """Responses that nobody fetched fail, so that they stop waiting and can be seen."""
    expired = 0
    for channel, *_ in tx.connection.execute(tx.sql["depth_by_channel"]).fetchall():
        oldest = {"channel": channel, "before": before, "limit": SLICE}
        for row in tx.connection.execute(tx.sql["unfetched_responses"], oldest).fetchall():
            give_up(tx, Response._make(row), 0, "nobody fetched it", None)
            expired += 1
    return expired
