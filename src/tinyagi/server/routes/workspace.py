"""What stands in an agent's workspace: its skills, its owner's words, its memory, its heartbeat; and its sessions."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from fastapi import Request

from tinyagi.agents.errors import WorkspaceError
from tinyagi.agents.memory import memories, memory_index
from tinyagi.agents.pages import LeadsOutside, inside, read_page, write_page
from tinyagi.agents.skills import list_skills
from tinyagi.agents.workspace import Workspace, is_complete, prepare
from tinyagi.api.agents import (
    Heartbeat,
    HeartbeatSaved,
    Memory,
    MemoryFile,
    NewHeartbeat,
    NewSystemPrompt,
    Skill,
    SystemPrompt,
    SystemPromptSaved,
)
from tinyagi.api.base import Ok
from tinyagi.domain.ids import AgentId
from tinyagi.domain.teams import Agent
from tinyagi.server.auditing import audited_router, tell
from tinyagi.server.errors import Refused, responses
from tinyagi.server.parameters import Name
from tinyagi.server.services import Services, Use
from tinyagi.settings.derived import heartbeat_of
from tinyagi.settings.staff import no_agent, with_agent

router = audited_router()

T = TypeVar("T")


@router.get("/api/agents/{agent}/skills", tags=["agents"], responses=responses(404, 409))
async def list_agent_skills(services: Use, agent: Name) -> tuple[Skill, ...]:
    """The skills in an agent's workspace."""
    place = _place(services, agent)
    found = await _in_thread(lambda: list_skills(inside(place.workspace.path, place.workspace.skills)))
    return tuple(Skill(id=skill.id, name=skill.name, description=skill.description) for skill in found)


@router.get("/api/agents/{agent}/system-prompt", tags=["agents"], responses=responses(404, 409))
async def read_system_prompt(services: Use, agent: Name) -> SystemPrompt:
    """The owner's part of an agent's prompt: AGENTS.md of its workspace."""
    place = _place(services, agent)
    content = await _in_thread(lambda: read_page(place.workspace.path, place.workspace.owner_text))
    return SystemPrompt(content=content, path=str(place.workspace.owner_text))


@router.put("/api/agents/{agent}/system-prompt", tags=["agents"], responses=responses(404, 409))
async def write_system_prompt(services: Use, agent: Name, new: NewSystemPrompt) -> SystemPromptSaved:
    """Replace AGENTS.md; it counts from the agent's next run."""
    place = _place(services, agent)
    await _in_thread(lambda: place.write(place.workspace.owner_text, new.content))
    return SystemPromptSaved(**(await read_system_prompt(services, agent)).model_dump())


@router.get("/api/agents/{agent}/memory", tags=["agents"], responses=responses(404, 409))
async def read_memory(services: Use, agent: Name) -> Memory:
    """What an agent remembers: the index as it sees it, and the files."""
    folder = _place(services, agent).workspace.memory
    index, found = await _in_thread(lambda: _memory(folder))
    return Memory(index=index, files=found, memory_dir=str(folder))


@router.get("/api/agents/{agent}/heartbeat", tags=["agents"], responses=responses(404, 409))
async def read_heartbeat(services: Use, agent: Name) -> Heartbeat:
    """What an agent is asked by itself, and how often."""
    place = _place(services, agent)
    content = await _in_thread(lambda: read_page(place.workspace.path, place.workspace.heartbeat))
    configured = services.settings.current.agents[agent].heartbeat
    return Heartbeat(
        content=content,
        path=str(place.workspace.heartbeat),
        enabled=configured.enabled,
        interval=_plain(configured.interval),
        every=_seconds(heartbeat_of(services.settings.current, AgentId(agent))),
    )


@router.put("/api/agents/{agent}/heartbeat", tags=["agents"], responses=responses(404, 409))
async def write_heartbeat(services: Use, request: Request, agent: Name, new: NewHeartbeat) -> HeartbeatSaved:
    """Change what an agent is asked by itself, whether, and how often."""
    place, said = _place(services, agent), new.model_fields_set
    if new.content is not None:
        text = new.content
        await _in_thread(lambda: place.write(place.workspace.heartbeat, text))
    timing: dict[str, object] = {}
    if new.enabled is not None:
        timing["enabled"] = new.enabled
    if "interval" in said:
        timing["interval"] = new.interval
    if timing:
        await services.settings.edit(lambda stored: with_agent(stored, agent, {"heartbeat": timing}))
    tell(request, ", ".join(sorted(said)))
    return HeartbeatSaved(**(await read_heartbeat(services, agent)).model_dump())


@router.post("/api/agents/{agent}/reset", tags=["agents"], responses=responses(404))
async def reset_agent(services: Use, request: Request, agent: Name) -> Ok:
    """Let an agent start afresh: its next run begins a new session."""
    _place(services, agent)
    await services.engine.reset(AgentId(agent), by=request.state.actor)
    return Ok()


@dataclass(frozen=True, slots=True)
class _Place:
    """An agent and where its things are."""

    agent: Agent
    workspace: Workspace

    def write(self, file: Path, text: str) -> None:
        if not is_complete(self.workspace.path):
            prepare(self.workspace.path, self.agent)
        write_page(self.workspace.path, file, text)


def _place(services: Services, agent: str) -> _Place:
    rules = services.rules
    known = rules.roster.agents.get(AgentId(agent))
    if known is None:
        raise no_agent(agent)
    return _Place(known, Workspace(rules.setup_of(known.id).workspace))


async def _in_thread(work: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(work)
    except LeadsOutside as error:
        raise Refused(403, str(error)) from error
    except WorkspaceError as error:
        raise Refused(409, str(error)) from error


def _memory(folder: Path) -> tuple[str, tuple[MemoryFile, ...]]:
    inside(folder.parent, folder)
    return memory_index(folder), tuple(MemoryFile(name=one.name, path=str(one.path)) for one in memories(folder))


def _seconds(period: timedelta | None) -> int | float | None:
    return None if period is None else _plain(period.total_seconds())


def _plain(seconds: float | None) -> int | float | None:
    """A whole number as people write it."""
    return int(seconds) if seconds is not None and seconds.is_integer() else seconds
