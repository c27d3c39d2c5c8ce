"""Schedules: checks changes by people and agents, computes when each is due next, and sends those that are due."""

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
        """Raise InvalidInput for an invalid schedule, and Conflict when its label is taken."""
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
        # A change of the text keeps the due time: a schedule that is due right now must still be sent.
        if _timing(after) == _timing(before):
            return before.next_at
        return self._next_at(after, grace=timedelta() if after.run_at == before.run_at else GRACE, beyond=after.last_at)

    def _next_at(self, schedule: NewSchedule | Schedule, *, grace: timedelta, beyond: int | None = None) -> int | None:
        """The next due time, always after `beyond`, the last one that was sent: the clock may have been set back."""
        if not schedule.enabled:
            return None
        now = self._clock()
        due = next_due(schedule, max(beyond or 0, now if schedule.run_at is None else now - millis(grace)))
        if due is None:
            # This is a single instant: `check_schedule` refuses a cron expression that never matches.
            at = datetime.fromtimestamp((schedule.run_at or 0) / 1000, UTC)
            raise InvalidInput(f"runAt is {at:%Y-%m-%dT%H:%M:%SZ}, which is in the past: choose a later instant.")
        return due

    def _check_target(self, name: str) -> None:
        route_to(name, "", self._effective.current.roster)


def _check_channel(channel: str) -> None:
    if channel in RESERVED_CHANNELS and channel != CHANNEL:
        raise InvalidInput(
            f"Channel {channel!r} is reserved for TinyAGI's own messages, whose answers go to no chat. "
            f"Use the channel that should get the answer, or {CHANNEL}."
        )


def _timing(schedule: Schedule) -> tuple[object, ...]:
    return schedule.cron, schedule.run_at, schedule.timezone, schedule.enabled


class Scheduler:
    """Sends schedules by the wall clock. A schedule that missed several due times is sent once."""

    def __init__(self, store: Store, inbox: Inbox, clock: Callable[[], int] = wall_clock) -> None:
        self._store = store
        self._schedules = store.schedules
        self._inbox = inbox
        self._clock = clock

    async def keep_sending(self) -> AsyncGenerator[None, None]:
        """Send schedules as they become due, forever; an edit by this or another process counts at once."""
        while True:
            seen = self._store.changes.version
            due = await self.send_due()
            yield
            await wait_until(due, self._clock(), self._store.changes.beyond(seen))

    async def send_due(self) -> int | None:
        """Send each schedule that is due by now, and return when the next one is due."""
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
            # This instant was sent before, and a later edit made it due again.
            await self._skip(schedule, due)
        except (InvalidInput, SettingsError) as error:
            log.warning("schedule %s was due and could not be sent: %s", one_line(schedule.label), error)
            await self._skip(schedule, due)
        else:
            if sent is not None:
                log.info("schedule %s was due: sent %s", one_line(schedule.label), sent.message_id)

    async def _skip(self, schedule: Schedule, due: int) -> None:
        """Move on to the next due time without sending."""

        def next_at(stored: Schedule) -> int | None:
            try:
                return self._next_after(stored, due)
            except InvalidInput:
                # The stored time is invalid: disable the schedule, but keep it in the list.
                return None

        await self._schedules.fire(schedule.id, due, message=lambda _: None, next_at=next_at)

    def _next_after(self, schedule: Schedule, due: int) -> int | None:
        # If the clock was set back meanwhile, the same instant must not become due again.
        return next_due(schedule, max(due, self._clock()))

    def _message(self, schedule: Schedule, due: int) -> NewMessage:
        return self._inbox.addressed(
            Incoming(
                message=schedule.message,
                agent=schedule.agent_id,
                channel=schedule.channel,
                sender=schedule.sender,
                # Each schedule has its own thread, so a failing one does not delay the others.
                sender_id=schedule.id if schedule.channel == CHANNEL else None,
                message_id=f"schedule_{schedule.id.removeprefix('schedule_')}_{due}",
            )
        )
