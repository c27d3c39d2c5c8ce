"""Prune: rows that are old enough and that every durable reader has seen, a slice per transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tinyagi.domain.responses import Response
from tinyagi.store.sqlite.operations.deliver import give_up
from tinyagi.store.sqlite.transaction import Transaction

SLICE: Final = 1000


@dataclass(frozen=True, slots=True)
class PruneRequest:
    """Ages in milliseconds."""

    completed: int
    acked: int
    events: int
    unfetched: int


@dataclass(frozen=True, slots=True)
class Pruned:
    messages: int = 0
    responses: int = 0
    events: int = 0
    unfetched: int = 0

    def __add__(self, other: "Pruned") -> "Pruned":
        return Pruned(
            self.messages + other.messages,
            self.responses + other.responses,
            self.events + other.events,
            self.unfetched + other.unfetched,
        )

    @property
    def is_full(self) -> bool:
        """True when a slice was used up, so that there may be more."""
        return max(self.messages, self.responses, self.events, self.unfetched) >= SLICE


def prune(tx: Transaction, requests: Sequence[PruneRequest]) -> list[Pruned]:
    return [_prune_slice(tx, request) for request in requests]


def _prune_slice(tx: Transaction, request: PruneRequest) -> Pruned:
    bounds = {"floor": tx.connection.execute(tx.sql["archive_floor"]).get, "limit": SLICE}
    messages = tx.connection.execute(
        tx.sql["prune_messages"], {**bounds, "before": tx.now - request.completed}
    ).fetchall()
    tx.connection.executemany(tx.sql["prune_conversation"], set(messages))
    responses = tx.count("prune_responses", {**bounds, "before": tx.now - request.acked})
    events = tx.count("prune_events", {**bounds, "before": tx.now - request.events})
    return Pruned(len(messages), responses, events, _expire(tx, tx.now - request.unfetched))


def _expire(tx: Transaction, before: int) -> int:
    """Responses that nobody fetched fail, so that they stop waiting and can be seen."""
    expired = 0
    for channel, *_ in tx.connection.execute(tx.sql["depth_by_channel"]).fetchall():
        oldest = {"channel": channel, "before": before, "limit": SLICE}
        for row in tx.connection.execute(tx.sql["unfetched_responses"], oldest).fetchall():
            give_up(tx, Response._make(row), 0, "nobody fetched it", None)
            expired += 1
    return expired
