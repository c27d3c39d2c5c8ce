"""Sends the messages of schedules when they are due: each due time once, whichever process is first."""

import logging
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Final

from tinyagi.domain.errors import DuplicateMessage, InvalidInput
from tinyagi.domain.messages import NewMessage
from tinyagi.domain.schedules import Schedule
from tinyagi.domain.texts import one_line
from tinyagi.engine.inbox import Inbox, Incoming
from tinyagi.engine.timetable import next_due
from tinyagi.engine.waiting import until
from tinyagi.settings.errors import SettingsError
from tinyagi.store.base import Store
from tinyagi.store.clock import wall_clock

log = logging.getLogger(__name__)

OWN_CHANNEL: Final = "schedule"


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
            await until(due, self._clock(), self._store.changes.beyond(seen))

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
                sender_id=schedule.id if schedule.channel == OWN_CHANNEL else None,
                message_id=f"schedule_{schedule.id.removeprefix('schedule_')}_{due}",
            )
        )
