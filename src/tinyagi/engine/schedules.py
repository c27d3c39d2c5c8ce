"""Schedules as people and agents make and change them: checked, with the instant at which each is due next."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, TypedDict, Unpack

from tinyagi.domain.durations import millis
from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.ids import AgentId
from tinyagi.domain.schedules import NewSchedule, Schedule, ScheduleId
from tinyagi.engine.inbox import route_to
from tinyagi.engine.rules import Rulebook
from tinyagi.engine.timetable import check, next_due
from tinyagi.store.clock import wall_clock
from tinyagi.store.records import Schedules

GRACE: Final = timedelta(minutes=1)
"""How late a new single instant may be: whoever says "now" needs a moment to say it."""


class ScheduleFields(TypedDict, total=False):
    """What of a schedule may be changed."""

    label: str
    agent_id: AgentId
    message: str
    cron: str | None
    run_at: int | None
    channel: str
    sender: str
    enabled: bool
    timezone: str | None


class ScheduleBook:
    """The schedules of a home. `Scheduler` sends them."""

    def __init__(self, schedules: Schedules, rulebook: Rulebook, clock: Callable[[], int] = wall_clock) -> None:
        self._schedules = schedules
        self._rulebook = rulebook
        self._clock = clock

    async def all(self) -> tuple[Schedule, ...]:
        """Oldest first."""
        return await self._schedules.all()

    async def add(self, new: NewSchedule) -> Schedule:
        """Raise InvalidInput for what cannot be a schedule, and Conflict when its label is taken."""
        check(new)
        self._check_target(new.agent_id)
        return await self._schedules.add(new, next_at=self._next_at(new, grace=GRACE))

    async def change(self, schedule: ScheduleId, **fields: Unpack[ScheduleFields]) -> Schedule:
        """Change some fields; a new time counts from now. Raise InvalidInput, NotFound or Conflict.

        With `cron` alone a single instant becomes a repeated one, with `run_at` alone the other way round.
        """
        stored = await self._schedules.find(schedule)
        changed = replace(stored, **_with_one_timing(fields))
        new = _as_new(changed)
        check(new)
        if changed.agent_id != stored.agent_id:
            self._check_target(changed.agent_id)
        # A new text must not make it miss an instant that has come just now.
        if _timing(changed) != _timing(stored):
            grace = timedelta() if changed.run_at == stored.run_at else GRACE
            changed = replace(changed, next_at=self._next_at(new, grace=grace))
        return await self._schedules.replace(changed)

    async def remove(self, schedule: ScheduleId) -> None:
        """Raise NotFound."""
        await self._schedules.delete(schedule)

    def _next_at(self, new: NewSchedule, *, grace: timedelta) -> int | None:
        if not new.enabled:
            return None
        now = self._clock()
        due = next_due(new, now if new.run_at is None else now - millis(grace))
        if due is None:
            # Only a single instant has an end: whether a cron expression ever comes was checked.
            at = datetime.fromtimestamp((new.run_at or 0) / 1000, UTC)
            raise InvalidInput(f"runAt is {at:%Y-%m-%dT%H:%M:%SZ}, which is over: choose a later instant.")
        return due

    def _check_target(self, name: str) -> None:
        route_to(name, "", self._rulebook.current.roster)


def _timing(schedule: Schedule) -> tuple[object, ...]:
    return schedule.cron, schedule.run_at, schedule.timezone, schedule.enabled


def _with_one_timing(fields: ScheduleFields) -> ScheduleFields:
    if fields.get("cron") is not None and "run_at" not in fields:
        return {**fields, "run_at": None}
    if fields.get("run_at") is not None and "cron" not in fields:
        return {**fields, "cron": None}
    return fields


def _as_new(schedule: Schedule) -> NewSchedule:
    return NewSchedule(
        label=schedule.label,
        agent_id=schedule.agent_id,
        message=schedule.message,
        cron=schedule.cron,
        run_at=schedule.run_at,
        channel=schedule.channel,
        sender=schedule.sender,
        enabled=schedule.enabled,
        timezone=schedule.timezone,
    )
