"""Schedules on SQLite."""

from collections.abc import Callable

from tinyagi.domain.messages import Message, NewMessage
from tinyagi.domain.schedules import NewSchedule, Schedule, ScheduleFields, ScheduleId, check
from tinyagi.store.sqlite.operations.schedules import (
    AddSchedule,
    ChangeSchedule,
    FireRequest,
    add_schedules,
    change_schedules,
    delete_schedules,
    fire,
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

    async def add(self, new: NewSchedule, *, next_at: int | None) -> Schedule:
        check(new)
        return await self._writer.write(add_schedules, AddSchedule(new, next_at))

    async def change(
        self, schedule: ScheduleId, fields: ScheduleFields, *, next_at: Callable[[Schedule, Schedule], int | None]
    ) -> Schedule:
        return await self._writer.write(change_schedules, ChangeSchedule(schedule, fields, next_at))

    async def delete(self, schedule: ScheduleId) -> None:
        await self._writer.write(delete_schedules, schedule)

    async def due(self, now: int) -> tuple[Schedule, ...]:
        return tuple(map(schedule_of, await self._readers.rows("due_schedules", (now,))))

    async def next_due_at(self) -> int | None:
        row = await self._readers.row("next_schedule")
        at: int | None = row[0]
        return at

    async def fire(
        self,
        schedule: ScheduleId,
        due_at: int,
        *,
        message: Callable[[Schedule], NewMessage | None],
        next_at: Callable[[Schedule], int | None],
    ) -> Message | None:
        return await self._writer.write(fire, FireRequest(schedule, due_at, message, next_at))
