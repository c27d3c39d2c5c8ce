"""Schedules: edited by people, and sent for each due time once, also by several processes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tinyagi.domain.errors import Conflict, InvalidInput, NotFound
from tinyagi.domain.messages import Message, NewMessage
from tinyagi.domain.schedules import NewSchedule, Schedule, ScheduleFields, ScheduleId, check, with_fields
from tinyagi.store.sqlite.operations.enqueue import EnqueueRequest, enqueue
from tinyagi.store.sqlite.transaction import Transaction


@dataclass(frozen=True, slots=True)
class AddSchedule:
    new: NewSchedule
    next_at: int | None


@dataclass(frozen=True, slots=True)
class ChangeSchedule:
    schedule: ScheduleId
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


def delete_schedules(tx: Transaction, schedules: Sequence[ScheduleId]) -> list[None]:
    for schedule in schedules:
        if not tx.change("delete_schedule", (schedule,)):
            raise no_schedule(schedule)
    return [None] * len(schedules)


def fire(tx: Transaction, requests: Sequence[FireRequest]) -> list[Message | None]:
    """Returns the message of each that was first to send for its due time."""
    return [_fire(tx, request) for request in requests]


def schedule_of(row: tuple[Any, ...]) -> Schedule:
    schedule = Schedule(*row)
    return replace(schedule, enabled=bool(schedule.enabled))


def no_schedule(schedule: ScheduleId) -> NotFound:
    return NotFound(f"There is no schedule {schedule}. `tinyagi schedule list` shows which there are.")


def _add(tx: Transaction, new: NewSchedule, next_at: int | None) -> Schedule:
    _refuse_taken_label(tx, new.label)
    schedule = ScheduleId(tx.new_id("sched"))
    tx.connection.execute(tx.sql["insert_schedule"], (schedule, *_columns(new), next_at, tx.now))
    return _find(tx, schedule)


def _change(tx: Transaction, request: ChangeSchedule) -> Schedule:
    before = _find(tx, request.schedule)
    after = with_fields(before, request.fields)
    check(after)
    _refuse_taken_label(tx, after.label, after.id)
    row = (after.id, *_columns(after), request.next_at(before, after), tx.now)
    tx.connection.execute(tx.sql["update_schedule"], row)
    return _find(tx, after.id)


def _fire(tx: Transaction, request: FireRequest) -> Message | None:
    row = tx.connection.execute(tx.sql["schedule"], (request.schedule,)).fetchone()
    schedule = None if row is None else schedule_of(row)
    if schedule is None or not schedule.enabled or schedule.next_at != request.due_at:
        return None
    message, next_at = request.message(schedule), request.next_at(schedule)
    if next_at is not None and next_at <= request.due_at:
        raise InvalidInput(f"Schedule {schedule.label} cannot go on to a due time that is past.")
    if message is None:
        tx.connection.execute(tx.sql["advance_schedule"], (schedule.id, schedule.last_at, next_at))
        return None
    message.check()
    tx.connection.execute(tx.sql["advance_schedule"], (schedule.id, request.due_at, next_at))
    ((sent,),) = enqueue(tx, [EnqueueRequest((message,))])
    return sent


def _columns(schedule: NewSchedule | Schedule) -> tuple[object, ...]:
    """What people say of it, in the order of the statements."""
    what = (schedule.label, schedule.agent_id, schedule.message, schedule.cron, schedule.run_at)
    return (*what, schedule.channel, schedule.sender, schedule.enabled, schedule.timezone)


def _refuse_taken_label(tx: Transaction, label: str, schedule: str = "") -> None:
    if tx.connection.execute(tx.sql["label_in_use"], (label, schedule)).fetchone():
        raise Conflict(f"There is a schedule {label} already. Choose another label, or change that one.")


def _find(tx: Transaction, schedule: ScheduleId) -> Schedule:
    row = tx.connection.execute(tx.sql["schedule"], (schedule,)).fetchone()
    if row is None:
        raise no_schedule(schedule)
    return schedule_of(row)
