"""The audit log on SQLite."""

from tinyagi.store.records import AuditEntry
from tinyagi.store.sqlite.operations.audit import AuditRecord, record
from tinyagi.store.sqlite.readers import BEYOND_ALL_IDS, Readers
from tinyagi.store.sqlite.writer import Writer


class SqliteAuditLog:
    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def record(self, who: str, action: str, target: str, detail: str = "") -> None:
        await self._writer.write(record, AuditRecord(who, action, target, detail))

    async def recent(self, *, before: int | None = None, limit: int = 100) -> tuple[AuditEntry, ...]:
        page = {"before": BEYOND_ALL_IDS if before is None else before, "limit": limit}
        return tuple(AuditEntry(*row) for row in await self._readers.rows("audit_page", page))
