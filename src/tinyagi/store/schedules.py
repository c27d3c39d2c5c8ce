"""Schedules: people edit them, and each due time sends one message, even when several processes fire it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
        return await self._writer.write(add_schedules, AddSchedule(new, next_at))

    async def change(
        self, schedule: str, fields: ScheduleFields, *, next_at: Callable[[Schedule, Schedule], int | None]
    ) -> Schedule:
        """Change these fields of the schedule with this id or label; raise NotFound, Conflict or InvalidInput.

        `next_at` gets the schedule before and after the change and returns the instant at which it is due next.
        """
        return await self._writer.write(change_schedules, ChangeSchedule(schedule, fields, next_at))

    async def delete(self, schedule: str) -> None:
        """By id or label; raise NotFound."""
        await self._writer.write(delete_schedules, schedule)

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
        return await self._writer.write(fire, FireRequest(schedule, due_at, message, next_at))


@dataclass(frozen=True, slots=True)
class AddSchedule:
    new: NewSchedule
    next_at: int | None


@dataclass(frozen=True, slots=True)
class ChangeSchedule:
    schedule: str
    """Its id or label."""
    fields: ScheduleFields
    next_at: Callable[[Schedule, Schedule], int | None]


@dataclass(frozen=True, slots=True)
class FireRequest:
    schedule: ScheduleId
    due_at: int
    """The due time that the caller saw."""
    message: Callable[[Schedule], NewMessage | None]
    next_at: Callable[[Schedule], int | None]


def add_schedules(tx: Transaction, requests: Sequence[AddSchedule]) -> list[Schedule]:
    return [_add(tx, request.new, request.next_at) for request in requests]


def change_schedules(tx: Transaction, requests: Sequence[ChangeSchedule]) -> list[Schedule]:
    return [_change(tx, request) for request in requests]


def delete_schedules(tx: Transaction, schedules: Sequence[str]) -> list[None]:
    for schedule in schedules:
        tx.connection.execute(tx.sql["delete_schedule"], (_find(tx, schedule).id,))
    return [None] * len(schedules)


def fire(tx: Transaction, requests: Sequence[FireRequest]) -> list[Message | None]:
    """Returns the message of each request that was the first for its due time, else None."""
    return [_fire(tx, request) for request in requests]


def _add(tx: Transaction, new: NewSchedule, next_at: int | None) -> Schedule:
    _refuse_taken_label(tx, new.label)
    schedule = ScheduleId(tx.new_id("sched"))
    tx.connection.execute(tx.sql["insert_schedule"], (schedule, *_columns(new), next_at, tx.now))
    return _find(tx, schedule)


def _change(tx: Transaction, request: ChangeSchedule) -> Schedule:
    before = _find(tx, request.schedule)
    after = with_schedule_fields(before, request.fields)
    check(after)
    _refuse_taken_label(tx, after.label, after.id)
    row = (after.id, *_columns(after), request.next_at(before, after), tx.now)
    tx.connection.execute(tx.sql["update_schedule"], row)
    return _find(tx, after.id)


def _fire(tx: Transaction, request: FireRequest) -> Message | None:
    row = tx.connection.execute(tx.sql["schedule"], (request.schedule,)).fetchone()
    schedule = None if row is None else _schedule_from_row(row)
    if schedule is None or not schedule.enabled or schedule.next_at != request.due_at:
        return None
    message, next_at = request.message(schedule), request.next_at(schedule)
    if next_at is not None and next_at <= request.due_at:
        raise InvalidInput(f"Schedule {schedule.label} cannot advance to a due time in the past.")
    if message is None:
        tx.connection.execute(tx.sql["advance_schedule"], (schedule.id, schedule.last_at, next_at))
        return None
    message.check()
    tx.connection.execute(tx.sql["advance_schedule"], (schedule.id, request.due_at, next_at))
    ((sent,),) = enqueue(tx, [EnqueueRequest((message,))])
    return sent


def _columns(schedule: NewSchedule | Schedule) -> tuple[object, ...]:
    """The fields that people set, in the order of the statements."""
    what = (schedule.label, schedule.agent_id, schedule.message, schedule.cron, schedule.run_at)
    return (*what, schedule.channel, schedule.sender, schedule.enabled, schedule.timezone)


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
