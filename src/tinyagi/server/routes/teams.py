"""Teams over HTTP: settings, chat rooms and chat files."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from fastapi import APIRouter, Request

from tinyagi.api.base import Ok
from tinyagi.api.teams import ChatFile, LinePosted, PostLine, RoomLine, TeamFields, TeamSaved
from tinyagi.domain.errors import NotFound
from tinyagi.domain.ids import TeamId, is_valid_id
from tinyagi.engine.agent_admin import AgentAdmin
from tinyagi.server.agent_scope import caller_of
from tinyagi.server.dependencies import Before, Cursor, NamePath, Services, ServicesDep, limit
from tinyagi.server.errors import responses
from tinyagi.server.routes.audit import audited_router, set_audit_detail
from tinyagi.settings.patches import section_of, team_patch
from tinyagi.settings.secrets import masked

router = audited_router()

rooms_router = APIRouter(tags=["rooms"])


@router.get("/api/teams", tags=["teams"], response_model_exclude_unset=True)
async def list_teams(services: ServicesDep) -> dict[str, TeamFields]:
    """List every team by id with its effective name."""
    teams = section_of(services.settings.raw, "teams")
    return {team: _team_fields(team, raw) for team, raw in teams.items()}


@router.put("/api/teams/{team}", tags=["teams"], response_model_exclude_unset=True)
async def save_team(services: ServicesDep, request: Request, team: NamePath, fields: TeamFields) -> TeamSaved:
    """Add a team, or change some of its fields."""
    patch = fields.patch()
    await services.settings.edit(lambda stored: team_patch(stored, team, patch))
    set_audit_detail(request, ", ".join(sorted(patch)))
    stored = section_of(services.settings.raw, "teams")[team]
    return TeamSaved(ok=True, team=_team_fields(team, stored))


@router.delete("/api/teams/{team}", tags=["teams"], responses=responses(404, 409))
async def delete_team(services: ServicesDep, team: NamePath) -> Ok:
    """Delete a team; its agents stay."""
    await AgentAdmin(services.store, services.settings, services.home).delete_team(team)
    return Ok()


def _team_fields(team: str, stored: Mapping[str, object]) -> TeamFields:
    return TeamFields.model_validate({**masked(stored), "name": stored.get("name") or team})


@rooms_router.get("/api/chatroom/{team}", response_model=list[RoomLine], responses=responses(404))
async def room_lines(
    services: ServicesDep, team: NamePath, since: Cursor = 0, before: Before = None, limit: int = limit(100)
) -> list[RoomLine]:
    """List the posts in a team's chat room, newest first; `since` and `before` are ids of posts."""
    room = _known_team(services, team)
    lines = await services.history.of_room(room, since=since, before=before, limit=limit)
    return [RoomLine(**line._asdict()) for line in lines]


@rooms_router.post("/api/chatroom/{team}", response_model=LinePosted, responses=responses(404))
async def post_line(services: ServicesDep, request: Request, team: NamePath, line: PostLine) -> LinePosted:
    """Post to a team's chat room; every member gets it."""
    sender = caller_of(request.scope) or line.sender
    posted = await services.engine.inbox.post(_known_team(services, team), line.message, sender)
    return LinePosted(id=posted.id)


@rooms_router.get("/api/chats", response_model=list[ChatFile])
async def list_chat_files(services: ServicesDep, limit: int = limit(1_000)) -> list[ChatFile]:
    """List the files of team conversations in the home's `chats` folder, newest first."""
    return await asyncio.to_thread(chat_files, services.home.chats, limit)


def _known_team(services: Services, team: str) -> TeamId:
    if team not in services.rules.roster.teams:
        raise NotFound(f"There is no team {team!r}. /api/teams lists them.")
    return TeamId(team)


def chat_files(folder: Path, limit: int) -> list[ChatFile]:
    """List the chat files, newest first. Blocks."""
    found = [file for team in _entries(folder) if team.is_dir(follow_symlinks=False) for file in _files_of(team)]
    return sorted(found, key=lambda file: (-file.time, file.team_id, file.file))[:limit]


def _files_of(team: os.DirEntry[str]) -> Iterator[ChatFile]:
    if not is_valid_id(team.name):
        return
    for entry in _entries(Path(team.path)):
        # TinyAGI writes printable names only, and others may not be valid text.
        if not entry.name.endswith(".md") or not entry.name.isprintable():
            continue
        # The file may have been deleted since the scan.
        with suppress(FileNotFoundError):
            if entry.is_file(follow_symlinks=False):
                written = entry.stat(follow_symlinks=False).st_mtime_ns
                yield ChatFile(team_id=team.name, file=entry.name, time=written // 1_000_000)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    # A missing or unreadable folder lists nothing.
    with suppress(OSError), os.scandir(folder) as entries:
        return list(entries)
    return []
