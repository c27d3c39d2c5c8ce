"""Schedules as people and agents make and change them: checked, with the instant at which each is due next."""

import logging
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, Unpack

from tinyagi.domain.errors import DuplicateMessage, InvalidInput
from tinyagi.domain.instants import millis
from tinyagi.domain.messages import RESERVED_CHANNELS, NewMessage
from tinyagi.domain.schedules import CHANNEL, NewSchedule, Schedule, ScheduleFields
from tinyagi.domain.texts import one_line
from tinyagi.engine.background import wait_until
from tinyagi.engine.cron import check_schedule, next_due
from tinyagi.engine.inbox import Inbox, Incoming, route_to
from tinyagi.settings.effective import EffectiveSettingsCache
from tinyagi.settings.errors import SettingsError
from tinyagi.store.schedules import ScheduleStore
from tinyagi.store.store import Store
from tinyagi.system.clock import wall_clock

GRACE: Final = timedelta(minutes=1)
"""How far in the past a new single instant may be: a request for "now" takes a moment to arrive."""

log = logging.getLogger(__name__)


class ScheduleEditor:
    """The schedules of a home. `Scheduler` sends them."""

    def __init__(
        self, schedules: ScheduleStore, effective: EffectiveSettingsCache, clock: Callable[[], int] = wall_clock
    ) -> None:
        self._schedules = schedules
        self._effective = effective
        self._clock = clock

    async def all(self) -> tuple[Schedule, ...]:
        """Oldest first."""
        return await self._schedules.all()

    async def add(self, new: NewSchedule) -> Schedule:
        """Raise InvalidInput for what cannot be a schedule, and Conflict when its label is taken."""
        check_schedule(new)
        _check_channel(new.channel)
        self._check_target(new.agent_id)
        return await self._schedules.add(new, next_at=self._next_at(new, grace=GRACE))

    async def change(self, schedule: str, **fields: Unpack[ScheduleFields]) -> Schedule:
        """Change some fields by id or label; a new time counts from now. Raise InvalidInput, NotFound or Conflict."""
        return await self._schedules.change(schedule, fields, next_at=self._checked_next_at)

    async def remove(self, schedule: str) -> None:
        """By id or label; raise NotFound."""
        await self._schedules.delete(schedule)

    def _checked_next_at(self, before: Schedule, after: Schedule) -> int | None:
        check_schedule(after)
        if after.channel != before.channel:
            _check_channel(after.channel)
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
        route_to(name, "", self._effective.current.roster)


def _check_channel(channel: str) -> None:
    if channel in RESERVED_CHANNELS and channel != CHANNEL:
        raise InvalidInput(
            f"Channel {channel!r} is reserved for TinyAGI's own messages, whose answers go to no chat. "
            f"Use the channel that the answer is to go to, or {CHANNEL}."
        )


def _timing(schedule: Schedule) -> tuple[object, ...]:
    return schedule.cron, schedule.run_at, schedule.timezone, schedule.enabled


class Scheduler:
    """Goes by the wall clock, as people do. What was missed is sent once, however often it would have been due."""

    def __init__(self, store: Store, inbox: Inbox, clock: Callable[[], int] = wall_clock) -> None:
        self._store = store
        self._schedules = store.schedules
        self._inbox = inbox
        self._clock = clock

    async def keep_sending(self) -> AsyncGenerator[None, None]:
        """Send what becomes due, for ever; an edit of the schedules, here or by another process, is seen at once."""
        while True:
            seen = self._store.changes.version
            due = await self.look()
            yield
            await wait_until(due, self._clock(), self._store.changes.beyond(seen))

    async def look(self) -> int | None:
        """Send what is due by now, and return when the next one is."""
        for schedule in await self._schedules.due(self._clock()):
            if schedule.next_at is not None:
                await self._send(schedule, schedule.next_at)
        return await self._schedules.next_due_at()

    async def _send(self, schedule: Schedule, due: int) -> None:
        try:
            sent = await self._schedules.fire(
                schedule.id, due, message=partial(self._message, due=due), next_at=partial(self._next_after, due=due)
            )
        except DuplicateMessage:
            # It was sent for this instant before, and an edit has set it back since.
            await self._pass_over(schedule, due)
        except (InvalidInput, SettingsError) as error:
            log.warning("schedule %s was due and could not be sent: %s", one_line(schedule.label), error)
            await self._pass_over(schedule, due)
        else:
            if sent is not None:
                log.info("schedule %s was due: sent %s", one_line(schedule.label), sent.message_id)

    async def _pass_over(self, schedule: Schedule, due: int) -> None:
        def next_at(stored: Schedule) -> int | None:
            try:
                return self._next_after(stored, due)
            except InvalidInput:
                # Its time cannot be read, so it is never due: disabled, it stays to be seen.
                return None

        await self._schedules.fire(schedule.id, due, message=lambda _: None, next_at=next_at)

    def _next_after(self, schedule: Schedule, due: int) -> int | None:
        # A clock that was set back since must not make the same instant due again.
        return next_due(schedule, max(due, self._clock()))

    def _message(self, schedule: Schedule, due: int) -> NewMessage:
        return self._inbox.addressed(
            Incoming(
                message=schedule.message,
                agent=schedule.agent_id,
                channel=schedule.channel,
                sender=schedule.sender,
                # Each schedule is a thread of its own: one that fails holds back no other.
                sender_id=schedule.id if schedule.channel == CHANNEL else None,
                message_id=f"schedule_{schedule.id.removeprefix('schedule_')}_{due}",
            )
        )
