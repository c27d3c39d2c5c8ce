"""Schedules: people edit them, and each due time sends one message, even when several processes fire it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tinyagi.domain.errors import Conflict, InvalidInput, NotFound
from tinyagi.domain.messages import Message, NewMessage
from tinyagi.domain.schedules import NewSchedule, Schedule, ScheduleFields, ScheduleId, check, with_schedule_fields
from tinyagi.store.enqueue import EnqueueRequest, enqueue
from tinyagi.store.readers import Readers
from tinyagi.store.transaction import Transaction
from tinyagi.store.writer import Writer


class ScheduleStore:
    """Messages sent at their due times, each due time once. Callbacks run like those of `BoardStore`."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def all(self) -> tuple[Schedule, ...]:
        """Oldest first."""
        return tuple(map(_schedule_from_row, await self._readers.rows("schedules")))

    async def add(self, new: NewSchedule, *, next_at: int | None) -> Schedule:
        """Raise Conflict when the label is taken."""
        check(new)
        return await self._writer.run(add_schedule, new, next_at)

    async def change(
        self, schedule: str, fields: ScheduleFields, *, next_at: Callable[[Schedule, Schedule], int | None]
    ) -> Schedule:
        """Change these fields of the schedule with this id or label; raise NotFound, Conflict or InvalidInput.

        `next_at` gets the schedule before and after the change and returns the instant at which it is due next.
        """
        return await self._writer.run(change_schedule, schedule, fields, next_at)

    async def delete(self, schedule: str) -> None:
        """By id or label; raise NotFound."""
        await self._writer.run(delete_schedule, schedule)

    async def due(self, now: int) -> tuple[Schedule, ...]:
        """Enabled schedules that are due."""
        return tuple(map(_schedule_from_row, await self._readers.rows("due_schedules", (now,))))

    async def next_due_at(self) -> int | None:
        """The next due time of all schedules, or None."""
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
        """Enqueue the message of this due time and advance the schedule in one transaction; None if nothing was sent.

        A schedule without a next due time is disabled. Nothing happens when it is no longer due at this instant:
        another process was first, or it was changed, disabled or deleted. A `message` of None skips the due time. On
        InvalidInput, DuplicateMessage or an exception of a callback the schedule stays due.
        """
        return await self._writer.run(fire, schedule, due_at, message=message, next_at=next_at)


def add_schedule(tx: Transaction, new: NewSchedule, next_at: int | None) -> Schedule:
    _refuse_taken_label(tx, new.label)
    schedule = ScheduleId(tx.new_id("sched"))
    tx.connection.execute(tx.sql["insert_schedule"], (schedule, *_columns(new), next_at, tx.now))
    return _find(tx, schedule)


def change_schedule(
    tx: Transaction, schedule: str, fields: ScheduleFields, next_at: Callable[[Schedule, Schedule], int | None]
) -> Schedule:
    before = _find(tx, schedule)
    after = with_schedule_fields(before, fields)
    check(after)
    _refuse_taken_label(tx, after.label, after.id)
    tx.connection.execute(tx.sql["update_schedule"], (after.id, *_columns(after), next_at(before, after), tx.now))
    return _find(tx, after.id)


def delete_schedule(tx: Transaction, schedule: str) -> None:
    tx.connection.execute(tx.sql["delete_schedule"], (_find(tx, schedule).id,))


def fire(
    tx: Transaction,
    schedule_id: ScheduleId,
    due_at: int,
    *,
    message: Callable[[Schedule], NewMessage | None],
    next_at: Callable[[Schedule], int | None],
) -> Message | None:
    """Returns the message if this call is the first for its due time, else None."""
    row = tx.connection.execute(tx.sql["schedule"], (schedule_id,)).fetchone()
    schedule = None if row is None else _schedule_from_row(row)
    if schedule is None or not schedule.enabled or schedule.next_at != due_at:
        return None
    new, following = message(schedule), next_at(schedule)
    if following is not None and following <= due_at:
        raise InvalidInput(f"Schedule {schedule.label} cannot advance to a due time in the past.")
    if new is None:
        tx.connection.execute(tx.sql["advance_schedule"], (schedule.id, schedule.last_at, following))
        return None
    new.check()
    tx.connection.execute(tx.sql["advance_schedule"], (schedule.id, due_at, following))
    ((sent,),) = enqueue(tx, [EnqueueRequest((new,))])
    return sent


def _columns(schedule: NewSchedule | Schedule) -> tuple[object, ...]:
    """The fields that people set, in the order of the statements."""
    what = (schedule.label, schedule.agent_id, schedule.message, schedule.cron, schedule.run_at)
    return (*what, schedule.channel, schedule.sender, schedule.sender_id, schedule.enabled, schedule.timezone)


def _refuse_taken_label(tx: Transaction, label: str, schedule: str = "") -> None:
    if tx.connection.execute(tx.sql["label_in_use"], (label, schedule)).fetchone():
        raise Conflict(f"The label {label} is taken. Choose another one, or change that schedule.")


def _find(tx: Transaction, schedule: str) -> Schedule:
    """The schedule with this id or label."""
    row = tx.connection.execute(tx.sql["named_schedule"], (schedule,)).fetchone()
    if row is None:
        raise _not_found(schedule)
    return _schedule_from_row(row)


def _schedule_from_row(row: tuple[Any, ...]) -> Schedule:
    schedule = Schedule(*row)
    return replace(schedule, enabled=bool(schedule.enabled))


def _not_found(schedule: str) -> NotFound:
    return NotFound(f"There is no schedule {schedule}. `tinyagi schedule list` shows them all.")
