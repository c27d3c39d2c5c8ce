"""The queue: how full it is, what runs, what is dead, and a person's hand on all of it."""

from typing import Annotated

from fastapi import Body, Query, Request

from tinyagi.api.base import ID, Ok
from tinyagi.api.queue import DeadData, DeadMessage, LaneStatus, QueueStatus, RetryDead, RunKilled, RunningMessage
from tinyagi.domain.errors import NotFound
from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import Message
from tinyagi.server.auditing import audited_router, tell
from tinyagi.server.errors import responses
from tinyagi.server.parameters import Name, RowId, limit
from tinyagi.server.services import Services, Use
from tinyagi.store.base import Lane, LaneDepth
from tinyagi.store.clock import wall_clock

router = audited_router()


@router.get("/api/queue/status", response_model=QueueStatus, tags=["queue"])
async def queue_status(services: Use) -> QueueStatus:
    """Count the messages by their status, the responses on their way and the open conversations."""
    depth = await services.store.queue.depth()
    return QueueStatus(
        pending=depth.pending,
        processing=depth.processing,
        completed=depth.completed,
        dead=depth.dead,
        incoming=depth.pending,
        queued=depth.pending,
        outgoing=depth.outgoing,
        active_conversations=depth.open_conversations,
    )


@router.get("/api/queue/agents", response_model=list[LaneStatus], tags=["queue"])
async def queue_of_agents(services: Use) -> list[LaneStatus]:
    """List the lane of every agent, and every other lane where something stands."""
    depths = {lane.agent: lane for lane in (await services.store.queue.depth()).lanes}
    lanes: dict[str, Lane] = {lane.agent: lane for lane in await services.store.lanes.all()}
    configured = services.rules.roster.agents
    now = wall_clock()
    named = dict.fromkeys([*configured, *sorted(depths.keys() | lanes.keys())])
    statuses = (_lane(agent, depths.get(agent), lanes.get(agent), now) for agent in named if agent)
    return [status for status in statuses if status.agent in configured or _is_in_use(status)]


@router.get("/api/queue/processing", response_model=list[RunningMessage], tags=["queue"])
async def queue_processing(services: Use) -> list[RunningMessage]:
    """List the messages that are being run, with the latest that each run has said."""
    carried = {run.claim.id for run in services.engine.runs()}
    now = wall_clock()
    return [
        RunningMessage(
            id=message.id,
            message_id=message.message_id,
            channel=message.channel,
            sender=message.sender,
            message=message.message,
            agent=message.agent,
            status=message.status,
            conversation_id=message.conversation_id,
            attempt=message.attempt,
            process_alive=message.claim_id in carried,
            started_at=message.started_at,
            duration=0 if message.started_at is None else max(0, now - message.started_at),
            progress="" if message.claim_id is None else services.engine.live.text_of(message.claim_id),
        )
        for message in await services.store.queue.processing()
    ]


@router.post("/api/queue/processing/{message}/kill", response_model=RunKilled, responses=responses(404), tags=["queue"])
async def stop_run(services: Use, request: Request, message: RowId) -> RunKilled:
    """End the run that this message is part of: its messages become dead, the lane goes on with the next."""
    running = await services.store.queue.message(message)
    if running is None:
        raise NotFound(f"There is no message {message}. /api/queue/processing lists what runs.")
    ended = await services.engine.stop_run(message, by=request.state.actor)
    return RunKilled(agent=running.agent, process_killed=ended)


@router.post("/api/queue/agents/{agent}/pause", response_model=Ok, responses=responses(404), tags=["queue"])
async def pause_lane(services: Use, agent: Name) -> Ok:
    """Let the agent's current run finish and begin no further one until it is resumed."""
    await services.store.lanes.pause(await _known(services, agent))
    return Ok()


@router.post("/api/queue/agents/{agent}/resume", response_model=Ok, responses=responses(404), tags=["queue"])
async def resume_lane(services: Use, agent: Name) -> Ok:
    """Lift the pause of an agent's lane, and its hold."""
    await services.store.lanes.resume(await _known(services, agent))
    return Ok()


@router.get("/api/queue/dead", response_model=list[DeadMessage], tags=["queue"])
async def dead_messages(
    services: Use,
    agent: Annotated[str | None, Query(pattern=ID, description="Of this agent only.")] = None,
    limit: int = limit(100),
) -> list[DeadMessage]:
    """List the messages that are not tried again by themselves, newest first."""
    found = await services.store.queue.dead(agent=None if agent is None else AgentId(agent), limit=limit)
    return [_dead(message) for message in found]


@router.post("/api/queue/dead/{message}/retry", response_model=Ok, responses=responses(404), tags=["queue"])
async def retry_dead_message(
    services: Use, request: Request, message: RowId, edited: Annotated[RetryDead | None, Body()] = None
) -> Ok:
    """Send a dead message again with a fresh budget of attempts, perhaps with another text."""
    text = None if edited is None else edited.message
    await services.store.queue.retry_dead(message, text=text)
    if text is not None:
        tell(request, "with another text")
    return Ok()


@router.delete("/api/queue/dead/{message}", response_model=Ok, responses=responses(404), tags=["queue"])
async def delete_dead_message(services: Use, request: Request, message: RowId) -> Ok:
    """Remove a dead message for good."""
    await services.store.queue.delete_dead(message, reason=f"deleted by {request.state.actor}")
    return Ok()


async def _known(services: Services, agent: str) -> AgentId:
    """An agent that is configured, or whose lane outlives it; raise NotFound."""
    if agent in services.rules.roster.agents:
        return AgentId(agent)
    depth = await services.store.queue.depth()
    lanes: set[str] = {lane.agent for lane in await services.store.lanes.all()}
    if agent not in lanes | {lane.agent for lane in depth.lanes}:
        raise NotFound(f"There is no agent {agent!r}. /api/queue/agents lists them.")
    return AgentId(agent)


def _lane(agent: str, depth: LaneDepth | None, lane: Lane | None, now: int) -> LaneStatus:
    depth = depth or LaneDepth(agent)
    is_held = lane is not None and lane.hold_until > now
    return LaneStatus(
        agent=agent,
        pending=depth.pending,
        queued=depth.pending,
        processing=depth.processing,
        dead=depth.dead,
        paused=lane is not None and lane.paused,
        hold_until=lane.hold_until if lane is not None and is_held else None,
        hold_reason=lane.hold_reason if lane is not None and is_held else None,
    )


def _is_in_use(lane: LaneStatus) -> bool:
    return bool(lane.pending or lane.processing or lane.dead or lane.paused or lane.hold_until)


def _dead(message: Message) -> DeadMessage:
    return DeadMessage(
        id=message.id,
        data=DeadData(
            channel=message.channel,
            sender=message.sender,
            sender_id=message.sender_id,
            message=message.message,
            message_id=message.message_id,
            agent=message.agent,
        ),
        conversation_id=message.conversation_id,
        failed_reason=message.last_error or "",
        attempts_made=message.retry_count,
        timestamp=message.created_at,
        failed_at=message.updated_at,
    )
