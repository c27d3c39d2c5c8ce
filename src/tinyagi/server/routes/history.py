"""What agents were asked and have answered, page by page; older lines come from the lake."""

from typing import Annotated

from fastapi import APIRouter, Query

from tinyagi.api.base import LARGEST
from tinyagi.api.history import HistoryLine
from tinyagi.domain.ids import AgentId
from tinyagi.domain.responses import HistoryEntry
from tinyagi.server.parameters import Name, limit
from tinyagi.server.services import Use

router = APIRouter(tags=["history"])

SinceId = Annotated[int, Query(ge=0, le=LARGEST, description="Lines beyond this id.")]
BeforeId = Annotated[int | None, Query(ge=1, le=LARGEST, description="Lines below this id.")]


@router.get("/api/agents/{agent}/messages", response_model=list[HistoryLine])
async def history_of_agent(
    services: Use, agent: Name, since_id: SinceId = 0, before_id: BeforeId = None, limit: int = limit(100)
) -> list[HistoryLine]:
    """List what an agent was asked and has answered, newest first. It outlives the agent."""
    return _lines(await services.history.of_agent(AgentId(agent), since=since_id, before=before_id, limit=limit))


@router.get("/api/agent-messages", response_model=list[HistoryLine])
async def history_of_all(
    services: Use, since_id: SinceId = 0, before_id: BeforeId = None, limit: int = limit(100)
) -> list[HistoryLine]:
    """List what all agents were asked and have answered, newest first."""
    return _lines(await services.history.of_agent(since=since_id, before=before_id, limit=limit))


def _lines(entries: tuple[HistoryEntry, ...]) -> list[HistoryLine]:
    return [HistoryLine(**entry._asdict()) for entry in entries]
