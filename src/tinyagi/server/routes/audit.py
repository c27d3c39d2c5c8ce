"""The audit log: a router that records every administrative write, and GET /api/audit."""

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from tinyagi.api.daemon import AuditLine
from tinyagi.domain.errors import TinyAGIError
from tinyagi.domain.texts import one_line
from tinyagi.server.agent_scope import caller_of
from tinyagi.server.dependencies import Before, Services, ServicesDep, limit
from tinyagi.store.audit import AuditEntry

router = APIRouter(tags=["logs"])

log = logging.getLogger(__name__)

_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@router.get("/api/audit", response_model=list[AuditLine])
async def read_audit(services: ServicesDep, before: Before = None, limit: int = limit(100)) -> list[AuditLine]:
    """List administrative actions, newest first; `before` is the id of an entry."""
    return [_line(entry) for entry in await services.store.audit.recent(before=before, limit=limit)]


def _line(entry: AuditEntry) -> AuditLine:
    return AuditLine(
        id=entry.id, at=entry.at, who=entry.who, action=entry.action, target=entry.target, detail=entry.detail
    )


class AuditedRoute(APIRoute):
    """Records each successful write: the action is the route function's name, the target its path parameters."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        if not (self.methods or set()) & _WRITES:
            return handle

        async def handle_and_record(request: Request) -> Response:
            response = await handle(request)
            if response.status_code < 400:
                await _record(request, self.name)
            return response

        return handle_and_record


def audited_router() -> APIRouter:
    """Return a router whose writes go into the audit log."""
    return APIRouter(route_class=AuditedRoute)


def caller(request: Request) -> str:
    """Return the caller's name for a reason that people read; the audit log has credential and address."""
    if (agent := caller_of(request.scope)) is not None:
        return f"@{agent}"
    return one_line(request.headers.get("x-tinyagi-client", ""), 64) or "the owner"


def set_audit_detail(request: Request, detail: str) -> None:
    """Describe the change in a few words; never include a value that may be secret."""
    request.state.audit_detail = one_line(detail)


async def _record(request: Request, action: str) -> None:
    services: Services = request.app.state.services
    target = "/".join(str(value) for value in request.path_params.values())
    detail: str = getattr(request.state, "audit_detail", "")
    try:
        await services.store.audit.record(request.state.actor, action, target, detail)
    except TinyAGIError as error:
        # The action succeeded; an error here would make the client repeat it.
        log.warning("%s of %r by %s is not in the audit log: %s", action, target, request.state.actor, error)
