"""The audit log of administrative actions."""

from collections.abc import Sequence
from dataclasses import dataclass

from tinyagi.store.readers import BEYOND_ALL_IDS, Readers
from tinyagi.store.transaction import Transaction
from tinyagi.store.writer import Writer


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An administrative action: who did what to which target, and when."""

    id: int
    at: int
    who: str
    action: str
    target: str
    detail: str


class AuditLog:
    """Administrative actions, kept for ever."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def record(self, who: str, action: str, target: str, detail: str = "") -> None:
        """Append an entry."""
        await self._writer.write(record, AuditRecord(who, action, target, detail))

    async def recent(self, *, before: int | None = None, limit: int = 100) -> tuple[AuditEntry, ...]:
        """Entries below an id, newest first."""
        page = {"before": BEYOND_ALL_IDS if before is None else before, "limit": limit}
        return tuple(AuditEntry(*row) for row in await self._readers.rows("audit_page", page))


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
