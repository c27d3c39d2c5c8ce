"""Responses to people: channels fetch them here and report whether they were delivered."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request
from pydantic import JsonValue
from pydantic_core import PydanticSerializationError, to_json

from tinyagi.api.base import ID, Ok
from tinyagi.api.messages import (
    Delivered,
    DeliveryFailed,
    DeliveryNoted,
    PendingResponse,
    ResponseRow,
    ResponseSent,
    SendResponse,
)
from tinyagi.domain.errors import NotFound
from tinyagi.domain.ids import AgentId
from tinyagi.domain.responses import NewResponse, Response
from tinyagi.server.agent_scope import own_name, restricted_caller_of
from tinyagi.server.dependencies import RowId, ServicesDep, limit
from tinyagi.server.errors import responses

router = APIRouter(tags=["responses"])


@router.get("/api/responses", response_model=list[ResponseRow])
async def recent_responses(services: ServicesDep, request: Request, limit: int = limit(20)) -> list[ResponseRow]:
    """List answers and notices, newest first; an agent gets its own."""
    agent = restricted_caller_of(services.settings.current, request)
    return [_row(response) for response in await services.store.responses.recent(limit=limit, agent=agent)]


@router.get("/api/responses/pending", response_model=list[PendingResponse])
async def pending_responses(
    services: ServicesDep,
    channel: Annotated[str, Query(pattern=ID, description="The channel that delivers them.")],
    limit: int = limit(100),
) -> list[PendingResponse]:
    """List the responses that a channel should deliver now, oldest first; a failed one holds the rest of its chat."""
    return [_pending(response) for response in await services.store.responses.pending(channel, limit=limit)]


@router.post("/api/responses", response_model=ResponseSent)
async def send_response(services: ServicesDep, request: Request, new: SendResponse) -> ResponseSent:
    """Send a person a response that does not answer a message."""
    agent = own_name(request, new.agent)
    sent = await services.engine.outbox.send(
        NewResponse(
            channel=new.channel,
            sender=new.sender,
            message=new.message,
            sender_id=new.sender_id,
            agent=None if agent is None else AgentId(agent),
            files=new.files,
        )
    )
    return ResponseSent(message_id=sent.message_id)


@router.post("/api/responses/ack", response_model=Ok)
async def ack_responses(services: ServicesDep, delivered: Delivered) -> Ok:
    """Acknowledge several responses as delivered; those that were given up meanwhile are skipped."""

    async def ack(response: int) -> None:
        with suppress(NotFound):
            await services.store.responses.ack(response)

    await asyncio.gather(*map(ack, delivered.ids))
    return Ok()


@router.post("/api/responses/{response}/ack", response_model=Ok, responses=responses(404))
async def ack_response(services: ServicesDep, response: RowId) -> Ok:
    """Acknowledge a response as delivered; a second call changes nothing."""
    await services.store.responses.ack(response)
    return Ok()


@router.post("/api/responses/{response}/fail", response_model=DeliveryNoted, responses=responses(404))
async def fail_response(services: ServicesDep, response: RowId, failed: DeliveryFailed) -> DeliveryNoted:
    """Report a failed delivery: it is retried later, and given up after the last attempt."""
    retry_at = await services.store.responses.fail(
        response,
        failed.reason,
        policy=services.rules.policy,
        is_final=failed.is_final,
        wait=timedelta(seconds=failed.retry_after_seconds or 0),
    )
    return DeliveryNoted(retried=retry_at is not None, retry_at=retry_at)


def _row(response: Response) -> ResponseRow:
    return ResponseRow(
        id=response.id,
        channel=response.channel,
        sender=response.sender,
        sender_id=response.sender_id,
        message=response.message,
        original_message=response.original_message,
        timestamp=response.created_at,
        message_id=response.message_id,
        conversation_id=response.conversation_id,
        agent=response.agent,
        files=files_of(response.files),
        status=response.status,
    )


def _pending(response: Response) -> PendingResponse:
    metadata, attempts = metadata_of(response.metadata), response.attempts
    return PendingResponse(**dict(_row(response)), metadata=metadata, attempts=attempts)


def files_of(text: str | None) -> tuple[str, ...]:
    """Return the strings of a JSON array; drop other items."""
    found = _decoded(text)
    return tuple(path for path in found if isinstance(path, str)) if isinstance(found, list) else ()


def metadata_of(text: str | None) -> dict[str, JsonValue]:
    """Return a JSON object, or an empty one for any other text."""
    found = _decoded(text)
    return found if isinstance(found, dict) else {}


def _decoded(text: str | None) -> JsonValue:
    if not text:
        return None
    try:
        value: JsonValue = msgspec.json.decode(text)
        # Deep nesting can be decoded but not encoded.
        to_json(value)
    except (ValueError, RecursionError, PydanticSerializationError):
        return None
    return value
