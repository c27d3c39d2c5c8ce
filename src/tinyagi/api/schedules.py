"""Schedules: messages that are sent when they are due."""

from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema

from tinyagi.api.base import Id, Instant, Model, Ok

LATEST: Final = 253_402_300_799_999
"""The last instant of the year 9999."""


def _instant(given: object) -> int:
    if isinstance(given, str):
        try:
            at = datetime.fromisoformat(given)
        except ValueError:
            raise ValueError("this is no date; use one like 2030-01-31T09:00:00+01:00") from None
        if at.tzinfo is None:
            raise ValueError("a date needs its offset from UTC, as in 2030-01-31T09:00:00+01:00")
        given = round((at - datetime.fromtimestamp(0, UTC)).total_seconds() * 1000)
    if isinstance(given, int) and not isinstance(given, bool) and 0 < given <= LATEST:
        return given
    raise ValueError("use a date between 1970 and 9999 with its offset, or milliseconds since 1970")


RunAt = Annotated[
    int,
    BeforeValidator(_instant),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "format": "date-time"},
                {"type": "integer", "minimum": 1, "maximum": LATEST},
            ],
            "description": "When it comes, once: ISO 8601 with its offset, or milliseconds since 1970.",
        }
    ),
]
Label = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Sender = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=256)]
Message = Annotated[str, Field(min_length=1, max_length=1_000_000)]
Cron = Annotated[str, Field(min_length=1, max_length=200, description="Five fields; instead of runAt, to come again.")]
Timezone = Annotated[str, Field(min_length=1, max_length=80, description="An IANA name; null is the machine's own.")]


class Schedule(Model):
    id: str
    label: str
    agent_id: Annotated[str, Field(description="An agent or a team.")]
    message: str
    cron: str | None = None
    run_at: datetime | None = None
    channel: str
    sender: str
    enabled: bool
    timezone: str | None = None
    next_at: Annotated[datetime | None, Field(description="When it is due next; null when it never is again.")] = None
    last_at: Annotated[datetime | None, Field(description="The due time it was last sent for.")] = None
    created_at: Instant
    updated_at: Instant


class NewSchedule(Model):
    """Either `cron` or `runAt`, never both."""

    agent_id: Annotated[Id, Field(description="An agent or a team.")]
    message: Message
    cron: Cron | None = None
    run_at: RunAt | None = None
    label: Annotated[Label | None, Field(description="No two schedules share one; without one, it is made up.")] = None
    channel: Id = "schedule"
    sender: Sender = "Scheduler"
    enabled: bool = True
    timezone: Timezone | None = None


class ScheduleChanges(Model):
    """What is left out or null stays as it is, but for `timezone`, where null is the machine's own. With `cron` alone
    a single instant becomes a repeated one, with `runAt` alone the other way round."""

    agent_id: Id | None = None
    message: Message | None = None
    cron: Cron | None = None
    run_at: RunAt | None = None
    label: Label | None = None
    channel: Id | None = None
    sender: Sender | None = None
    enabled: bool | None = None
    timezone: Timezone | None = None


class ScheduleSaved(Ok):
    schedule: Schedule
