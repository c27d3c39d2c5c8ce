"""The application: the guard, two plain ASGI endpoints, and everything else as FastAPI routes."""

import time
from collections.abc import Awaitable
from typing import Final

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tinyagi.server import errors, login, pages
from tinyagi.server.access import Names, Token
from tinyagi.server.guard import Guard
from tinyagi.server.limits import RateLimit
from tinyagi.server.messages import PATH, MessageDoor
from tinyagi.server.metrics import Metrics
from tinyagi.server.openapi import document
from tinyagi.server.routes import (
    agents,
    analytics,
    audit,
    events,
    history,
    logs,
    pairing,
    projects,
    providers,
    queue,
    recall,
    responses,
    rooms,
    schedules,
    services,
    settings,
    status,
    tasks,
    teams,
    traces,
    workspace,
)
from tinyagi.server.services import Services
from tinyagi.server.stream import Stream
from tinyagi.settings.server import ServerSettings

STREAM: Final = "/api/events/stream"
_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)
_NO_STORE: Final = (b"cache-control", b"no-store")


def create_app(given: Services, configured: ServerSettings, token: str | None) -> ASGIApp:
    """Everything that answers at the port, behind one guard."""
    shown = None if token is None else Token(token)
    door = MessageDoor(given.engine.inbox, RateLimit(configured.messages_per_minute), given.metrics.request)
    front = _Front(
        fast={("POST", PATH): door, ("GET", STREAM): Stream(given.hub, given.store)},
        rest=_Measured(framework(given, shown), given.metrics),
    )
    return Guard(front, names=Names(configured, given.port), token=shown, max_body=configured.max_body_bytes)


def framework(given: Services, token: Token | None) -> FastAPI:
    """Every route that needs no speed, and the document of all."""
    app = FastAPI(
        title="TinyAGI",
        version=given.version,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=errors.responses(*errors.COMMON),
    )
    app.state.services = given
    app.openapi = lambda: document(app)  # type: ignore[method-assign]
    errors.install(app)
    for module in (
        *(status, queue, responses, rooms, history, recall, events, traces, analytics, logs, audit),
        *(agents, workspace, teams, settings, providers, pairing, schedules, tasks, projects, services, pages),
    ):
        app.include_router(module.router)
    app.include_router(login.routes(token))
    return app


class _Front:
    """Leads the two addresses that are asked most past the framework."""

    def __init__(self, fast: dict[tuple[str, str], ASGIApp], rest: ASGIApp) -> None:
        self._fast = fast
        self._rest = rest

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        app = self._fast.get((scope["method"], scope["path"]), self._rest) if scope["type"] == "http" else self._rest
        return app(scope, receive, send)


class _Measured:
    """Counts what the framework answers, by the route's pattern, and adds the headers that every answer has."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, status = time.perf_counter(), 500

        async def send_measured(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message.setdefault("headers", [])
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append(_NO_STORE)
                headers.extend(_HEADERS)
            await send(message)

        try:
            await self._app(scope, receive, send_measured)
        finally:
            route = scope.get("route")
            self._metrics.request(getattr(route, "path", "unknown"), status, time.perf_counter() - began)
