"""Errors as HTTP answers: `{"error": "<sentence>"}` with a status, and no internals."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Send

from tinyagi.agents.workspace_files import WorkspaceError
from tinyagi.api.base import Error
from tinyagi.domain.errors import (
    ClaimLost,
    Conflict,
    DuplicateMessage,
    InvalidInput,
    NotFound,
    StoreError,
    TinyAGIError,
)
from tinyagi.domain.texts import clean
from tinyagi.settings.errors import HomeUnusable, SettingsBusy, SettingsError, SettingsFailed

log = logging.getLogger(__name__)

# The first match counts, so subclasses come before their base classes.
_STATUSES: Final[Sequence[tuple[type[TinyAGIError], int]]] = (
    (NotFound, 404),
    (Conflict, 409),
    (DuplicateMessage, 409),
    (ClaimLost, 409),
    (StoreError, 503),
    (SettingsFailed, 503),
    (SettingsBusy, 503),
    (HomeUnusable, 503),
    (WorkspaceError, 409),
    (InvalidInput, 400),
    (SettingsError, 400),
)
_FRAMEWORK_ERRORS: Final = {
    404: "This path does not exist. See /docs.",
    405: "This path does not support that method. See /docs.",
}

MEANINGS: Final = {
    400: "A field is missing, empty or malformed, or the body is not JSON.",
    401: "The token is missing or wrong.",
    403: "The Host, the Origin or the user of this machine is not allowed, or the call is outside an agent's scope.",
    404: "Not found.",
    409: "It exists already, or is still in use.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    429: "Too many requests; see Retry-After.",
    503: "The store is locked, full or damaged. Nothing was changed.",
}
COMMON: Final = (400, 401, 403, 429, 503)

Headers = Sequence[tuple[bytes, bytes]]
NO_HEADERS: Final[Headers] = ()
_JSON_HEADERS: Final = (
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)


class HttpRefusal(TinyAGIError):
    """A refusal by the server itself, with its status and headers, and further fields of its body."""

    def __init__(
        self,
        status: int,
        reason: str,
        headers: Mapping[str, str] | None = None,
        fields: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = dict(headers or {})
        self.fields = dict(fields or {})


def internal_error() -> HttpRefusal:
    """The answer to an unexpected exception."""
    return HttpRefusal(500, "Internal error in TinyAGI. See the log: tinyagi logs daemon.")


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI entries for a route's errors."""
    return {status: {"model": Error, "description": MEANINGS[status]} for status in statuses}


def status_of(error: TinyAGIError) -> int:
    if isinstance(error, HttpRefusal):
        return error.status
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def error_body(error: TinyAGIError) -> bytes:
    body: dict[str, object] = {"error": clean(str(error))}
    if isinstance(error, DuplicateMessage):
        body["messageId"] = error.message_id
    if isinstance(error, HttpRefusal):
        body |= error.fields
    return msgspec.json.encode(body)


def parts_of(error: TinyAGIError) -> tuple[int, bytes, Headers]:
    """Return the status, body and extra headers of the answer to an error."""
    headers = error.headers if isinstance(error, HttpRefusal) else {}
    return status_of(error), error_body(error), [(name.encode(), value.encode()) for name, value in headers.items()]


async def send_json(send: Send, status: int, body: bytes, headers: Headers) -> None:
    """Send a whole JSON answer over plain ASGI."""
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*_JSON_HEADERS, length, *headers]})
    await send({"type": "http.response.body", "body": body})


def error_response(error: TinyAGIError) -> Response:
    headers = error.headers if isinstance(error, HttpRefusal) else {}
    return Response(error_body(error), status_of(error), headers=headers, media_type="application/json")


def install(app: FastAPI) -> None:
    """Register the handlers that turn every exception into `{"error": ...}`."""

    @app.exception_handler(TinyAGIError)
    async def domain_error(request: Request, error: TinyAGIError) -> Response:
        if status_of(error) >= 500:
            log.warning("%s %s: %s", request.method, request.url.path, error)
        return error_response(error)

    @app.exception_handler(RequestValidationError)
    async def validation_error(_: Request, error: RequestValidationError) -> Response:
        # The first step of `loc` only names the body, query or path.
        return error_response(malformed([{**problem, "loc": problem["loc"][1:]} for problem in error.errors()]))

    @app.exception_handler(HTTPException)
    async def framework_error(_: Request, error: HTTPException) -> Response:
        return error_response(
            HttpRefusal(error.status_code, _FRAMEWORK_ERRORS.get(error.status_code, error.detail), error.headers)
        )

    @app.exception_handler(Exception)
    async def unexpected_error(_: Request, __: Exception) -> Response:
        # Starlette raises the exception again after this answer, and uvicorn logs its traceback.
        return error_response(internal_error())


def malformed(problems: Sequence[Mapping[str, Any]]) -> HttpRefusal:
    """Pydantic's validation errors as one refusal."""
    return HttpRefusal(400, " ".join(_sentence(problem) for problem in problems[:10]))


def _sentence(problem: Mapping[str, Any]) -> str:
    if problem["type"] == "json_invalid":
        return f"The body is not JSON: {problem['ctx']['error']}."
    if problem["type"] == "missing" and not problem["loc"]:
        return "A JSON body is missing."
    field = ".".join(str(step) for step in problem["loc"]) or "The body"
    return f"{field}: {problem['msg'].removeprefix('Value error, ')}."
