"""Answers on their way to people: channels fetch them here and say what became of them."""

from typing import Annotated

from fastapi import APIRouter, Query

from tinyagi.api.base import ID, Ok
from tinyagi.api.responses import (
    DeliveryFailed,
    DeliveryNoted,
    PendingResponse,
    ResponseRow,
    ResponseSent,
    SendResponse,
)
from tinyagi.domain.ids import AgentId
from tinyagi.domain.responses import NewResponse, Response
from tinyagi.server.errors import responses
from tinyagi.server.parameters import RowId, limit
from tinyagi.server.services import Use
from tinyagi.server.stored import files_of, metadata_of

router = APIRouter(tags=["responses"])


@router.get("/api/responses", response_model=list[ResponseRow])
async def recent_responses(services: Use, limit: int = limit(20)) -> list[ResponseRow]:
    """List answers and notices, newest first."""
    return [_row(response) for response in await services.store.responses.recent(limit=limit)]


@router.get("/api/responses/pending", response_model=list[PendingResponse])
async def pending_responses(
    services: Use,
    channel: Annotated[str, Query(pattern=ID, description="The channel that delivers them.")],
    limit: int = limit(100),
) -> list[PendingResponse]:
    """List what a channel has to deliver now, oldest first; after a failed delivery the rest of its chat waits, too."""
    return [_pending(response) for response in await services.store.responses.pending(channel, limit=limit)]


@router.post("/api/responses", response_model=ResponseSent)
async def send_response(services: Use, new: SendResponse) -> ResponseSent:
    """Send a person something that answers no message."""
    sent = await services.engine.outbox.send(
        NewResponse(
            channel=new.channel,
            sender=new.sender,
            message=new.message,
            sender_id=new.sender_id,
            agent=None if new.agent is None else AgentId(new.agent),
            files=new.files,
        )
    )
    return ResponseSent(message_id=sent.message_id)


@router.post("/api/responses/{response}/ack", response_model=Ok, responses=responses(404))
async def ack_response(services: Use, response: RowId) -> Ok:
    """Say that a response was delivered; to say so twice is no error."""
    await services.store.responses.ack(response)
    return Ok()


@router.post("/api/responses/{response}/fail", response_model=DeliveryNoted, responses=responses(404))
async def fail_response(services: Use, response: RowId, failed: DeliveryFailed) -> DeliveryNoted:
    """Say that a response could not be delivered: it is tried again later, or given up after enough attempts."""
    retried = await services.store.responses.fail(response, failed.reason, policy=services.rules.policy)
    return DeliveryNoted(retried=retried)


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
