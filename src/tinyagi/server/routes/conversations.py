"""Conversations over HTTP: traces, histories and recall. Pruned rows come from the lake."""

from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Request

from tinyagi.api.base import ID, MAX_INTEGER
from tinyagi.api.conversations import (
    Conversation,
    HistoryLine,
    Recalled,
    RecallHit,
    Trace,
    conversation_state,
    trace_of,
)
from tinyagi.domain.errors import NotFound
from tinyagi.domain.ids import MAX_MESSAGE_ID, AgentId, ConversationId
from tinyagi.domain.responses import HistoryEntry
from tinyagi.domain.traces import ConversationSummary
from tinyagi.server.agent_scope import check_own, check_part
from tinyagi.server.dependencies import NamePath, Services, ServicesDep, limit
from tinyagi.server.errors import responses
from tinyagi.store.archive import Hit
from tinyagi.system.clock import wall_clock

traces_router = APIRouter(tags=["traces"])

# A client may choose its messageId, which names the conversation, so it may contain a slash.
ConversationName = Annotated[str, Path(min_length=1, max_length=MAX_MESSAGE_ID)]

router = APIRouter(tags=["history"])

SinceId = Annotated[int, Query(ge=0, le=MAX_INTEGER, description="Lines after this id.")]
BeforeId = Annotated[int | None, Query(ge=1, le=MAX_INTEGER, description="Lines before this id.")]

Internal = Annotated[bool, Query(description="Include messages from teammates and chat rooms.")]

MAX_QUESTION: Final = 2_000

AgentQuery = Annotated[str, Query(pattern=ID, description="The agent whose history is searched; no other is read.")]
Question = Annotated[str, Query(alias="q", min_length=1, max_length=MAX_QUESTION, description="Words to search for.")]


@traces_router.get("/api/traces/{conversation:path}", response_model=Trace, responses=responses(404))
async def trace_conversation(services: ServicesDep, request: Request, conversation: ConversationName) -> Trace:
    """Show a conversation as a tree of spans: hand-offs and runs with time and cost."""
    messages = await services.traces.conversation(ConversationId(conversation))
    if not messages:
        raise NotFound(f"There is no conversation {conversation!r}. /api/conversations lists recent ones.")
    check_part(services.settings.current, request, {one.message.agent for one in messages})
    return trace_of(messages)


@traces_router.get("/api/conversations", response_model=list[Conversation])
async def recent_conversations(services: ServicesDep, limit: int = limit(50)) -> list[Conversation]:
    """List recent conversations, newest first."""
    return [_conversation(one) for one in await services.traces.recent(limit=limit)]


def _conversation(one: ConversationSummary) -> Conversation:
    return Conversation(
        id=one.id,
        team=one.team,
        channel=one.channel,
        sender=one.sender,
        agent=one.agent,
        message=one.message,
        status=conversation_state(one.open, one.dead),
        open=one.open,
        total=one.total,
        dead=one.dead,
        hops=one.hops,
        tokens=one.tokens,
        cost=one.cost,
        started_at=one.started_at,
        updated_at=one.updated_at,
    )


@router.get("/api/agents/{agent}/messages", response_model=list[HistoryLine])
async def history_of_agent(
    services: ServicesDep,
    agent: NamePath,
    since_id: SinceId = 0,
    before_id: BeforeId = None,
    limit: int = limit(100),
    internal: Internal = False,
) -> list[HistoryLine]:
    """List an agent's messages and answers, newest first. The history remains after the agent is deleted."""
    page = await services.history.of_agent(
        AgentId(agent), since=since_id, before=before_id, limit=limit, internal=internal
    )
    return _lines(page)


@router.get("/api/agent-messages", response_model=list[HistoryLine])
async def history_of_all(
    services: ServicesDep,
    since_id: SinceId = 0,
    before_id: BeforeId = None,
    limit: int = limit(100),
    internal: Internal = False,
) -> list[HistoryLine]:
    """List the messages and answers of all agents, newest first."""
    return _lines(await services.history.of_agent(since=since_id, before=before_id, limit=limit, internal=internal))


def _lines(entries: tuple[HistoryEntry, ...]) -> list[HistoryLine]:
    return [HistoryLine(**entry._asdict()) for entry in entries]


@router.get("/api/recall", response_model=Recalled, responses=responses(404))
async def recall(
    services: ServicesDep, request: Request, agent: AgentQuery, question: Question, limit: int = limit(10)
) -> Recalled:
    """Search the archived messages and answers of an agent by words, best match first."""
    check_own(services.settings.current, request, agent)
    found = await services.recall.search(AgentId(agent), question, limit=limit)
    return Recalled(hits=tuple(map(_hit, found.hits)), through_at=await _through_at(services, found.through_id))


async def _through_at(services: Services, through_id: int) -> int:
    """Return the instant up to which the search is complete: that of the first unarchived event, or now."""
    missing = await services.store.events.read_after(through_id, limit=1)
    return missing[0].created_at if missing else wall_clock()


def _hit(hit: Hit) -> RecallHit:
    return RecallHit(
        history_id=hit.history_id,
        role="assistant" if hit.role == "assistant" else "user",
        message_id=hit.message_id,
        conversation_id=hit.conversation_id,
        at=hit.created_at,
        text=hit.text,
        score=hit.score,
    )
