"""The API's documentation: the OpenAPI document, with the two routes that bypass FastAPI, and the Swagger page."""

from functools import cache
from importlib.resources import files
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Response
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from starlette.responses import RedirectResponse

from tinyagi.api.base import MAX_INTEGER, Error
from tinyagi.api.messages import DuplicateError, MessageSent, NotPairedError, SendMessage
from tinyagi.server.errors import COMMON, MEANINGS, HttpRefusal

DESCRIPTION: Final = (
    'Teams of AI agents, coordinated through one durable queue. Errors are `{"error": "<sentence>"}`. '
    "With a token set, every call needs `Authorization: Bearer <token>`. Writes are `application/json`."
)
_EVENT_ID: Final = {"type": "integer", "minimum": 0, "maximum": MAX_INTEGER}
_REFERENCES: Final = "#/components/schemas/{model}"

router = APIRouter(include_in_schema=False)

_MEDIA_TYPES: Final = {
    "swagger-ui.css": "text/css; charset=utf-8",
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
}
_START: Final = """window.ui = SwaggerUIBundle({url: "/openapi.json", dom_id: "#api", deepLinking: true})"""
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>TinyAGI API</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="api"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
POLICY: Final = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"


def document(app: FastAPI) -> dict[str, Any]:
    """Return the document, built once per app."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes)
        schemas = schema.setdefault("components", {}).setdefault("schemas", {})
        for model in (SendMessage, MessageSent, DuplicateError, NotPairedError, Error):
            _add_schema(schemas, model)
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        for operations in schema["paths"].values():
            _correct(operations)
        schema["paths"]["/api/message"] = {"post": _send_message()}
        schema["paths"]["/api/events/stream"] = {"get": _stream()}
        schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{}, {"token": []}]
        app.openapi_schema = schema
    return app.openapi_schema


def _add_schema(schemas: dict[str, Any], model: type[BaseModel]) -> None:
    schema = model.model_json_schema(by_alias=True, ref_template=_REFERENCES)
    schemas.update(schema.pop("$defs", {}))
    schemas[model.__name__] = schema


def _send_message() -> dict[str, Any]:
    return {
        "tags": ["messages"],
        "summary": "Send a message to an agent or a team",
        "description": "Answers once the message is durable. A repeated messageId gets 409 and changes nothing.",
        "operationId": "send_message",
        "requestBody": {"required": True, "content": _json(SendMessage)},
        "responses": {
            "200": {"description": "The message is stored.", "content": _json(MessageSent)},
            "409": {"description": MEANINGS[409], "content": _json(DuplicateError)},
            **_errors(*COMMON, 413, 415),
            "403": {"description": MEANINGS[403], "content": _json(NotPairedError)},
        },
    }


def _stream() -> dict[str, Any]:
    texts = {
        "types": "Event types, separated by commas.",
        "agent": "Only events of this agent.",
        "conversation": "Only events of this conversation.",
        "names": "`canonical` omits the aliases; `both` is the default.",
    }
    return {
        "tags": ["events"],
        "summary": "Live events as server-sent events",
        "description": "Continues after `Last-Event-ID` or `after` and stays open. See docs/reference/stream.md.",
        "operationId": "stream_events",
        "parameters": [
            {"name": "after", "in": "query", "schema": _EVENT_ID},
            {"name": "Last-Event-ID", "in": "header", "schema": _EVENT_ID},
            *({"name": name, "in": "query", "schema": {"type": "string"}, "description": text}
              for name, text in texts.items()),
        ],
        "responses": {
            "200": {"description": "The stream.", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
            **_errors(*COMMON),
        },
    }  # fmt: skip


def _json(model: type[BaseModel]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REFERENCES.format(model=model.__name__)}}}


def _errors(*statuses: int) -> dict[str, Any]:
    return {str(status): {"description": MEANINGS[status], "content": _json(Error)} for status in statuses}


def _correct(operations: dict[str, Any]) -> None:
    """Correct FastAPI's defaults: a bad request is 400 here, and a docstring is a summary."""
    for method, operation in operations.items():
        operation["responses"].pop("422", None)
        if method != "get":
            operation["responses"].update(_errors(413, 415))
        summary, _, rest = operation.pop("description").partition("\n")
        operation["summary"] = summary.rstrip(".")
        if rest.strip():
            operation["description"] = rest.strip()


@router.get("/")
async def front() -> Response:
    return RedirectResponse("/docs", 307)


@router.get("/docs")
async def docs() -> Response:
    return Response(_PAGE, media_type="text/html; charset=utf-8", headers={"content-security-policy": POLICY})


@router.get("/docs/{name}")
async def asset(name: str) -> Response:
    if name == "start.js":
        return Response(_START, media_type="text/javascript; charset=utf-8")
    if name not in _MEDIA_TYPES:
        raise HttpRefusal(404, "This path does not exist. See /docs.")
    return Response(_asset(name), media_type=_MEDIA_TYPES[name], headers={"cache-control": "max-age=86400"})


@cache
def _asset(name: str) -> bytes:
    return (files("fastapi_offline") / "static" / name).read_bytes()
