"""Agents over HTTP: settings, skills, system prompt, memory, heartbeat and session."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, TypeVar

from fastapi import Query, Request

from tinyagi.agents.memory import memories, memory_index
from tinyagi.agents.skills import list_skills
from tinyagi.agents.workspace import Workspace, is_complete, prepare
from tinyagi.agents.workspace_files import OutsideWorkspace, WorkspaceError, read_whole, replace_whole, resolve_inside
from tinyagi.api.agents import (
    AgentDeleted,
    AgentFields,
    AgentHeartbeat,
    AgentMemory,
    AgentSaved,
    HeartbeatSaved,
    MemoryFile,
    MessagesOfDeleted,
    NewHeartbeat,
    NewSystemPrompt,
    Skill,
    SystemPrompt,
    SystemPromptSaved,
)
from tinyagi.api.base import Ok
from tinyagi.domain.ids import AgentId
from tinyagi.domain.routing import Agent
from tinyagi.engine.agent_admin import AgentAdmin, EndMessages, MoveMessages
from tinyagi.server.dependencies import NamePath, Services, ServicesDep
from tinyagi.server.errors import HttpRefusal, responses
from tinyagi.server.routes.audit import audited_router, set_audit_detail
from tinyagi.settings.effective import heartbeat_of
from tinyagi.settings.patches import agent_patch, listed_agents, no_agent

router = audited_router()

_MOVE = "move:"
Messages = Annotated[
    MessagesOfDeleted,
    Query(description="What happens to waiting messages: `dead` makes them dead, `move:<agent>` moves them."),
]

T = TypeVar("T")


@router.get("/api/agents", tags=["agents"], response_model_exclude_unset=True)
async def list_agents(services: ServicesDep) -> dict[str, AgentFields]:
    """List every agent by id with its effective values; secrets are masked."""
    listed = listed_agents(services.settings.raw, services.home)
    return {agent: AgentFields.model_validate(fields) for agent, fields in listed.items()}


@router.put("/api/agents/{agent}", tags=["agents"], response_model_exclude_unset=True, responses=responses(409))
async def save_agent(services: ServicesDep, request: Request, agent: NamePath, fields: AgentFields) -> AgentSaved:
    """Add an agent with its workspace, or change some of its fields."""
    patch = fields.patch()
    try:
        provisioned = await _admin(services).save_agent(AgentId(agent), patch)
    except WorkspaceError as error:
        raise HttpRefusal(409, f"The agent was not saved: {error}") from error
    set_audit_detail(request, ", ".join(sorted(patch)))
    saved = AgentFields.model_validate(listed_agents(services.settings.raw, services.home)[agent])
    return AgentSaved(ok=True, agent=saved, provisioned=provisioned)


@router.delete("/api/agents/{agent}", tags=["agents"], responses=responses(404, 409))
async def delete_agent(
    services: ServicesDep, request: Request, agent: NamePath, messages: Messages = None
) -> AgentDeleted:
    """Delete an agent and remove it from its teams, where the next member leads. Its workspace stays."""
    waiting: MoveMessages | EndMessages | None = None
    if messages is not None:
        waiting = MoveMessages(AgentId(messages.removeprefix(_MOVE))) if messages.startswith(_MOVE) else EndMessages()
    deleted = await _admin(services).delete_agent(AgentId(agent), waiting, by=request.state.actor)
    set_audit_detail(request, f"{deleted.messages} messages {messages or 'waited'}")
    return AgentDeleted(messages=deleted.messages, default_agent=deleted.default_agent, leaders=dict(deleted.leaders))


def _admin(services: Services) -> AgentAdmin:
    return AgentAdmin(services.store, services.settings, services.home)


@router.get("/api/agents/{agent}/skills", tags=["agents"], responses=responses(404, 409))
async def list_agent_skills(services: ServicesDep, agent: NamePath) -> tuple[Skill, ...]:
    """List the skills in an agent's workspace."""
    workspace = _workspace(services, agent).workspace
    skills = await _in_thread(lambda: list_skills(resolve_inside(workspace.path, workspace.skills)))
    return tuple(Skill(id=skill.id, name=skill.name, description=skill.description) for skill in skills)


# Undocumented: clients of the original call these, and TinyAGI has no registry.
@router.get("/api/agents/{agent}/skills/registry", include_in_schema=False)
@router.post("/api/agents/{agent}/skills/install", include_in_schema=False)
async def refuse_skill_registry(services: ServicesDep, agent: NamePath) -> Ok:
    """Answer 501 with the way to install a skill by hand."""
    skills = _workspace(services, agent).workspace.skills
    raise HttpRefusal(
        501,
        f"TinyAGI has no skill registry. Put the skill's folder with its SKILL.md into {skills}; "
        "the agent uses it from its next run.",
    )


@router.get("/api/agents/{agent}/system-prompt", tags=["agents"], responses=responses(404, 409))
async def read_system_prompt(services: ServicesDep, agent: NamePath) -> SystemPrompt:
    """Read the owner's part of an agent's prompt: AGENTS.md in its workspace."""
    found = _workspace(services, agent)
    content = await _in_thread(lambda: read_whole(found.workspace.path, found.workspace.owner_text))
    return SystemPrompt(content=content, path=str(found.workspace.owner_text))


@router.put("/api/agents/{agent}/system-prompt", tags=["agents"], responses=responses(404, 409))
async def write_system_prompt(services: ServicesDep, agent: NamePath, new: NewSystemPrompt) -> SystemPromptSaved:
    """Replace AGENTS.md; it takes effect with the agent's next run."""
    found = _workspace(services, agent)
    await _in_thread(lambda: found.write(found.workspace.owner_text, new.content))
    return SystemPromptSaved(**(await read_system_prompt(services, agent)).model_dump())


@router.get("/api/agents/{agent}/memory", tags=["agents"], responses=responses(404, 409))
async def read_memory(services: ServicesDep, agent: NamePath) -> AgentMemory:
    """Read an agent's memory: the index in its prompt, and the files."""
    folder = _workspace(services, agent).workspace.memory
    index, found = await _in_thread(lambda: _memory(folder))
    return AgentMemory(index=index, files=found, memory_dir=str(folder))


@router.get("/api/agents/{agent}/heartbeat", tags=["agents"], responses=responses(404, 409))
async def read_heartbeat(services: ServicesDep, agent: NamePath) -> AgentHeartbeat:
    """Read an agent's heartbeat: its prompt and its interval."""
    found = _workspace(services, agent)
    content = await _in_thread(lambda: read_whole(found.workspace.path, found.workspace.heartbeat))
    configured = services.settings.current.agents[agent].heartbeat
    period = heartbeat_of(services.settings.current, AgentId(agent))
    return AgentHeartbeat(
        content=content,
        path=str(found.workspace.heartbeat),
        enabled=period is not None if configured.enabled is None else configured.enabled,
        interval=_as_int(configured.interval),
        every=_seconds(period),
    )


@router.put("/api/agents/{agent}/heartbeat", tags=["agents"], responses=responses(404, 409))
async def write_heartbeat(
    services: ServicesDep, request: Request, agent: NamePath, new: NewHeartbeat
) -> HeartbeatSaved:
    """Change the prompt or interval of an agent's heartbeat, or switch it on or off."""
    found, fields = _workspace(services, agent), new.model_fields_set
    if new.content is not None:
        text = new.content
        await _in_thread(lambda: found.write(found.workspace.heartbeat, text))
    timing: dict[str, object] = {}
    if new.enabled is not None:
        timing["enabled"] = new.enabled
    if "interval" in fields:
        timing["interval"] = new.interval
    if timing:
        await services.settings.edit(lambda stored: agent_patch(stored, agent, {"heartbeat": timing}))
    set_audit_detail(request, ", ".join(sorted(fields)))
    return HeartbeatSaved(**(await read_heartbeat(services, agent)).model_dump())


@router.post("/api/agents/{agent}/reset", tags=["agents"], responses=responses(404))
async def reset_agent(services: ServicesDep, request: Request, agent: NamePath) -> Ok:
    """Reset an agent: its next run starts a new session."""
    _workspace(services, agent)
    await services.engine.reset(AgentId(agent), by=request.state.actor)
    return Ok()


@dataclass(frozen=True, slots=True)
class _AgentWorkspace:
    """An agent and its workspace."""

    agent: Agent
    workspace: Workspace

    def write(self, file: Path, text: str) -> None:
        """Replace a file, creating the workspace if it is incomplete. Blocks."""
        if not is_complete(self.workspace.path):
            prepare(self.workspace.path, self.agent)
        replace_whole(self.workspace.path, file, text)


def _workspace(services: Services, agent: str) -> _AgentWorkspace:
    rules = services.rules
    known = rules.roster.agents.get(AgentId(agent))
    if known is None:
        raise no_agent(agent)
    return _AgentWorkspace(known, Workspace(rules.setup_of(known.id).workspace))


async def _in_thread(work: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(work)
    except OutsideWorkspace as error:
        raise HttpRefusal(403, str(error)) from error
    except WorkspaceError as error:
        raise HttpRefusal(409, str(error)) from error


def _memory(folder: Path) -> tuple[str, tuple[MemoryFile, ...]]:
    resolve_inside(folder.parent, folder)
    return memory_index(folder), tuple(MemoryFile(name=one.name, path=str(one.path)) for one in memories(folder))


def _seconds(period: timedelta | None) -> int | float | None:
    return None if period is None else _as_int(period.total_seconds())


def _as_int(seconds: float | None) -> int | float | None:
    """Return a whole number as an int, so that JSON has 60 and not 60.0."""
    return int(seconds) if seconds is not None and seconds.is_integer() else seconds
