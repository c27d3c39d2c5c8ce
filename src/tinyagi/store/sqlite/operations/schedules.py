"""Schedules: edited by people, and sent for each due time once, whoever else is there to send."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tinyagi.domain.errors import Conflict, NotFound
from tinyagi.domain.messages import Message, NewMessage
from tinyagi.domain.schedules import NewSchedule, Schedule, ScheduleId
from tinyagi.store.sqlite.operations.enqueue import EnqueueRequest, enqueue
from tinyagi.store.sqlite.transaction import Transaction


@dataclass(frozen=True, slots=True)
class AddSchedule:
    new: NewSchedule
    next_at: int | None


@dataclass(frozen=True, slots=True)
class FireRequest:
    schedule: ScheduleId
    due_at: int | None
    """The due time that the caller saw."""
    message: NewMessage
    next_at: int | None


def add_schedules(tx: Transaction, requests: Sequence[AddSchedule]) -> list[Schedule]:
    return [_add(tx, request.new, request.next_at) for request in requests]


def replace_schedules(tx: Transaction, requests: Sequence[Schedule]) -> list[Schedule]:
    return [_replace(tx, schedule) for schedule in requests]


def delete_schedules(tx: Transaction, schedules: Sequence[ScheduleId]) -> list[None]:
    for schedule in schedules:
        if not tx.change("delete_schedule", (schedule,)):
            raise no_schedule(schedule)
    return [None] * len(schedules)


def fire(tx: Transaction, requests: Sequence[FireRequest]) -> list[Message | None]:
    """Returns the message of each that was first to send for its due time."""
    is_first = [tx.change("advance_schedule", (one.schedule, one.due_at, one.next_at)) for one in requests]
    sending = [EnqueueRequest((one.message,)) for one, first in zip(requests, is_first, strict=True) if first]
    sent = iter(enqueue(tx, sending) if sending else [])
    return [next(sent)[0] if first else None for first in is_first]


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


def _replace(tx: Transaction, schedule: Schedule) -> Schedule:
    _find(tx, schedule.id)
    _refuse_taken_label(tx, schedule.label, schedule.id)
    row = (schedule.id, *_columns(schedule), schedule.next_at, tx.now)
    tx.connection.execute(tx.sql["update_schedule"], row)
    return _find(tx, schedule.id)


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
