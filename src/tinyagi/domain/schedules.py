"""Schedules: messages that are sent when they are due."""

from dataclasses import dataclass, replace
from typing import Final, NewType, TypedDict

from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.ids import AgentId

ScheduleId = NewType("ScheduleId", str)

CHANNEL: Final = "schedule"
"""Default channel of a schedule; its answers go to no chat."""
SENDER: Final = "Scheduler"


@dataclass(frozen=True, slots=True)
class NewSchedule:
    label: str
    agent_id: AgentId
    message: str
    cron: str | None = None
    """Five fields. A schedule has either `cron` or `run_at`, never both."""
    run_at: int | None = None
    channel: str = CHANNEL
    sender: str = SENDER
    sender_id: str | None = None
    """The address of the chat that gets the answers; None for channels without chats."""
    enabled: bool = True
    timezone: str | None = None
    """An IANA name; None means the machine's zone."""


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
    sender_id: str | None
    enabled: bool
    timezone: str | None
    next_at: int | None
    """When it is due next; None when it is never due again."""
    last_at: int | None
    """The due time of the last message sent; set by the store."""
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
    sender_id: str | None
    enabled: bool
    timezone: str | None


def with_schedule_fields(schedule: Schedule, fields: ScheduleFields) -> Schedule:
    """The schedule with these fields changed; its next due instant stays.

    `cron` alone turns a one-time schedule into a recurring one; `run_at` alone does the reverse.
    """
    changed = replace(schedule, **fields)
    if fields.get("cron") is not None and "run_at" not in fields:
        return replace(changed, run_at=None)
    if fields.get("run_at") is not None and "cron" not in fields:
        return replace(changed, cron=None)
    return changed


def check(schedule: NewSchedule | Schedule) -> None:
    """Raise InvalidInput for a schedule that no store may accept."""
    if not schedule.label:
        raise InvalidInput("A schedule needs a label.")
    if (schedule.cron is None) == (schedule.run_at is None):
        raise InvalidInput(f"Schedule {schedule.label} needs either cron or runAt, and not both.")
