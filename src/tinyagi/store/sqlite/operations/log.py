"""The event log's own writes: facts that belong to no other operation, and the cursors of durable readers."""

from collections.abc import Sequence
from dataclasses import dataclass

from tinyagi.domain.events import Event
from tinyagi.domain.ids import AgentId
from tinyagi.store.sqlite.transaction import Transaction


@dataclass(frozen=True, slots=True)
class AppendRequest:
    event: Event
    agent: AgentId | None


@dataclass(frozen=True, slots=True)
class CursorRequest:
    consumer: str
    position: int


def append(tx: Transaction, requests: Sequence[AppendRequest]) -> list[int]:
    return [tx.record_alone(request.event, request.agent) for request in requests]


def acknowledge(tx: Transaction, requests: Sequence[CursorRequest]) -> list[None]:
    rows = [(request.consumer, request.position, tx.now) for request in requests]
    tx.connection.executemany(tx.sql["move_cursor"], rows)
    return [None] * len(requests)


def detach(tx: Transaction, consumers: Sequence[str]) -> list[None]:
    tx.connection.executemany(tx.sql["drop_cursor"], [(consumer,) for consumer in consumers])
    return [None] * len(consumers)
