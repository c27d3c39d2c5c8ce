"""The queue over HTTP: depth, lanes, running, waiting and dead messages, and the actions on them."""

from typing import Annotated, Final, NamedTuple

from fastapi import Body, Path, Query, Request

from tinyagi.api.base import ID, Ok
from tinyagi.api.queue import (
    CancelledMessage,
    DeadData,
    DeadMessage,
    LaneCancelled,
    LaneStatus,
    MovedMessage,
    MoveMessage,
    QueueStatus,
    Reason,
    RetryDead,
    RunKilled,
    RunningMessage,
    WaitingMessage,
)
from tinyagi.domain.errors import InvalidInput, NotFound
from tinyagi.domain.ids import MAX_MESSAGE_ID, AgentId
from tinyagi.domain.messages import PASSIVE_PRIORITY, Message, Status
from tinyagi.domain.responses import cancel_notice
from tinyagi.domain.retry import HoldCause
from tinyagi.domain.texts import one_line
from tinyagi.server.dependencies import Cursor, NamePath, RowId, Services, ServicesDep, limit
from tinyagi.server.errors import responses
from tinyagi.server.routes.audit import audited_router, caller, set_audit_detail
from tinyagi.store.lanes import LaneDepth, LaneState
from tinyagi.store.queue import WaitingRow
from tinyagi.system.clock import wall_clock

router = audited_router()

PREVIEW_CHARS: Final = 500
CANCELLED: Final = "cancelled while it waited"

MessageName = Annotated[str, Path(min_length=1, max_length=MAX_MESSAGE_ID, description="The `id` or the `messageId`.")]


@router.get("/api/queue/status", response_model=QueueStatus, tags=["queue"])
async def queue_status(services: ServicesDep) -> QueueStatus:
    """Count messages by status, undelivered responses and open conversations."""
    depth = await services.store.queue.depth()
    retrying = await services.store.queue.retrying()
    return QueueStatus(
        pending=depth.pending - depth.queued,
        processing=depth.processing,
        completed=depth.completed,
        dead=depth.dead,
        waiting=depth.pending,
        incoming=depth.pending - depth.queued,
        queued=depth.queued,
        outgoing=depth.outgoing,
        active_conversations=depth.open_conversations,
        retrying=retrying.messages,
        next_retry_at=retrying.next_at,
    )


@router.get("/api/queue/agents", response_model=list[LaneStatus], tags=["queue"])
async def queue_of_agents(services: ServicesDep) -> list[LaneStatus]:
    """List the lane of every agent, and every other lane that is in use."""
    depths = {lane.agent: lane for lane in (await services.store.queue.depth()).lanes}
    lanes: dict[str, LaneState] = {lane.agent: lane for lane in await services.store.lanes.all()}
    configured = services.rules.roster.agents
    now = wall_clock()
    named = dict.fromkeys([*configured, *sorted(depths.keys() | lanes.keys())])
    statuses = (_lane(agent, depths.get(agent), lanes.get(agent), now) for agent in named if agent)
    return [status for status in statuses if status.agent in configured or _is_in_use(status)]


@router.get("/api/queue/processing", response_model=list[RunningMessage], tags=["queue"])
async def queue_processing(services: ServicesDep, limit: int = limit(100)) -> list[RunningMessage]:
    """List the running messages with the latest output of each run, then the waiting ones."""
    live_claims = {run.claim.id for run in services.engine.runs()}
    now = wall_clock()
    running = (await services.store.queue.processing())[:limit]
    known = {message.id for message in running}
    waiting = [one for one in await services.store.queue.upcoming(limit=limit - len(running)) if one.id not in known]
    return [
        RunningMessage(
            id=message.id,
            message_id=message.message_id,
            channel=message.channel,
            sender=message.sender,
            sender_id=message.sender_id,
            message=message.message,
            agent=message.agent,
            status="queued" if message.status is Status.PENDING else message.status,
            conversation_id=message.conversation_id,
            attempt=message.attempt,
            process_alive=message.claim_id in live_claims,
            started_at=message.started_at,
            duration=0 if message.started_at is None else max(0, now - message.started_at),
            progress="" if message.claim_id is None else services.engine.live.text_of(message.claim_id),
        )
        for message in (*running, *waiting)
    ]


@router.post("/api/queue/processing/{message}/kill", response_model=RunKilled, responses=responses(404), tags=["queue"])
async def stop_run(services: ServicesDep, request: Request, message: RowId) -> RunKilled:
    """Stop the run of this message: all messages of the run become dead, and the lane continues with the next."""
    running = await services.store.queue.message(message)
    if running is None:
        raise NotFound(f"There is no message {message}. /api/queue/processing lists the running ones.")
    ended = await services.engine.stop_run(message, by=caller(request))
    return RunKilled(agent=running.agent, process_killed=ended)


@router.post("/api/queue/agents/{agent}/pause", response_model=Ok, responses=responses(404), tags=["queue"])
async def pause_lane(services: ServicesDep, agent: NamePath) -> Ok:
    """Pause an agent's lane: the current run finishes, new messages wait until the lane is resumed."""
    await services.store.lanes.pause(await _known_agent(services, agent))
    return Ok()


@router.post("/api/queue/agents/{agent}/resume", response_model=Ok, responses=responses(404), tags=["queue"])
async def resume_lane(services: ServicesDep, agent: NamePath) -> Ok:
    """Resume an agent's lane: end its pause and its hold."""
    await services.store.lanes.resume(await _known_agent(services, agent))
    return Ok()


@router.get("/api/queue/dead", response_model=list[DeadMessage], tags=["queue"])
async def dead_messages(
    services: ServicesDep,
    agent: Annotated[str | None, Query(pattern=ID, description="Only messages of this agent.")] = None,
    limit: int = limit(100),
) -> list[DeadMessage]:
    """List dead messages, which are not retried automatically, newest first."""
    found = await services.store.queue.dead(agent=None if agent is None else AgentId(agent), limit=limit)
    return [_dead(message) for message in found]


@router.post("/api/queue/dead/{message}/retry", response_model=Ok, responses=responses(404), tags=["queue"])
async def retry_dead_message(
    services: ServicesDep, request: Request, message: RowId, edited: Annotated[RetryDead | None, Body()] = None
) -> Ok:
    """Retry a dead message with its attempts reset, optionally with a new text."""
    text = None if edited is None else edited.message
    await services.store.queue.retry_dead(message, text=text)
    if text is not None:
        set_audit_detail(request, "with another text")
    return Ok()


@router.delete("/api/queue/dead/{message}", response_model=Ok, responses=responses(404), tags=["queue"])
async def delete_dead_message(services: ServicesDep, request: Request, message: RowId) -> Ok:
    """Delete a dead message permanently."""
    await services.store.queue.delete_dead(message, reason=f"deleted by {caller(request)}")
    return Ok()


@router.get("/api/queue/messages", response_model=list[WaitingMessage], tags=["queue"])
async def waiting_messages(
    services: ServicesDep,
    agent: Annotated[str | None, Query(pattern=ID, description="Only messages for this agent.")] = None,
    after: Cursor = 0,
    limit: int = limit(100),
) -> list[WaitingMessage]:
    """List waiting messages, oldest first, with the reason; `after` is the last id of the previous page."""
    lane = None if agent is None else AgentId(agent)
    waiting = await services.store.queue.waiting(agent=lane, after=after, limit=limit, characters=PREVIEW_CHARS)
    lanes = {one.agent: one for one in await services.store.lanes.all()}
    running = {message.agent: message.id for message in await services.store.queue.processing()}
    attempts = services.settings.current.queue.attempts
    now = wall_clock()
    return [
        _waiting_message(one, lanes.get(one.message.agent), running.get(one.message.agent), attempts, now)
        for one in waiting
    ]


@router.delete(
    "/api/queue/messages/{message:path}", response_model=CancelledMessage, responses=responses(404, 409), tags=["queue"]
)
async def cancel_message(services: ServicesDep, message: MessageName) -> CancelledMessage:
    """Cancel a waiting message: it becomes dead and can be retried, and its sender gets a notice."""
    cancelled = await services.store.queue.cancel(await _row_id(services, message), reason=CANCELLED)
    return CancelledMessage(id=cancelled.id, message_id=cancelled.message_id, agent=cancelled.agent)


@router.delete("/api/queue/messages", response_model=LaneCancelled, tags=["queue"])
async def cancel_messages(
    services: ServicesDep,
    request: Request,
    agent: Annotated[str, Query(pattern=ID, description="The agent whose messages are cancelled.")],
) -> LaneCancelled:
    """Cancel all waiting messages of an agent."""
    notice = cancel_notice(agent)
    cancelled = await services.store.queue.abandon(AgentId(agent), reason=CANCELLED, notice=notice)
    set_audit_detail(request, f"{cancelled} of @{agent}")
    return LaneCancelled(cancelled=cancelled)


@router.post(
    "/api/queue/messages/{message:path}/move",
    response_model=MovedMessage,
    responses=responses(404, 409),
    tags=["queue"],
)
async def move_message(
    services: ServicesDep, request: Request, message: MessageName, wanted: MoveMessage
) -> MovedMessage:
    """Move a waiting message to another agent."""
    agents = services.rules.roster.agents
    if wanted.to not in agents:
        raise InvalidInput(f"There is no agent @{wanted.to}. Agents: {', '.join(agents)}.")
    moved = await services.store.queue.move_message(await _row_id(services, message), AgentId(wanted.to))
    set_audit_detail(request, f"to @{moved.agent}")
    return MovedMessage(id=moved.id, message_id=moved.message_id, agent=moved.agent)


async def _known_agent(services: Services, agent: str) -> AgentId:
    """Return the id of a configured agent, or of one whose lane outlives it; raise NotFound."""
    if agent in services.rules.roster.agents:
        return AgentId(agent)
    depth = await services.store.queue.depth()
    lanes: set[str] = {lane.agent for lane in await services.store.lanes.all()}
    if agent not in lanes | {lane.agent for lane in depth.lanes}:
        raise NotFound(f"There is no agent {agent!r}. /api/queue/agents lists them.")
    return AgentId(agent)


async def _row_id(services: Services, name: str) -> int:
    """Return the row id; raise NotFound. Digits are always a row id, so a messageId of digits only cannot be used."""
    if name.isascii() and name.isdecimal() and len(name) <= 18:
        return int(name)
    message = await services.store.queue.message_named(name)
    if message is None:
        raise NotFound(f"There is no message {one_line(name)!r}. `tinyagi queue list` lists the waiting ones.")
    return message.id


def _lane(agent: str, depth: LaneDepth | None, lane: LaneState | None, now: int) -> LaneStatus:
    depth = depth or LaneDepth(agent)
    is_held = lane is not None and lane.hold_until > now
    return LaneStatus(
        agent=agent,
        pending=depth.pending - depth.queued,
        queued=depth.queued,
        waiting=depth.pending,
        processing=depth.processing,
        dead=depth.dead,
        paused=lane is not None and lane.paused,
        hold_until=lane.hold_until if lane is not None and is_held else None,
        hold_reason=lane.hold_reason if lane is not None and is_held else None,
        hold_cause=lane.hold_cause if lane is not None and is_held else None,
    )


def _is_in_use(lane: LaneStatus) -> bool:
    return bool(lane.waiting or lane.processing or lane.dead or lane.paused or lane.hold_until)


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


class _WaitReason(NamedTuple):
    reason: Reason
    until: int | None = None
    behind: int | None = None
    detail: str | None = None
    hold_cause: HoldCause | None = None


def _waiting_message(
    waiting: WaitingRow, lane: LaneState | None, running: int | None, attempts: int, now: int
) -> WaitingMessage:
    message = waiting.message
    why = _wait_reason(waiting, lane, running, now)
    return WaitingMessage(
        id=message.id,
        message_id=message.message_id,
        agent=message.agent,
        channel=message.channel,
        sender=message.sender,
        sender_id=message.sender_id,
        from_agent=message.from_agent,
        team=message.team,
        conversation_id=message.conversation_id,
        thread=message.thread,
        priority=message.priority,
        message=message.message,
        created_at=message.created_at,
        reason=why.reason,
        until=why.until,
        behind=why.behind,
        detail=why.detail and one_line(why.detail, PREVIEW_CHARS),
        hold_cause=why.hold_cause,
        attempt=message.attempt,
        attempts=attempts,
    )


def _wait_reason(waiting: WaitingRow, lane: LaneState | None, running: int | None, now: int) -> _WaitReason:
    """The reason that blocks the whole lane, otherwise the reason that blocks this message."""
    if lane is not None and lane.paused:
        return _WaitReason("paused")
    if lane is not None and lane.hold_until > now:
        return _WaitReason("held", until=lane.hold_until, detail=lane.hold_reason, hold_cause=lane.hold_cause)
    blocked = _blocked(waiting, now)
    if blocked is not None:
        return blocked
    return _WaitReason("next") if running is None else _WaitReason("busy", behind=running)


def _blocked(waiting: WaitingRow, now: int) -> _WaitReason | None:
    message = waiting.message
    if waiting.waits_for == "time" and message.available_at > now:
        if message.retry_count == 0:
            return _WaitReason("delayed", until=message.available_at)
        return _WaitReason("retry", until=message.available_at, detail=message.last_error)
    if waiting.waits_for == "team":
        return _WaitReason("team")
    if waiting.behind is not None:
        return _WaitReason("thread", behind=waiting.behind)
    return _WaitReason("passive") if message.priority <= PASSIVE_PRIORITY else None
