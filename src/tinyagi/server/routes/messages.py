"""Several messages in one call. A single one goes past FastAPI: see `server.messages`."""

from fastapi import APIRouter, Request

from tinyagi.api.messages import MessagesSent, SendMessages
from tinyagi.server.messages import MessageEndpoint

router = APIRouter(tags=["messages"])


@router.post("/api/messages")
async def send_messages(request: Request, new: SendMessages) -> MessagesSent:
    """Send several messages; each is stored or refused for itself, and answered once it is durable."""
    endpoint: MessageEndpoint = request.app.state.messages
    return MessagesSent(results=tuple(await endpoint.submit_all(request.scope, new.messages)))
