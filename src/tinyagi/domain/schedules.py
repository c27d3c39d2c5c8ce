"""Schedules: messages that are sent when they are due."""

from dataclasses import dataclass, replace
from typing import NewType, TypedDict

from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.ids import AgentId

ScheduleId = NewType("ScheduleId", str)


@dataclass(frozen=True, slots=True)
class NewSchedule:
    label: str
    agent_id: AgentId
    message: str
    cron: str | None = None
    """Five fields; or `run_at`, never both."""
    run_at: int | None = None
    channel: str = "schedule"
    sender: str = "Scheduler"
    enabled: bool = True
    timezone: str | None = None
    """An IANA name; None is the machine's own zone."""


@dataclass(frozen=True, slots=True)
class Schedule:
    id: ScheduleId
    label: str
    agent_id: AgentId
    message: str
    cron: str | None
    run_at: int | None
    channel: str
    sender: str
    enabled: bool
    timezone: str | None
    next_at: int | None
    """When it is due next; None when it never is again."""
    last_at: int | None
    """The due time it was last sent for; kept by the store."""
    created_at: int
    updated_at: int


class ScheduleFields(TypedDict, total=False):
    """Fields of a schedule that people and agents change."""

    label: str
    agent_id: AgentId
    message: str
    cron: str | None
    run_at: int | None
    channel: str
    sender: str
    enabled: bool
    timezone: str | None


def with_fields(schedule: Schedule, fields: ScheduleFields) -> Schedule:
    """The schedule with these fields changed; its next due instant stays.

    With `cron` alone a single instant becomes a repeated one, with `run_at` alone the other way round.
    """
    changed = replace(schedule, **fields)
    if fields.get("cron") is not None and "run_at" not in fields:
        return replace(changed, run_at=None)
    if fields.get("run_at") is not None and "cron" not in fields:
        return replace(changed, cron=None)
    return changed


def check(schedule: NewSchedule | Schedule) -> None:
    """Raise InvalidInput for what no store may take."""
    if not schedule.label:
        raise InvalidInput("A schedule needs a label.")
    if (schedule.cron is None) == (schedule.run_at is None):
        raise InvalidInput(f"Schedule {schedule.label} needs either cron or runAt, and not both.")
