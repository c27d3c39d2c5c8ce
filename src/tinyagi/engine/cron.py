"""When a schedule is due: cron expressions and single instants, each in its time zone. Pure: no store, no clock."""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.ids import is_valid_id
from tinyagi.domain.schedules import NewSchedule, Schedule
from tinyagi.domain.texts import check_key, check_text

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
