"""The OpenAPI document: what FastAPI knows, and the two routes that do without it."""

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from tinyagi.api.base import LARGEST, Error
from tinyagi.api.messages import DuplicateError, MessageSent, SendMessage
from tinyagi.server.errors import COMMON, MEANINGS

DESCRIPTION: Final = (
    'Teams of AI agents, coordinated through one durable queue. Errors are `{"error": "<sentence>"}`. '
    "With a token set, every call needs `Authorization: Bearer <token>`. Writes are `application/json`."
)
_EVENT_ID: Final = {"type": "integer", "minimum": 0, "maximum": LARGEST}
_REFERENCES: Final = "#/components/schemas/{model}"


def document(app: FastAPI) -> dict[str, Any]:
    """Return the document, made once per app."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes)
        schemas = made.setdefault("components", {}).setdefault("schemas", {})
        for model in (SendMessage, MessageSent, DuplicateError, Error):
            _add_schema(schemas, model)
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        for operations in made["paths"].values():
            _corrected(operations)
        made["paths"]["/api/message"] = {"post": _send_message()}
        made["paths"]["/api/events/stream"] = {"get": _stream()}
        made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        made["security"] = [{}, {"token": []}]
        app.openapi_schema = made
    return app.openapi_schema


def _add_schema(schemas: dict[str, Any], model: type[BaseModel]) -> None:
    schema = model.model_json_schema(by_alias=True, ref_template=_REFERENCES)
    schemas.update(schema.pop("$defs", {}))
    schemas[model.__name__] = schema


def _send_message() -> dict[str, Any]:
    return {
        "tags": ["messages"],
        "summary": "Send a message to an agent or a team",
        "description": "Answers once it is durable. A repeated messageId is refused with 409 and changes nothing.",
        "operationId": "send_message",
        "requestBody": {"required": True, "content": _json(SendMessage)},
        "responses": {
            "200": {"description": "It is stored.", "content": _json(MessageSent)},
            "409": {"description": MEANINGS[409], "content": _json(DuplicateError)},
            **_errors(*COMMON, 413, 415),
        },
    }


def _stream() -> dict[str, Any]:
    texts = {
        "types": "Names of events, with commas between them.",
        "agent": "Events of this agent only.",
        "conversation": "Events of this conversation only.",
        "names": "`canonical` leaves out the aliases; `both` is the default.",
    }
    return {
        "tags": ["events"],
        "summary": "Live events as server-sent events",
        "description": "Goes on from `Last-Event-ID` or `after` and stays open. See docs/reference/stream.md.",
        "operationId": "stream_events",
        "parameters": [
            {"name": "after", "in": "query", "schema": _EVENT_ID},
            {"name": "Last-Event-ID", "in": "header", "schema": _EVENT_ID},
            *({"name": name, "in": "query", "schema": {"type": "string"}, "description": text}
              for name, text in texts.items()),
        ],
        "responses": {
            "200": {"description": "A stream.", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
            **_errors(*COMMON),
        },
    }  # fmt: skip


def _json(model: type[BaseModel]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REFERENCES.format(model=model.__name__)}}}


def _errors(*statuses: int) -> dict[str, Any]:
    return {str(status): {"description": MEANINGS[status], "content": _json(Error)} for status in statuses}


def _corrected(operations: dict[str, Any]) -> None:
    """Put right what FastAPI assumes: a bad request is 400 here, and a docstring is a summary."""
    for method, operation in operations.items():
        operation["responses"].pop("422", None)
        if method != "get":
            operation["responses"].update(_errors(413, 415))
        summary, _, rest = operation.pop("description").partition("\n")
        operation["summary"] = summary.rstrip(".")
        if rest.strip():
            operation["description"] = rest.strip()
