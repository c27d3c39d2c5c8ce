"""Conversations as they went; older ones come from the lake."""

from typing import Annotated

from fastapi import APIRouter, Path

from tinyagi.api.traces import Conversation, Trace
from tinyagi.domain.errors import NotFound
from tinyagi.domain.ids import MAX_MESSAGE_ID, ConversationId
from tinyagi.domain.traces import ConversationSummary
from tinyagi.server.errors import responses
from tinyagi.server.parameters import limit
from tinyagi.server.services import Use
from tinyagi.server.tracing import standing, trace_of

router = APIRouter(tags=["traces"])

# A client chooses the id of its message, which names the conversation: it may hold anything, a slash too.
ConversationName = Annotated[str, Path(min_length=1, max_length=MAX_MESSAGE_ID)]


@router.get("/api/traces/{conversation:path}", response_model=Trace, responses=responses(404))
async def trace_conversation(services: Use, conversation: ConversationName) -> Trace:
    """Show a conversation as a tree of spans: who handed what to whom, every run, its time and its cost."""
    messages = await services.traces.conversation(ConversationId(conversation))
    if not messages:
        raise NotFound(f"There is no conversation {conversation!r}. /api/conversations lists the last ones.")
    return trace_of(messages)


@router.get("/api/conversations", response_model=list[Conversation])
async def recent_conversations(services: Use, limit: int = limit(50)) -> list[Conversation]:
    """List the conversations that began last, newest first."""
    return [_listed(one) for one in await services.traces.recent(limit=limit)]


def _listed(one: ConversationSummary) -> Conversation:
    return Conversation(
        id=one.id,
        team=one.team,
        channel=one.channel,
        sender=one.sender,
        agent=one.agent,
        message=one.message,
        status=standing(one.open, one.dead),
        open=one.open,
        total=one.total,
        dead=one.dead,
        hops=one.hops,
        tokens=one.tokens,
        cost=one.cost,
        started_at=one.started_at,
        updated_at=one.updated_at,
    )
