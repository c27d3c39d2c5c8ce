"""Writes down who changed what: every route of an audited router, once it has succeeded."""

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from tinyagi.domain.errors import TinyAGIError
from tinyagi.domain.texts import one_line
from tinyagi.server.services import Services

log = logging.getLogger(__name__)

_CHANGES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class AuditedRoute(APIRoute):
    """Its action is the name of the route's function, its target the parameters of the path."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        if not (self.methods or set()) & _CHANGES:
            return handle

        async def handle_and_record(request: Request) -> Response:
            response = await handle(request)
            if response.status_code < 400:
                await _record(request, self.name)
            return response

        return handle_and_record


def audited_router() -> APIRouter:
    """A router whose writes are administrative actions."""
    return APIRouter(route_class=AuditedRoute)


def tell(request: Request, detail: str) -> None:
    """Say in a few words what was changed; never a value that may be secret."""
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
