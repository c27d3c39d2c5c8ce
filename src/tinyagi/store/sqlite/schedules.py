"""Schedules on SQLite."""

from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.messages import Message, NewMessage
from tinyagi.domain.schedules import NewSchedule, Schedule, ScheduleId, check
from tinyagi.store.sqlite.operations.schedules import (
    AddSchedule,
    FireRequest,
    add_schedules,
    delete_schedules,
    fire,
    no_schedule,
    replace_schedules,
    schedule_of,
)
from tinyagi.store.sqlite.readers import Readers
from tinyagi.store.sqlite.writer import Writer


class SqliteSchedules:
    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def all(self) -> tuple[Schedule, ...]:
        return tuple(map(schedule_of, await self._readers.rows("schedules")))

    async def find(self, schedule: ScheduleId) -> Schedule:
        row = await self._readers.row("schedule", (schedule,))
        if row is None:
            raise no_schedule(schedule)
        return schedule_of(row)

    async def add(self, new: NewSchedule, *, next_at: int | None) -> Schedule:
        check(new)
        return await self._writer.write(add_schedules, AddSchedule(new, next_at))

    async def replace(self, schedule: Schedule) -> Schedule:
        check(schedule)
        return await self._writer.write(replace_schedules, schedule)

    async def delete(self, schedule: ScheduleId) -> None:
        await self._writer.write(delete_schedules, schedule)

    async def due(self, now: int) -> tuple[Schedule, ...]:
        return tuple(map(schedule_of, await self._readers.rows("due_schedules", (now,))))

    async def next_due_at(self) -> int | None:
        row = await self._readers.row("next_schedule")
        at: int | None = row[0]
        return at

    async def fire(self, schedule: Schedule, message: NewMessage, *, next_at: int | None) -> Message | None:
        message.check()
        if schedule.next_at is not None and next_at is not None and next_at <= schedule.next_at:
            raise InvalidInput(f"Schedule {schedule.label} cannot go on to a due time that is past.")
        return await self._writer.write(fire, FireRequest(schedule.id, schedule.next_at, message, next_at))
