"""Agents: listed, added or changed, deleted. Their texts are in `workspace`."""

from typing import Annotated

from fastapi import Query, Request

from tinyagi.agents.errors import WorkspaceError
from tinyagi.api.agents import AgentDeleted, AgentFields, AgentSaved, MessagesOfDeleted
from tinyagi.domain.ids import AgentId
from tinyagi.engine.staff import End, MoveTo, Staff
from tinyagi.server.auditing import audited_router, tell
from tinyagi.server.errors import Refused, responses
from tinyagi.server.parameters import Name
from tinyagi.server.services import Services, Use
from tinyagi.settings.secrets import masked
from tinyagi.settings.staff import agents_of

router = audited_router()

_MOVE = "move:"
Messages = Annotated[
    MessagesOfDeleted,
    Query(description="For messages that still wait: `dead` ends them, `move:<agent>` gives them to another agent."),
]


@router.get("/api/agents", tags=["agents"], response_model_exclude_unset=True)
async def list_agents(services: Use) -> dict[str, AgentFields]:
    """Every agent by its id, as it is stored; secrets are masked."""
    return {agent: AgentFields.model_validate(masked(raw)) for agent, raw in agents_of(services.settings.raw).items()}


@router.put("/api/agents/{agent}", tags=["agents"], response_model_exclude_unset=True, responses=responses(409))
async def save_agent(services: Use, request: Request, agent: Name, fields: AgentFields) -> AgentSaved:
    """Add an agent, with its workspace, or change some of its fields."""
    patch = fields.patch()
    try:
        provisioned = await _staff(services).hire(AgentId(agent), patch)
    except WorkspaceError as error:
        raise Refused(409, f"The agent is not saved: {error}") from error
    tell(request, ", ".join(sorted(patch)))
    stored = AgentFields.model_validate(masked(agents_of(services.settings.raw)[agent]))
    return AgentSaved(ok=True, agent=stored, provisioned=provisioned)


@router.delete("/api/agents/{agent}", tags=["agents"], responses=responses(404, 409))
async def delete_agent(services: Use, request: Request, agent: Name, messages: Messages = None) -> AgentDeleted:
    """Delete an agent; it leaves its teams, and where it led the next member does. Its workspace stays."""
    waiting: MoveTo | End | None = None
    if messages is not None:
        waiting = MoveTo(AgentId(messages.removeprefix(_MOVE))) if messages.startswith(_MOVE) else End()
    gone = await _staff(services).dismiss(AgentId(agent), waiting, by=request.state.actor)
    tell(request, f"{gone.messages} messages {messages or 'waited'}")
    return AgentDeleted(messages=gone.messages, default_agent=gone.default_agent, leaders=dict(gone.leaders))


def _staff(services: Services) -> Staff:
    return Staff(services.store, services.settings, services.home)
