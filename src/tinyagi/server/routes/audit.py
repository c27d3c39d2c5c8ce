"""Who has changed what."""

from fastapi import APIRouter

from tinyagi.api.logs import AuditLine
from tinyagi.server.parameters import Before, limit
from tinyagi.server.services import Use
from tinyagi.store.records import AuditEntry

router = APIRouter(tags=["logs"])


@router.get("/api/audit", response_model=list[AuditLine])
async def read_audit(services: Use, before: Before = None, limit: int = limit(100)) -> list[AuditLine]:
    """List administrative actions, newest first; `before` is the id of an entry."""
    return [_line(entry) for entry in await services.store.audit.recent(before=before, limit=limit)]


def _line(entry: AuditEntry) -> AuditLine:
    return AuditLine(
        id=entry.id, at=entry.at, who=entry.who, action=entry.action, target=entry.target, detail=entry.detail
    )
