"""The ASGI application: the guard in front, two plain ASGI endpoints for the busiest paths, FastAPI for the rest."""

import time
from collections.abc import Awaitable
from typing import Final

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tinyagi.server import access, errors, event_stream, openapi
from tinyagi.server.access import AllowedNames, RateLimit, Token
from tinyagi.server.dependencies import Services
from tinyagi.server.event_stream import EventStream
from tinyagi.server.guard import Guard
from tinyagi.server.messages import PATH, MessageEndpoint
from tinyagi.server.metrics import Metrics
from tinyagi.server.openapi import document
from tinyagi.server.routes import (
    agents,
    analytics,
    audit,
    board,
    channels,
    conversations,
    daemon,
    files,
    queue,
    responses,
    schedules,
    settings,
    teams,
)
from tinyagi.server.routes import messages as message_routes
from tinyagi.settings.model import ServerSettings

STREAM: Final = "/api/events/stream"
_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)
ROUTERS: Final = (
    *(daemon.router, daemon.logs_router, daemon.plugins_router, daemon.services_router, audit.router, analytics.router),
    *(message_routes.router, queue.router, responses.router, teams.rooms_router, event_stream.router),
    *(conversations.router, conversations.traces_router),
    *(agents.router, teams.router, settings.router, channels.router, channels.relay_router, files.router),
    *(schedules.router, board.router, openapi.router),
)
_NO_STORE: Final = (b"cache-control", b"no-store")


def create_app(services: Services, configured: ServerSettings, token: str | None) -> ASGIApp:
    """Build the whole application behind one guard."""
    checked_token = None if token is None else Token(token, services.home.logout_file)
    messages = MessageEndpoint(
        services.engine.inbox,
        services.store.pairing,
        RateLimit(configured.messages_per_minute),
        services.metrics.request,
    )
    rest = fastapi_app(services, checked_token)
    rest.state.messages = messages
    dispatcher = _Dispatcher(
        fast={("POST", PATH): messages, ("GET", STREAM): EventStream(services.hub, services.store)},
        rest=_Measured(rest, services.metrics),
    )
    return Guard(
        dispatcher,
        names=AllowedNames(configured, services.port),
        token=checked_token,
        max_body=configured.max_body_bytes,
        settings=services.settings,
    )


def fastapi_app(services: Services, token: Token | None) -> FastAPI:
    """Build the FastAPI routes and the OpenAPI document, which covers every route."""
    app = FastAPI(
        title="TinyAGI",
        version=services.version,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=errors.responses(*errors.COMMON),
    )
    app.state.services = services
    app.openapi = lambda: document(app)  # type: ignore[method-assign]
    errors.install(app)
    for router in ROUTERS:
        app.include_router(router)
    app.include_router(access.routes(token))
    return app


class _Dispatcher:
    """Sends the two busiest paths straight to their endpoints, past FastAPI."""

    def __init__(self, fast: dict[tuple[str, str], ASGIApp], rest: ASGIApp) -> None:
        self._fast = fast
        self._rest = rest

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        app = self._fast.get((scope["method"], scope["path"]), self._rest) if scope["type"] == "http" else self._rest
        return app(scope, receive, send)


class _Measured:
    """Counts FastAPI's answers by route pattern, and adds the headers that every answer has."""

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
