"""Schedules as people and agents make and change them: checked, with the instant at which each is due next."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, Unpack

from tinyagi.domain.durations import millis
from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.schedules import NewSchedule, Schedule, ScheduleFields, ScheduleId
from tinyagi.engine.inbox import route_to
from tinyagi.engine.rules import Rulebook
from tinyagi.engine.timetable import check, next_due
from tinyagi.store.clock import wall_clock
from tinyagi.store.records import Schedules

GRACE: Final = timedelta(minutes=1)
"""How late a new single instant may be: whoever says "now" needs a moment to say it."""


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
        """Change some fields; a new time counts from now. Raise InvalidInput, NotFound or Conflict."""
        return await self._schedules.change(schedule, fields, next_at=self._checked_next_at)

    async def remove(self, schedule: ScheduleId) -> None:
        """Raise NotFound."""
        await self._schedules.delete(schedule)

    def _checked_next_at(self, before: Schedule, after: Schedule) -> int | None:
        check(after)
        if after.agent_id != before.agent_id:
            self._check_target(after.agent_id)
        # A new text must not make it miss an instant that has come just now.
        if _timing(after) == _timing(before):
            return before.next_at
        return self._next_at(after, grace=timedelta() if after.run_at == before.run_at else GRACE, beyond=after.last_at)

    def _next_at(self, schedule: NewSchedule | Schedule, *, grace: timedelta, beyond: int | None = None) -> int | None:
        """When it is due next; never at or before an instant that it was sent for, also when the clock was set back."""
        if not schedule.enabled:
            return None
        now = self._clock()
        due = next_due(schedule, max(beyond or 0, now if schedule.run_at is None else now - millis(grace)))
        if due is None:
            # Only a single instant has an end: whether a cron expression ever comes was checked.
            at = datetime.fromtimestamp((schedule.run_at or 0) / 1000, UTC)
            raise InvalidInput(f"runAt is {at:%Y-%m-%dT%H:%M:%SZ}, which is over: choose a later instant.")
        return due

    def _check_target(self, name: str) -> None:
        route_to(name, "", self._rulebook.current.roster)


def _timing(schedule: Schedule) -> tuple[object, ...]:
    return schedule.cron, schedule.run_at, schedule.timezone, schedule.enabled
