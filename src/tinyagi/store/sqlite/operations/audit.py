"""The audit log's one write."""

from collections.abc import Sequence
from dataclasses import dataclass

from tinyagi.store.sqlite.transaction import Transaction


@dataclass(frozen=True, slots=True)
class AuditRecord:
    who: str
    action: str
    target: str
    detail: str


def record(tx: Transaction, entries: Sequence[AuditRecord]) -> list[None]:
    rows = [(tx.now, entry.who, entry.action, entry.target, entry.detail) for entry in entries]
    tx.connection.executemany(tx.sql["insert_audit_entry"], rows)
    return [None] * len(entries)
