"""Schedules: checks them, computes when each is due next in its time zone, and sends the due ones."""

import logging
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from typing import Final, Unpack
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from tinyagi.domain.errors import DuplicateMessage, InvalidInput
from tinyagi.domain.ids import is_valid_id
from tinyagi.domain.instants import millis
from tinyagi.domain.messages import PLATFORM_CHANNELS, RESERVED_CHANNELS, NewMessage
from tinyagi.domain.schedules import CHANNEL, NewSchedule, Schedule, ScheduleFields
from tinyagi.domain.texts import check_key, check_text, one_line
from tinyagi.engine.background import wait_until
from tinyagi.engine.inbox import Inbox, Incoming, route_to
from tinyagi.settings.effective import EffectiveSettingsCache
from tinyagi.settings.errors import SettingsError
from tinyagi.store.schedules import ScheduleStore
from tinyagi.store.store import Store
from tinyagi.system.clock import wall_clock

GRACE: Final = timedelta(minutes=1)
"""How far in the past a new single instant may be: a request for "now" takes a moment to arrive."""

log = logging.getLogger(__name__)
LONGEST_CRON: Final = 200
LONGEST_LABEL: Final = 200
LATEST: Final = 253_402_300_799_999
"""The last instant of the year 9999."""
_FIELDS: Final = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31, and a day that the month has",
    "month": "1 to 12 or JAN to DEC",
    "day-of-week": "0 to 7 or SUN to SAT",
}


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
        _check_channel(new)
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
        if (after.channel, after.sender_id) != (before.channel, before.sender_id):
            _check_channel(after)
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


def _check_channel(schedule: NewSchedule | Schedule) -> None:
    channel = schedule.channel
    if channel in PLATFORM_CHANNELS and not schedule.sender_id:
        raise InvalidInput(
            f"A schedule on {channel} needs a senderId, the chat that gets the answers: "
            "`tinyagi pairing approved` lists the people who are paired."
        )
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
                # Without a chat each schedule has its own thread, so a failing one does not delay the others.
                sender_id=schedule.id if schedule.channel == CHANNEL else schedule.sender_id,
                message_id=f"schedule_{schedule.id.removeprefix('schedule_')}_{due}",
            )
        )


def check_schedule(new: NewSchedule | Schedule) -> None:
    """Raise InvalidInput with a sentence that says what to change, unless the schedule is valid."""
    if not new.label.strip() or len(new.label) > LONGEST_LABEL:
        raise InvalidInput(f"A schedule needs a label of 1 to {LONGEST_LABEL} characters.")
    if not new.message.strip():
        raise InvalidInput("A schedule needs a message: the agent gets nothing else when it is due.")
    if not new.sender.strip():
        raise InvalidInput("A schedule needs a sender.")
    if not is_valid_id(new.channel):
        raise InvalidInput(f"{new.channel!r} is not a channel name: use lowercase letters, digits, - and _.")
    check_text(f"{new.label}{new.message}{new.sender}{new.agent_id}")
    check_key("label", new.label)
    check_key("sender", new.sender)
    check_key("senderId", new.sender_id or "")
    if (new.cron is None) == (new.run_at is None):
        raise InvalidInput("A schedule needs either cron, to repeat, or runAt, to run once; not both.")
    if new.run_at is not None and not 0 < new.run_at <= LATEST:
        raise InvalidInput("runAt is not an instant: use milliseconds since 1970 or a date with its offset.")
    zone = _zone(new.timezone)
    if new.cron is not None and _next_match(new.cron, zone, 0) is None:
        raise InvalidInput(f"The cron expression {new.cron!r} never matches: check its day and its month.")


def next_due(schedule: NewSchedule | Schedule, after: int) -> int | None:
    """The first due instant after `after`, or None when there is none; raise InvalidInput for a bad expression."""
    if schedule.cron is not None:
        return _next_match(schedule.cron, _zone(schedule.timezone), after)
    return schedule.run_at if schedule.run_at is not None and schedule.run_at > after else None


def _next_match(cron: str, zone: tzinfo, after: int) -> int | None:
    start = datetime.fromtimestamp(after / 1000, UTC).astimezone(zone)
    # In an hour that occurs twice, a time of day matches the first occurrence, which may be in the past.
    instants = (int(match.timestamp()) * 1000 for match in _matches(cron, start))
    return next((instant for instant in instants if instant > after), None)


def _matches(cron: str, start: datetime) -> CronSim:
    if len(cron) > LONGEST_CRON:
        raise InvalidInput(f"A cron expression has at most {LONGEST_CRON} characters, this one has {len(cron)}.")
    count = len(cron.split())
    if count != len(_FIELDS):
        raise InvalidInput(
            f"A cron expression has five fields (minute, hour, day of month, month, day of week); {cron!r} has {count}."
        )
    try:
        return CronSim(cron, start)
    except CronSimError as error:
        field = str(error).removeprefix("Bad ")
        allowed = _FIELDS.get(field, "five fields")
        raise InvalidInput(f"The cron expression {cron!r} is wrong in its {field}: it takes {allowed}.") from error


def _zone(name: str | None) -> tzinfo:
    if name is None:
        return _LocalZone()
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise InvalidInput(f"There is no time zone {name[:80]!r}: use a name like Europe/Berlin or UTC.") from error


class _LocalZone(tzinfo):
    """The machine's time zone with its rules: a fixed offset would be wrong after the next clock change."""

    def utcoffset(self, at: datetime | None) -> timedelta | None:
        return None if at is None else at.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, _: datetime | None) -> timedelta | None:
        return None

    def tzname(self, at: datetime | None) -> str | None:
        return None if at is None else at.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, at: datetime) -> datetime:
        offset = at.replace(tzinfo=UTC).astimezone().utcoffset() or timedelta()
        local = (at + offset).replace(tzinfo=self)
        # In an hour that occurs twice, the fold marks the second occurrence.
        return local if local.utcoffset() == offset else local.replace(fold=1)
