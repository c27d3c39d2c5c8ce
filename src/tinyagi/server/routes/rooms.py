"""Chat rooms of teams: what was said, something to say, and the files of their conversations."""

import asyncio

from fastapi import APIRouter

from tinyagi.api.rooms import ChatFile, LinePosted, PostLine, RoomLine
from tinyagi.domain.errors import NotFound
from tinyagi.domain.ids import TeamId
from tinyagi.server.chat_files import chat_files
from tinyagi.server.errors import responses
from tinyagi.server.parameters import Before, Cursor, Name, limit
from tinyagi.server.services import Services, Use

router = APIRouter(tags=["rooms"])


@router.get("/api/chatroom/{team}", response_model=list[RoomLine], responses=responses(404))
async def room_lines(
    services: Use, team: Name, since: Cursor = 0, before: Before = None, limit: int = limit(100)
) -> list[RoomLine]:
    """List the lines of a team's chat room, newest first; `since` and `before` are ids of lines."""
    room = _known(services, team)
    lines = await services.history.of_room(room, since=since, before=before, limit=limit)
    return [RoomLine(**line._asdict()) for line in lines]


@router.post("/api/chatroom/{team}", response_model=LinePosted, responses=responses(404))
async def post_line(services: Use, team: Name, line: PostLine) -> LinePosted:
    """Say something in a team's chat room; every member gets it."""
    posted = await services.engine.inbox.post(_known(services, team), line.message, line.sender)
    return LinePosted(id=posted.id)


@router.get("/api/chats", response_model=list[ChatFile])
async def list_chat_files(services: Use, limit: int = limit(1_000)) -> list[ChatFile]:
    """List the files of team conversations below the home's `chats`, newest first."""
    return await asyncio.to_thread(chat_files, services.home.chats, limit)


def _known(services: Services, team: str) -> TeamId:
    if team not in services.rules.roster.teams:
        raise NotFound(f"There is no team {team!r}. /api/teams lists them.")
    return TeamId(team)
