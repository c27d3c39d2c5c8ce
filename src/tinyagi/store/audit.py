"""The audit log of administrative actions."""

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
        await self._writer.run(record, who=who, action=action, target=target, detail=detail)

    async def recent(self, *, before: int | None = None, limit: int = 100) -> tuple[AuditEntry, ...]:
        """Entries below an id, newest first."""
        page = {"before": BEYOND_ALL_IDS if before is None else before, "limit": limit}
        return tuple(AuditEntry(*row) for row in await self._readers.rows("audit_page", page))


def record(tx: Transaction, *, who: str, action: str, target: str, detail: str) -> None:
    tx.connection.execute(tx.sql["insert_audit_entry"], (tx.now, who, action, target, detail))
