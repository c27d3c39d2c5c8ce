"""Writes of the board: projects, tasks and comments. A task that moves into progress sends its message in the same
transaction, unless a client has already sent one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any, Final

from tinyagi.domain.board import (
    NO_PROJECT_PREFIX,
    AssigneeType,
    Comment,
    CommentId,
    NewProject,
    NewTask,
    Project,
    ProjectFields,
    ProjectId,
    ProjectStatus,
    Task,
    TaskFields,
    TaskId,
    TaskStatus,
    is_only_the_task,
    prefix_from,
    prefixes_for,
    with_task_fields,
)
from tinyagi.domain.errors import Conflict, InvalidInput, NotFound
from tinyagi.domain.messages import Message, NewMessage, Status
from tinyagi.store.enqueue import EnqueueRequest, enqueue
from tinyagi.store.transaction import Transaction

Work = Callable[[Task], NewMessage | None]
"""Makes the message for a task that moves into progress, or None to send nothing. Both are stored together."""

COUNTERPART_WITHIN: Final = 60_000
"""Milliseconds between a move and a client's message about it, in either order, that count as one dispatch."""


def add_project(tx: Transaction, new: NewProject) -> Project:
    if new.prefix is None:
        prefix = next(prefix for prefix in prefixes_for(new.name) if not _is_taken(tx, prefix))
    else:
        prefix = free_prefix(tx, new.prefix)
    project = Project(
        ProjectId(tx.new_id("proj")), new.name, new.description, prefix, new.color, new.status, tx.now, tx.now
    )
    tx.connection.execute(tx.sql["insert_project"], astuple(project))
    return project


def change_project(tx: Transaction, project_id: ProjectId, fields: ProjectFields) -> Project:
    project = replace(find_project(tx, project_id), **fields, updated_at=tx.now)
    if "prefix" in fields:
        project = replace(project, prefix=free_prefix(tx, project.prefix, project.id))
    row = (project.id, project.name, project.description, project.prefix, project.color, project.status, tx.now)
    tx.connection.execute(tx.sql["update_project"], row)
    return project


def delete_project(tx: Transaction, project: ProjectId) -> None:
    """Foreign keys take its tasks out of the project."""
    if not tx.change("delete_project", (project,)):
        raise project_not_found(project)


def find_project(tx: Transaction, project: ProjectId) -> Project:
    row = tx.connection.execute(tx.sql["project"], (project,)).fetchone()
    if row is None:
        raise project_not_found(project)
    return project_from_row(row)


def project_from_row(row: tuple[Any, ...]) -> Project:
    project = Project(*row)
    return replace(project, status=ProjectStatus(project.status))


def project_not_found(project: ProjectId) -> NotFound:
    return NotFound(f"There is no project {project}. List the projects to find one.")


def free_prefix(tx: Transaction, text: str, project: str = "") -> str:
    """The prefix in capitals; raise Conflict when another project has it."""
    prefix = prefix_from(text)
    if _is_taken(tx, prefix, project):
        raise Conflict(f"The prefix {prefix} is taken. Choose another one, or leave it out to get a free one.")
    return prefix


def _is_taken(tx: Transaction, prefix: str, project: str = "") -> bool:
    if prefix == NO_PROJECT_PREFIX:
        return True
    return tx.connection.execute(tx.sql["prefix_in_use"], (prefix, project)).fetchone() is not None


def add_task(tx: Transaction, new: NewTask, work: Work | None) -> Task:
    prefix = NO_PROJECT_PREFIX if new.project_id is None else _project_of_task(tx, new.project_id).prefix
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
    task = task_from_row(row)
    _send(tx, [(None, task)], work)
    return task


def change_task(
    tx: Transaction, task: TaskId, fields: TaskFields, *, check: Callable[[Task], None] | None, work: Work | None
) -> Task:
    before = find_task(tx, task)
    after = replace(with_task_fields(before, fields), updated_at=tx.now)
    if check is not None:
        check(after)
    if after.project_id is not None and after.project_id != before.project_id:
        _project_of_task(tx, after.project_id)
    if after.status != before.status:
        after = replace(after, position=end_of_column(tx, after.status))
    place = (after.status, after.assignee, after.assignee_type, after.project_id, after.position)
    tx.connection.execute(tx.sql["update_task"], (after.id, after.title, after.description, *place, tx.now))
    _send(tx, [(before, after)], work)
    return after


def reorder(tx: Transaction, columns: Mapping[TaskStatus, Sequence[TaskId]], work: Work | None) -> tuple[Task, ...]:
    """Returns all tasks of the board."""
    _send(tx, _arrange(tx, columns), work)
    return tuple(map(task_from_row, tx.connection.execute(tx.sql["tasks"], task_filter())))


def delete_task(tx: Transaction, task: TaskId) -> None:
    """Foreign keys delete its comments."""
    if not tx.change("delete_task", (task,)):
        raise task_not_found(task)


def add_comment(tx: Transaction, task: TaskId, *, author: str, author_type: str, content: str) -> Comment:
    find_task(tx, task)
    comment = Comment(CommentId(tx.new_id("cmt")), task, author, author_type, content, tx.now)
    tx.connection.execute(tx.sql["insert_comment"], astuple(comment))
    return comment


def delete_comment(tx: Transaction, comment: CommentId) -> None:
    if not tx.change("delete_comment", (comment,)):
        raise NotFound(f"There is no comment {comment}. List the comments of its task to find one.")


def _arrange(tx: Transaction, columns: Mapping[TaskStatus, Sequence[TaskId]]) -> list[tuple[Task, Task]]:
    """Place the named tasks; the other tasks of their columns follow in their old order."""
    named = [task for tasks in columns.values() for task in tasks]
    if len(named) != len(set(named)):
        raise InvalidInput("A task has one place on the board: name each task once.")
    moves = []
    for status, tasks in columns.items():
        before = [find_task(tx, task) for task in tasks]
        column = map(task_from_row, tx.connection.execute(tx.sql["tasks"], task_filter(status=status)))
        rest = [task.id for task in column if task.id not in named]
        places = enumerate([*tasks, *rest], start=1)
        tx.connection.executemany(tx.sql["place_task"], [(task, status, position, tx.now) for position, task in places])
        moves += [(task, replace(task, status=status)) for task in before]
    return moves


def _project_of_task(tx: Transaction, project: ProjectId) -> Project:
    """The project of a task; an unknown one is InvalidInput, because NotFound would mean the task."""
    try:
        return find_project(tx, project)
    except NotFound as error:
        raise InvalidInput(str(error)) from error


def find_task(tx: Transaction, task: TaskId) -> Task:
    row = tx.connection.execute(tx.sql["task"], (task,)).fetchone()
    if row is None:
        raise task_not_found(task)
    return task_from_row(row)


def end_of_column(tx: Transaction, status: TaskStatus) -> int:
    position: int = tx.connection.execute(tx.sql["end_of_column"], (status,)).get
    return position


def task_from_row(row: tuple[Any, ...]) -> Task:
    task = Task(*row)
    assignee_type = None if task.assignee_type is None else AssigneeType(task.assignee_type)
    return replace(task, status=TaskStatus(task.status), assignee_type=assignee_type)


def task_filter(project: ProjectId | None = None, status: TaskStatus | None = None) -> dict[str, str | None]:
    """Parameters of the statement `tasks`: all tasks, or those of a project or column."""
    return {"project": project, "status": status}


def task_not_found(task: TaskId) -> NotFound:
    return NotFound(f"There is no task {task}. List the tasks to find one.")


def _send(tx: Transaction, moves: Sequence[tuple[Task | None, Task]], work: Work | None) -> None:
    """Enqueue the messages of tasks that just moved into progress."""
    starting = [
        after
        for before, after in moves
        if after.status == TaskStatus.IN_PROGRESS and (before is None or before.status != TaskStatus.IN_PROGRESS)
    ]
    messages = [] if work is None else [(task.id, message) for task in starting if (message := work(task)) is not None]
    for _, message in messages:
        message.check()
    dispatch_tasks(tx, messages)


def dispatch_tasks(tx: Transaction, messages: Sequence[tuple[TaskId, NewMessage]]) -> None:
    """Enqueue the board's messages for tasks that moved into progress, unless a client's message was first."""
    needed = [
        (task, message) for task, message in messages if _take_counterpart(tx, task, message, by_board=False) is None
    ]
    if needed:
        stored = enqueue(tx, [EnqueueRequest((message,)) for _, message in needed])
        for (task, _), (message,) in zip(needed, stored, strict=True):
            _record_dispatch(tx, task, message, by_board=True)


def enqueue_for_task(tx: Transaction, new: NewMessage, task: TaskId) -> Message:
    """Returns the stored message about the task: this one, or the board's dispatch of that task."""
    is_dispatch = _is_dispatch(tx, new, task)
    dispatched = _take_counterpart(tx, task, new, by_board=True) if is_dispatch else None
    if dispatched is not None:
        return dispatched
    ((message,),) = enqueue(tx, [EnqueueRequest((new,))])
    if is_dispatch:
        _record_dispatch(tx, task, message, by_board=False)
    return message


def _is_dispatch(tx: Transaction, new: NewMessage, task: TaskId) -> bool:
    """True when the message contains only the task. A message with more text, an id, files or a delay must be kept."""
    if new.message_id is not None or new.files or new.available_at:
        return False
    row = tx.connection.execute(tx.sql["task_text"], (task,)).fetchone()
    return row is not None and is_only_the_task(new.message, *row)


def _take_counterpart(tx: Transaction, task: TaskId, new: NewMessage, *, by_board: bool) -> Message | None:
    """Take the counterpart of this message: the same agent, within the time. Each counterpart is taken once."""
    key = (task, new.agent, by_board, tx.now - COUNTERPART_WITHIN)
    taken = tx.connection.execute(tx.sql["take_dispatch"], key).fetchone()
    row = None if taken is None else tx.connection.execute(tx.sql["message_by_id"], taken).fetchone()
    if row is None:
        return None
    message = Message._make(row)
    return message._replace(status=Status(message.status))


def _record_dispatch(tx: Transaction, task: TaskId, message: Message, *, by_board: bool) -> None:
    tx.connection.execute(tx.sql["record_dispatch"], (task, message.id, message.agent, by_board, tx.now))
