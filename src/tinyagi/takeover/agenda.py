"""Old schedules and paired people."""

from collections.abc import Mapping
from dataclasses import replace

from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.ids import AgentId
from tinyagi.domain.pairing import PairedSender
from tinyagi.domain.schedules import NewSchedule, Schedule
from tinyagi.engine.timetable import check, next_due
from tinyagi.settings.model import Settings
from tinyagi.takeover import rows
from tinyagi.takeover.ledger import Ledger
from tinyagi.takeover.original import OldHome
from tinyagi.takeover.parts import Part, Skipped
from tinyagi.takeover.rows import Row
from tinyagi.takeover.state import State


def plan_schedules(
    old: OldHome, settings: Settings, state: State, ledger: Ledger, now: int
) -> tuple[tuple[NewSchedule, ...], Part]:
    found = old.records("schedules.json")
    if isinstance(found, Mapping) and isinstance(found.get("schedules"), list):
        found = found["schedules"]
    stored = {schedule.label: schedule for schedule in state.schedules}
    chosen: dict[str, NewSchedule] = {}
    seen: set[str] = set()
    left: list[Skipped] = []
    for place, row in rows.objects(found):
        schedule = "it is no object" if row is None else _schedule(row, settings, now)
        if isinstance(schedule, str):
            name = rows.text(row, "label") if row else ""
            left.append(Skipped(name or place, schedule))
        elif schedule.label in seen:
            left.append(Skipped(schedule.label, "its label is there twice; the first one counts"))
        else:
            seen.add(schedule.label)
            left += _remarks(schedule, row or {}, stored, ledger)
            if schedule.label not in ledger.taken("schedules") and _is_like(schedule, stored.get(schedule.label)):
                chosen[schedule.label] = schedule
    new = tuple(label for label in chosen if label not in stored)
    return tuple(chosen.values()), Part("schedules", len(new), len(seen) - len(new), tuple(left), new)


def _remarks(new: NewSchedule, row: Row, stored: Mapping[str, Schedule], ledger: Ledger) -> list[Skipped]:
    if new.label in ledger.taken("schedules"):
        return []
    there = stored.get(new.label)
    if not _is_like(new, there):
        return [Skipped(new.label, "the new home has another schedule of this label")]
    if there is None and not new.enabled and rows.flag(row, "enabled", default=True):
        return [Skipped(new.label, "its time is over: it comes along switched off")]
    return []


def _is_like(new: NewSchedule, there: Schedule | None) -> bool:
    """True when nothing is there, or what is there says the same."""
    return there is None or (there.agent_id, there.message, there.cron) == (new.agent_id, new.message, new.cron)


def _schedule(row: Row, settings: Settings, now: int) -> NewSchedule | str:
    """The schedule, or in words what is wrong with it."""
    agent = rows.text(row, "agent_id") or rows.text(row, "agent")
    if agent not in settings.agents and agent not in settings.teams:
        return f"there is no agent @{agent}"
    cron = rows.text(row, "cron") or None
    new = NewSchedule(
        label=rows.text(row, "label") or rows.text(row, "id"),
        agent_id=AgentId(agent),
        message=rows.text(row, "message"),
        cron=cron,
        run_at=None if cron else rows.instant(row, "run_at"),
        channel=rows.text(row, "channel") or "schedule",
        sender=rows.text(row, "sender") or "Scheduler",
        enabled=rows.flag(row, "enabled", default=True),
        timezone=rows.text(row, "timezone") or None,
    )
    try:
        check(new)
        if new.enabled and next_due(new, now) is None:
            # The original let a missed instant go; to send it now, long after, would surprise everybody.
            return replace(new, enabled=False)
    except InvalidInput as error:
        return str(error).rstrip(".")
    return new


def plan_pairing(old: OldHome, state: State, ledger: Ledger, now: int) -> tuple[tuple[PairedSender, ...], Part]:
    found = old.records("pairing.json")
    raw: Mapping[str, object] = found if isinstance(found, Mapping) else {}
    stored = {key_of(person) for person in state.approved}
    chosen: dict[str, PairedSender] = {}
    seen: set[str] = set()
    left: list[Skipped] = []
    for place, row in rows.objects(raw.get("approved")):
        person = None if row is None else _person(row, now)
        if person is None:
            left.append(Skipped(f"approved, {place}", "it names no channel or no person"))
        elif key_of(person) in seen:
            left.append(Skipped(key_of(person), "the person is there twice; the first entry counts"))
        else:
            seen.add(key_of(person))
            if key_of(person) not in ledger.taken("pairings"):
                chosen[key_of(person)] = person
    for place, row in rows.objects(raw.get("pending")):
        name = rows.text(row or {}, "sender") or place
        left.append(Skipped(f"pending, {name}", "codes are short-lived: who writes again gets a new one"))
    new = tuple(key for key in chosen if key not in stored)
    return tuple(chosen.values()), Part("pairings", len(new), len(seen) - len(new), tuple(left), new)


def key_of(person: PairedSender) -> str:
    return f"{person.channel} {person.sender_id}"


def _person(row: Row, now: int) -> PairedSender | None:
    channel, sender_id = rows.text(row, "channel").lower(), rows.text(row, "sender_id")
    if not channel or not sender_id:
        return None
    return PairedSender(
        channel=channel,
        sender_id=sender_id,
        sender=rows.text(row, "sender") or sender_id,
        approved_at=rows.instant(row, "approved_at") or now,
        approved_code=rows.text(row, "approved_code") or None,
    )
