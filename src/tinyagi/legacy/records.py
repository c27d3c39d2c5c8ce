"""Plans the import of records: schedules, paired people, and the board with its projects, tasks and comments.

Records that a crashed import stored but did not list are planned again; the store leaves them unchanged.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from tinyagi.domain.board import (
    NO_PROJECT_PREFIX,
    AssigneeType,
    Comment,
    CommentId,
    Project,
    ProjectId,
    ProjectStatus,
    Task,
    TaskId,
    TaskStatus,
    prefix_from,
    prefixes_for,
)
from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.ids import AgentId
from tinyagi.domain.pairing import PairedSender
from tinyagi.domain.schedules import NewSchedule, Schedule
from tinyagi.engine.schedules import check_schedule, next_due
from tinyagi.legacy import old_records
from tinyagi.legacy.old_database import open_old
from tinyagi.legacy.old_home import OldHome
from tinyagi.legacy.old_records import OldComment, OldProject, OldRow, OldTask
from tinyagi.legacy.plan import ImportLedger, PlanPart, Skipped
from tinyagi.settings.model import Settings

_STATUSES: Final = frozenset(status.value for status in TaskStatus)


@dataclass(frozen=True, slots=True)
class HomeRecords:
    """The records that the new home already has."""

    projects: tuple[Project, ...] = ()
    tasks: tuple[Task, ...] = ()
    schedules: tuple[Schedule, ...] = ()
    approved: tuple[PairedSender, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.projects or self.tasks or self.schedules or self.approved)


def plan_schedules(
    old: OldHome, settings: Settings, state: HomeRecords, ledger: ImportLedger, now: int
) -> tuple[tuple[NewSchedule, ...], PlanPart]:
    found = old.records("schedules.json")
    if isinstance(found, Mapping) and isinstance(found.get("schedules"), list):
        found = found["schedules"]
    stored = {schedule.label: schedule for schedule in state.schedules}
    chosen: dict[str, NewSchedule] = {}
    seen: set[str] = set()
    left: list[Skipped] = []
    for place, row in old_records.objects(found):
        schedule = "it is not an object" if row is None else _schedule(row, settings, now)
        if isinstance(schedule, str):
            name = old_records.text(row, "label") if row else ""
            left.append(Skipped(name or place, schedule))
        elif schedule.label in seen:
            left.append(Skipped(schedule.label, "its label occurs twice; the first one counts"))
        else:
            seen.add(schedule.label)
            left += _remarks(schedule, row or {}, stored, ledger)
            if schedule.label not in ledger.taken("schedules") and _is_like(schedule, stored.get(schedule.label)):
                chosen[schedule.label] = schedule
    new = tuple(label for label in chosen if label not in stored)
    return tuple(chosen.values()), PlanPart("schedules", len(new), len(seen) - len(new), tuple(left), new)


def _remarks(new: NewSchedule, row: OldRow, stored: Mapping[str, Schedule], ledger: ImportLedger) -> list[Skipped]:
    if new.label in ledger.taken("schedules"):
        return []
    there = stored.get(new.label)
    if not _is_like(new, there):
        return [Skipped(new.label, "the new home has another schedule with this label")]
    if there is None and not new.enabled and old_records.flag(row, "enabled", default=True):
        return [Skipped(new.label, "its time has passed: it is imported disabled")]
    return []


def _is_like(new: NewSchedule, there: Schedule | None) -> bool:
    """True when the home has no schedule with this label, or the same one."""
    return there is None or (there.agent_id, there.message, there.cron) == (new.agent_id, new.message, new.cron)


def _schedule(row: OldRow, settings: Settings, now: int) -> NewSchedule | str:
    """The schedule, or the problem in words."""
    agent = old_records.text(row, "agent_id") or old_records.text(row, "agent")
    if agent not in settings.agents and agent not in settings.teams:
        return f"there is no agent @{agent}"
    cron = old_records.text(row, "cron") or None
    new = NewSchedule(
        label=old_records.text(row, "label") or old_records.text(row, "id"),
        agent_id=AgentId(agent),
        message=old_records.text(row, "message"),
        cron=cron,
        run_at=None if cron else old_records.milliseconds(row, "run_at"),
        channel=old_records.text(row, "channel") or "schedule",
        sender=old_records.text(row, "sender") or "Scheduler",
        sender_id=old_records.text(row, "sender_id") or None,
        enabled=old_records.flag(row, "enabled", default=True),
        timezone=old_records.text(row, "timezone") or None,
    )
    try:
        check_schedule(new)
        if new.enabled and next_due(new, now) is None:
            # The original dropped missed instants; sending one now, long after, would surprise people.
            return replace(new, enabled=False)
    except InvalidInput as error:
        return str(error).rstrip(".")
    return new


def plan_pairing(
    old: OldHome, state: HomeRecords, ledger: ImportLedger, now: int
) -> tuple[tuple[PairedSender, ...], PlanPart]:
    found = old.records("pairing.json")
    raw: Mapping[str, object] = found if isinstance(found, Mapping) else {}
    stored = {key_of(person) for person in state.approved}
    chosen: dict[str, PairedSender] = {}
    seen: set[str] = set()
    left: list[Skipped] = []
    for place, row in old_records.objects(raw.get("approved")):
        person = None if row is None else _person(row, now)
        if person is None:
            left.append(Skipped(f"approved, {place}", "it has no channel or no sender id"))
        elif key_of(person) in seen:
            left.append(Skipped(key_of(person), "the person occurs twice; the first entry counts"))
        else:
            seen.add(key_of(person))
            if key_of(person) not in ledger.taken("pairings"):
                chosen[key_of(person)] = person
    for place, row in old_records.objects(raw.get("pending")):
        name = old_records.text(row or {}, "sender") or place
        left.append(Skipped(f"pending, {name}", "codes are short-lived: the sender's next message gets a new one"))
    new = tuple(key for key in chosen if key not in stored)
    return tuple(chosen.values()), PlanPart("pairings", len(new), len(seen) - len(new), tuple(left), new)


def key_of(person: PairedSender) -> str:
    return f"{person.channel} {person.sender_id}"


def _person(row: OldRow, now: int) -> PairedSender | None:
    channel, sender_id = old_records.text(row, "channel").lower(), old_records.text(row, "sender_id")
    if not channel or not sender_id:
        return None
    return PairedSender(
        channel=channel,
        sender_id=sender_id,
        sender=old_records.text(row, "sender") or sender_id,
        approved_at=old_records.milliseconds(row, "approved_at") or now,
        approved_code=old_records.text(row, "approved_code") or None,
    )


@dataclass(frozen=True, slots=True)
class BoardPlan:
    projects: tuple[Project, ...]
    tasks: tuple[Task, ...]
    comments: tuple[Comment, ...]
    parts: tuple[PlanPart, ...]


def plan_board(old: OldHome, settings: Settings, state: HomeRecords, ledger: ImportLedger, now: int) -> BoardPlan:
    found = _rows(old)
    names = FreeNames(state)
    projects, projects_part = _projects(found["projects"], state, ledger, names, now)
    known = {one.id: one for one in (*state.projects, *projects)}
    tasks, tasks_part = _tasks(found["tasks"], known, settings, state, ledger, names, now)
    on_board = {one.id for one in (*state.tasks, *tasks)}
    comments, comments_part = _comments(found["comments"], on_board, ledger, now)
    return BoardPlan(projects, tasks, comments, (projects_part, tasks_part, comments_part))


def _rows(old: OldHome) -> dict[str, object]:
    """The rows of `tasks.db`, else of the JSON files; the version that introduced `tasks.db` imported those files."""
    found: dict[str, object] = {"projects": [], "tasks": [], "comments": []}
    if old.board is not None:
        with open_old(old.board) as database:
            found = {table: database.rows(table) for table in found}
    for table in ("projects", "tasks"):
        found[table] = found[table] or old.records(f"{table}.json") or []
    return found


class FreeNames:
    """Hands out free prefixes and task numbers of a board."""

    def __init__(self, state: HomeRecords) -> None:
        self._prefixes = {NO_PROJECT_PREFIX, *(project.prefix for project in state.projects)}
        self._identifiers = {task.identifier for task in state.tasks}

    def prefix(self, old: OldProject) -> str:
        """The old prefix if it is free, else one derived from the name."""
        wanted = chain(_chosen(old), prefixes_for(old.name))
        prefix = next(one for one in wanted if one not in self._prefixes)
        self._prefixes.add(prefix)
        return prefix

    def number(self, prefix: str, old: int) -> int:
        """The old number, or 0 when it is missing or taken; the store then assigns the next one."""
        identifier = f"{prefix}-{old}"
        if not old or identifier in self._identifiers:
            return 0
        self._identifiers.add(identifier)
        return old


def _projects(
    found: object, state: HomeRecords, ledger: ImportLedger, names: FreeNames, now: int
) -> tuple[tuple[Project, ...], PlanPart]:
    projects, left = old_records.parse_rows(found, old_records.project, "projects")
    stored = {str(one.id): one for one in state.projects}
    planned = []
    for old in projects:
        if old.id in ledger.taken("projects"):
            continue
        project = stored.get(old.id) or _project(old, names, now)
        if old.id not in stored and old.prefix not in {None, project.prefix}:
            left.append(Skipped(old.name, f"its prefix {old.prefix} is taken or not valid: it gets {project.prefix}"))
        planned.append(project)
    taken = sum(one.id not in stored for one in planned)
    return tuple(planned), PlanPart("projects", taken, len(projects) - taken, tuple(left))


def _tasks(
    found: object,
    projects: Mapping[ProjectId, Project],
    settings: Settings,
    state: HomeRecords,
    ledger: ImportLedger,
    names: FreeNames,
    now: int,
) -> tuple[tuple[Task, ...], PlanPart]:
    tasks, left = old_records.parse_rows(found, old_records.task, "tasks")
    stored = {str(one.id): one for one in state.tasks}
    order = {one.id: (one.order, one.created_at or 0) for one in tasks}
    planned = []
    # Of two tasks with the same number, the older one keeps it.
    for old in sorted(tasks, key=lambda one: one.created_at or 0):
        if old.id in ledger.taken("tasks"):
            continue
        if old.id in stored:
            planned.append(stored[old.id])
            continue
        fitted, remarks = _fitted(old, projects, settings)
        task = _task(fitted, projects, names, now)
        if fitted.number and not task.number:
            remarks.append(Skipped(old.title, f"its number {fitted.number} is taken: it gets the next one"))
        left += remarks
        planned.append(task)
    planned.sort(key=lambda one: order[one.id])
    taken = sum(one.id not in stored for one in planned)
    return tuple(planned), PlanPart("tasks", taken, len(tasks) - taken, tuple(left))


def _comments(
    found: object, on_board: Collection[TaskId], ledger: ImportLedger, now: int
) -> tuple[tuple[Comment, ...], PlanPart]:
    comments, left = old_records.parse_rows(found, old_records.comment, "comments")
    new = [one for one in comments if one.id not in ledger.taken("comments")]
    planned = [_comment(one, now) for one in new if one.task_id in on_board]
    left += [Skipped(one.id, f"there is no task {one.task_id}") for one in new if one.task_id not in on_board]
    return tuple(planned), PlanPart("comments", len(planned), len(comments) - len(new), tuple(left))


def _fitted(task: OldTask, projects: Collection[str], settings: Settings) -> tuple[OldTask, list[Skipped]]:
    """The task without an unknown assignee, status or project; no task is skipped."""
    remarks = []
    assignees = {"agent": settings.agents, "team": settings.teams}.get(task.assignee_type, {})
    if task.assignee is not None and task.assignee not in assignees:
        remarks.append(Skipped(task.title, f"its assignee @{task.assignee} is not known: it is imported without one"))
        task = replace(task, assignee=None)
    if task.status not in _STATUSES:
        remarks.append(Skipped(task.title, f"its status {task.status!r} is not known: it goes to the backlog"))
        task = replace(task, status=TaskStatus.BACKLOG)
    if task.project_id is not None and task.project_id not in projects:
        remarks.append(Skipped(task.title, "its project is gone: it is imported without one"))
        task = replace(task, project_id=None, number=0)
    return task, remarks


def _project(old: OldProject, names: FreeNames, now: int) -> Project:
    created_at = old.created_at or now
    return Project(
        id=ProjectId(old.id),
        name=old.name,
        description=old.description,
        prefix=names.prefix(old),
        color=old.color,
        status=ProjectStatus.ARCHIVED if old.is_archived else ProjectStatus.ACTIVE,
        created_at=created_at,
        updated_at=old.updated_at or created_at,
    )


def _task(old: OldTask, projects: Mapping[ProjectId, Project], names: FreeNames, now: int) -> Task:
    project = None if old.project_id is None else projects[ProjectId(old.project_id)]
    prefix = NO_PROJECT_PREFIX if project is None else project.prefix
    number = names.number(prefix, old.number)
    created_at = old.created_at or now
    return Task(
        id=TaskId(old.id),
        number=number,
        identifier=f"{prefix}-{number}",
        title=old.title,
        description=old.description,
        status=TaskStatus(old.status),
        assignee=old.assignee,
        assignee_type=None if old.assignee is None else AssigneeType(old.assignee_type),
        project_id=None if project is None else project.id,
        position=0,
        created_at=created_at,
        updated_at=old.updated_at or created_at,
    )


def _comment(old: OldComment, now: int) -> Comment:
    return Comment(
        CommentId(old.id), TaskId(old.task_id), old.author, old.author_type, old.content, old.created_at or now
    )


def _chosen(old: OldProject) -> Iterator[str]:
    with suppress(InvalidInput):
        yield prefix_from(old.prefix or "")
