"""Tasks of the board and their comments. A task that moves into progress sends its message in the same transaction."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tinyagi.domain.board import (
    NO_PROJECT_PREFIX,
    AssigneeType,
    Comment,
    CommentId,
    NewTask,
    Project,
    ProjectId,
    Task,
    TaskFields,
    TaskId,
    TaskStatus,
    with_fields,
)
from tinyagi.domain.errors import InvalidInput, NotFound
from tinyagi.store.records import Work
from tinyagi.store.sqlite.operations.enqueue import EnqueueRequest, enqueue
from tinyagi.store.sqlite.operations.projects import find_project
from tinyagi.store.sqlite.transaction import Transaction


@dataclass(frozen=True, slots=True)
class AddTask:
    new: NewTask
    work: Work | None


@dataclass(frozen=True, slots=True)
class ChangeTask:
    task: TaskId
    fields: TaskFields
    check: Callable[[Task], None] | None
    work: Work | None


@dataclass(frozen=True, slots=True)
class Reorder:
    columns: Mapping[TaskStatus, Sequence[TaskId]]
    work: Work | None


@dataclass(frozen=True, slots=True)
class AddComment:
    task: TaskId
    author: str
    author_type: str
    content: str


def add_tasks(tx: Transaction, requests: Sequence[AddTask]) -> list[Task]:
    tasks = []
    for request in requests:
        task = _add(tx, request.new)
        _send(tx, [(None, task)], request.work)
        tasks.append(task)
    return tasks


def change_tasks(tx: Transaction, requests: Sequence[ChangeTask]) -> list[Task]:
    tasks = []
    for request in requests:
        before, after = _change(tx, request)
        _send(tx, [(before, after)], request.work)
        tasks.append(after)
    return tasks


def reorder(tx: Transaction, requests: Sequence[Reorder]) -> list[tuple[Task, ...]]:
    """Returns for each all tasks of the board."""
    boards = []
    for request in requests:
        _send(tx, _arrange(tx, request.columns), request.work)
        boards.append(tuple(map(task_of, tx.connection.execute(tx.sql["tasks"], every_task()))))
    return boards


def delete_tasks(tx: Transaction, tasks: Sequence[TaskId]) -> list[None]:
    """The database itself takes their comments away."""
    for task in tasks:
        if not tx.change("delete_task", (task,)):
            raise no_task(task)
    return [None] * len(tasks)


def add_comments(tx: Transaction, requests: Sequence[AddComment]) -> list[Comment]:
    comments = []
    for request in requests:
        find_task(tx, request.task)
        comment = (tx.new_id("cmt"), request.task, request.author, request.author_type, request.content, tx.now)
        tx.connection.execute(tx.sql["insert_comment"], comment)
        comments.append(comment_of(comment))
    return comments


def delete_comments(tx: Transaction, comments: Sequence[CommentId]) -> list[None]:
    for comment in comments:
        if not tx.change("delete_comment", (comment,)):
            raise NotFound(f"There is no comment {comment}. List the comments of its task to see which there are.")
    return [None] * len(comments)


def find_task(tx: Transaction, task: TaskId) -> Task:
    row = tx.connection.execute(tx.sql["task"], (task,)).fetchone()
    if row is None:
        raise no_task(task)
    return task_of(row)


def end_of_column(tx: Transaction, status: TaskStatus) -> int:
    position: int = tx.connection.execute(tx.sql["end_of_column"], (status,)).get
    return position


def task_of(row: tuple[Any, ...]) -> Task:
    task = Task(*row)
    assignee_type = None if task.assignee_type is None else AssigneeType(task.assignee_type)
    return replace(task, status=TaskStatus(task.status), assignee_type=assignee_type)


def comment_of(row: tuple[Any, ...]) -> Comment:
    return Comment(*row)


def every_task(project: ProjectId | None = None, status: TaskStatus | None = None) -> dict[str, str | None]:
    """What the statement `tasks` is asked: all of them, or those of a project or column."""
    return {"project": project, "status": status}


def no_task(task: TaskId) -> NotFound:
    return NotFound(f"There is no task {task}. List the tasks to see which there are.")


def _add(tx: Transaction, new: NewTask) -> Task:
    prefix = NO_PROJECT_PREFIX if new.project_id is None else _project_of(tx, new.project_id).prefix
    number: int = tx.connection.execute(tx.sql["next_task_number"], (prefix,)).get
    row = (
        tx.new_id("task"),
        number,
        f"{prefix}-{number}",
        new.title,
        new.description,
        new.status,
        new.assignee,
        new.assignee_type,
        new.project_id,
        end_of_column(tx, new.status),
        tx.now,
        tx.now,
    )
    tx.connection.execute(tx.sql["insert_task"], row)
    return task_of(row)


def _project_of(tx: Transaction, project: ProjectId) -> Project:
    """The project that a task names; a wrong name is the caller's mistake, not a missing task."""
    try:
        return find_project(tx, project)
    except NotFound as error:
        raise InvalidInput(str(error)) from error


def _change(tx: Transaction, request: ChangeTask) -> tuple[Task, Task]:
    """The task as it was and as it is now. In another column it goes to the end."""
    before = find_task(tx, request.task)
    after = replace(with_fields(before, request.fields), updated_at=tx.now)
    if request.check is not None:
        request.check(after)
    if after.project_id is not None and after.project_id != before.project_id:
        _project_of(tx, after.project_id)
    if after.status != before.status:
        after = replace(after, position=end_of_column(tx, after.status))
    work = (after.status, after.assignee, after.assignee_type, after.project_id)
    row = (after.id, after.title, after.description, *work, after.position, tx.now)
    tx.connection.execute(tx.sql["update_task"], row)
    return before, after


def _arrange(tx: Transaction, columns: Mapping[TaskStatus, Sequence[TaskId]]) -> list[tuple[Task, Task]]:
    """Place the named tasks; what else stands in their columns comes after them, in its order."""
    named = [task for tasks in columns.values() for task in tasks]
    if len(named) != len(set(named)):
        raise InvalidInput("A task has one place on the board: name each one once.")
    moves = []
    for status, tasks in columns.items():
        before = [find_task(tx, task) for task in tasks]
        column = map(task_of, tx.connection.execute(tx.sql["tasks"], every_task(status=status)))
        rest = [task.id for task in column if task.id not in named]
        places = enumerate([*tasks, *rest], start=1)
        tx.connection.executemany(tx.sql["place_task"], [(task, status, position, tx.now) for position, task in places])
        moves += [(task, replace(task, status=status)) for task in before]
    return moves


def _send(tx: Transaction, moves: Sequence[tuple[Task | None, Task]], work: Work | None) -> None:
    """Enqueue the work of tasks that were not in progress before."""
    starting = [
        after
        for before, after in moves
        if after.status == TaskStatus.IN_PROGRESS and (before is None or before.status != TaskStatus.IN_PROGRESS)
    ]
    messages = [] if work is None else [message for task in starting if (message := work(task)) is not None]
    for message in messages:
        message.check()
    if messages:
        enqueue(tx, [EnqueueRequest((message,)) for message in messages])
