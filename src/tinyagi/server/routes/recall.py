"""An agent's long memory: a search in all that it was asked and has answered."""

from typing import Annotated, Final

from fastapi import APIRouter, Query

from tinyagi.api.base import ID
from tinyagi.api.recall import Recalled, RecallHit
from tinyagi.domain.ids import AgentId
from tinyagi.server.errors import responses
from tinyagi.server.parameters import limit
from tinyagi.server.services import Services, Use
from tinyagi.store.clock import wall_clock
from tinyagi.store.recall import Hit

router = APIRouter(tags=["history"])

LONGEST: Final = 2_000

Agent = Annotated[str, Query(pattern=ID, description="Whose past; nobody else's is looked at.")]
Question = Annotated[str, Query(alias="q", min_length=1, max_length=LONGEST, description="Words to look for.")]


@router.get("/api/recall", response_model=Recalled, responses=responses(404))
async def recall(services: Use, agent: Agent, question: Question, limit: int = limit(10)) -> Recalled:
    """Find what an agent was asked or has answered by the words in it, best first, as far as it is archived."""
    found = await services.recall.search(AgentId(agent), question, limit=limit)
    return Recalled(hits=tuple(map(_hit, found.hits)), through_at=await _through_at(services, found.through_id))


async def _through_at(services: Services, through_id: int) -> int:
    """Until when everything was looked at: the first event that is not archived, or now when there is none."""
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
