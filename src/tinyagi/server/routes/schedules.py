"""Schedules over HTTP: list, add, change, delete."""

import secrets
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import Path, Request

from tinyagi.api import schedules as api
from tinyagi.api.base import Ok
from tinyagi.domain.ids import AgentId
from tinyagi.domain.schedules import CHANNEL, SENDER, NewSchedule, Schedule
from tinyagi.server.agent_scope import caller_of, check_channel
from tinyagi.server.dependencies import ServicesDep
from tinyagi.server.errors import responses
from tinyagi.server.routes.audit import audited_router, set_audit_detail

router = audited_router()

IdOrLabel = Annotated[str, Path(min_length=1, max_length=200, description="The id of a schedule, or its label.")]


@router.get("/api/schedules", tags=["schedules"])
async def list_schedules(services: ServicesDep) -> tuple[api.Schedule, ...]:
    """List the schedules, oldest first."""
    return tuple(map(_shown, await services.engine.schedules.all()))


@router.post("/api/schedules", tags=["schedules"], responses=responses(409))
async def add_schedule(services: ServicesDep, request: Request, new: api.NewSchedule) -> api.ScheduleSaved:
    """Add a schedule: a message that is sent repeatedly, or once at a given time."""
    added = await services.engine.schedules.add(
        NewSchedule(
            label=new.label or f"{new.agent_id}-{secrets.token_hex(4)}",
            agent_id=AgentId(new.agent_id),
            message=new.message,
            cron=new.cron,
            run_at=new.run_at,
            channel=check_channel(request.scope, new.channel or CHANNEL),
            sender=caller_of(request.scope) or new.sender or SENDER,
            sender_id=new.sender_id,
            enabled=new.enabled,
            timezone=new.timezone,
        )
    )
    set_audit_detail(request, added.label)
    return api.ScheduleSaved(schedule=_shown(added))


@router.put("/api/schedules/{schedule:path}", tags=["schedules"], responses=responses(404, 409))
async def change_schedule(
    services: ServicesDep, request: Request, schedule: IdOrLabel, changes: api.ScheduleChanges
) -> api.ScheduleSaved:
    """Change some fields of a schedule, by its id or label; a new time counts from now."""
    fields = changes.fields()
    if (agent := caller_of(request.scope)) is not None:
        # The schedule gets this agent as its sender, and agents may not write on chat channels.
        stored = await services.engine.schedules.all()
        for channel in [changes.channel, *(one.channel for one in stored if schedule in {one.id, one.label})]:
            check_channel(request.scope, channel or CHANNEL)
        fields["sender"] = agent
    changed = await services.engine.schedules.change(schedule, **fields)
    set_audit_detail(request, f"{changed.label}: {', '.join(sorted(fields))}")
    return api.ScheduleSaved(schedule=_shown(changed))


@router.delete("/api/schedules/{schedule:path}", tags=["schedules"], responses=responses(404))
async def delete_schedule(services: ServicesDep, schedule: IdOrLabel) -> Ok:
    """Delete a schedule, by its id or label; messages already sent stay."""
    await services.engine.schedules.remove(schedule)
    return Ok()


def _shown(schedule: Schedule) -> api.Schedule:
    return api.Schedule(
        id=schedule.id,
        label=schedule.label,
        agent_id=schedule.agent_id,
        message=schedule.message,
        cron=schedule.cron or "",
        run_at=_date(schedule.run_at),
        channel=schedule.channel,
        sender=schedule.sender,
        sender_id=schedule.sender_id,
        enabled=schedule.enabled,
        timezone=schedule.timezone,
        next_at=_date(schedule.next_at),
        last_at=_date(schedule.last_at),
        created_at=schedule.created_at,
        updated_at=schedule.updated_at,
    )


def _date(instant: int | None) -> datetime | None:
    # Exact; a division by 1000 would round.
    return None if instant is None else datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=instant)
