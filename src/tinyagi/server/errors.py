"""Every error as an answer: `{"error": "<sentence>"}` with its status, and nothing of our inside."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Send

from tinyagi.agents.errors import WorkspaceError
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

# The first that fits: the more particular ones stand first.
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
_WORDS: Final = {404: "There is nothing here.", 405: "This address does not take that method. See /docs."}

MEANINGS: Final = {
    400: "A field is missing, empty or malformed, or the body is no JSON.",
    401: "The token is missing or wrong.",
    403: "The Host or Origin is not allowed.",
    404: "There is no such thing.",
    409: "It is there already, or still in use.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    429: "Too many requests; see Retry-After.",
    503: "The store cannot do it now: locked, full or damaged. Nothing was changed.",
}
COMMON: Final = (400, 401, 403, 429, 503)

Headers = Sequence[tuple[bytes, bytes]]
NO_HEADERS: Final[Headers] = ()
_JSON_HEADERS: Final = (
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)


class Refused(TinyAGIError):
    """An answer that is decided before or beside the domain."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = dict(headers or {})


def fault() -> Refused:
    """What is told when it is our fault."""
    return Refused(500, "This is a fault of TinyAGI. The log says more: tinyagi logs daemon.")


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How a route documents the errors it may give."""
    return {status: {"model": Error, "description": MEANINGS[status]} for status in statuses}


def status_of(error: TinyAGIError) -> int:
    if isinstance(error, Refused):
        return error.status
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def payload_of(error: TinyAGIError) -> bytes:
    told = {"error": clean(str(error))}
    if isinstance(error, DuplicateMessage):
        told["messageId"] = error.message_id
    return msgspec.json.encode(told)


def parts_of(error: TinyAGIError) -> tuple[int, bytes, Headers]:
    """Status, body and further headers of the answer to an error."""
    headers = error.headers if isinstance(error, Refused) else {}
    return status_of(error), payload_of(error), [(name.encode(), value.encode()) for name, value in headers.items()]


async def send_json(send: Send, status: int, body: bytes, headers: Headers) -> None:
    """Answer without a framework."""
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*_JSON_HEADERS, length, *headers]})
    await send({"type": "http.response.body", "body": body})


def answer(error: TinyAGIError) -> Response:
    headers = error.headers if isinstance(error, Refused) else {}
    return Response(payload_of(error), status_of(error), headers=headers, media_type="application/json")


def install(app: FastAPI) -> None:
    """Answer every error of the app in our form."""

    @app.exception_handler(TinyAGIError)
    async def ours(request: Request, error: TinyAGIError) -> Response:
        if status_of(error) >= 500:
            log.warning("%s %s: %s", request.method, request.url.path, error)
        return answer(error)

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> Response:
        return answer(Refused(400, " ".join(_sentence(problem) for problem in error.errors()[:10])))

    @app.exception_handler(HTTPException)
    async def of_the_framework(_: Request, error: HTTPException) -> Response:
        return answer(Refused(error.status_code, _WORDS.get(error.status_code, error.detail), error.headers))

    @app.exception_handler(Exception)
    async def unexpected(_: Request, __: Exception) -> Response:
        # Starlette raises it again after this answer, and uvicorn logs it with its trace.
        return answer(fault())


def _sentence(problem: Mapping[str, Any]) -> str:
    if problem["type"] == "json_invalid":
        return f"The body is no JSON: {problem['ctx']['error']}."
    if problem["type"] == "missing" and problem["loc"] == ("body",):
        return "A JSON body is missing."
    place = ".".join(str(step) for step in problem["loc"][1:]) or "The body"
    return f"{place}: {problem['msg'].removeprefix('Value error, ')}."
