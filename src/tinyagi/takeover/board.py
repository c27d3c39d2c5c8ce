"""The old board: projects, tasks and comments, from `tasks.db` or from the JSON files of earlier versions.

What a takeover that died has stored and not noted is planned once more: the store leaves it as it is.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
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
)
from tinyagi.settings.model import Settings
from tinyagi.takeover import rows
from tinyagi.takeover.databases import opened
from tinyagi.takeover.ledger import Ledger
from tinyagi.takeover.names import Names
from tinyagi.takeover.original import OldHome
from tinyagi.takeover.parts import Part, Skipped
from tinyagi.takeover.rows import OldComment, OldProject, OldTask
from tinyagi.takeover.state import State

_STATUSES: Final = frozenset(status.value for status in TaskStatus)


@dataclass(frozen=True, slots=True)
class BoardPlan:
    projects: tuple[Project, ...]
    tasks: tuple[Task, ...]
    comments: tuple[Comment, ...]
    parts: tuple[Part, ...]


def plan_board(old: OldHome, settings: Settings, state: State, ledger: Ledger, now: int) -> BoardPlan:
    found = _rows(old)
    names = Names(state)
    projects, projects_part = _projects(found["projects"], state, ledger, names, now)
    known = {one.id: one for one in (*state.projects, *projects)}
    tasks, tasks_part = _tasks(found["tasks"], known, settings, state, ledger, names, now)
    on_board = {one.id for one in (*state.tasks, *tasks)}
    comments, comments_part = _comments(found["comments"], on_board, ledger, now)
    return BoardPlan(projects, tasks, comments, (projects_part, tasks_part, comments_part))


def _rows(old: OldHome) -> dict[str, object]:
    """`tasks.db` where there is one: its first user took the JSON files into it."""
    found: dict[str, object] = {"projects": [], "tasks": [], "comments": []}
    if old.board is not None:
        with opened(old.board) as database:
            found = {table: database.rows(table) for table in found}
    for table in ("projects", "tasks"):
        found[table] = found[table] or old.records(f"{table}.json") or []
    return found


def _projects(found: object, state: State, ledger: Ledger, names: Names, now: int) -> tuple[tuple[Project, ...], Part]:
    projects, left = rows.understood(found, rows.project, "projects")
    stored = {str(one.id): one for one in state.projects}
    planned = []
    for old in projects:
        if old.id in ledger.taken("projects"):
            continue
        project = stored.get(old.id) or _project(old, names, now)
        if old.id not in stored and old.prefix not in {None, project.prefix}:
            left.append(Skipped(old.name, f"its prefix {old.prefix} is taken or none: it gets {project.prefix}"))
        planned.append(project)
    taken = sum(one.id not in stored for one in planned)
    return tuple(planned), Part("projects", taken, len(projects) - taken, tuple(left))


def _tasks(
    found: object,
    projects: Mapping[ProjectId, Project],
    settings: Settings,
    state: State,
    ledger: Ledger,
    names: Names,
    now: int,
) -> tuple[tuple[Task, ...], Part]:
    tasks, left = rows.understood(found, rows.task, "tasks")
    stored = {str(one.id): one for one in state.tasks}
    order = {one.id: (one.order, one.created_at or 0) for one in tasks}
    planned = []
    # Of two that have the same number the older one keeps it.
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
    return tuple(planned), Part("tasks", taken, len(tasks) - taken, tuple(left))


def _comments(
    found: object, on_board: Collection[TaskId], ledger: Ledger, now: int
) -> tuple[tuple[Comment, ...], Part]:
    comments, left = rows.understood(found, rows.comment, "comments")
    new = [one for one in comments if one.id not in ledger.taken("comments")]
    planned = [_comment(one, now) for one in new if one.task_id in on_board]
    left += [Skipped(one.id, f"there is no task {one.task_id}") for one in new if one.task_id not in on_board]
    return tuple(planned), Part("comments", len(planned), len(comments) - len(new), tuple(left))


def _fitted(task: OldTask, projects: Collection[str], settings: Settings) -> tuple[OldTask, list[Skipped]]:
    """Every task comes along, without what leads nowhere."""
    remarks = []
    whom = {"agent": settings.agents, "team": settings.teams}.get(task.assignee_type, {})
    if task.assignee is not None and task.assignee not in whom:
        remarks.append(Skipped(task.title, f"its assignee @{task.assignee} is not known: it comes without one"))
        task = replace(task, assignee=None)
    if task.status not in _STATUSES:
        remarks.append(Skipped(task.title, f"its status {task.status!r} is not known: it comes into the backlog"))
        task = replace(task, status=TaskStatus.BACKLOG)
    if task.project_id is not None and task.project_id not in projects:
        remarks.append(Skipped(task.title, "its project is gone: it comes without one"))
        task = replace(task, project_id=None, number=0)
    return task, remarks


def _project(old: OldProject, names: Names, now: int) -> Project:
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


def _task(old: OldTask, projects: Mapping[ProjectId, Project], names: Names, now: int) -> Task:
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
