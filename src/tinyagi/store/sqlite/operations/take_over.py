"""Rows of another board, stored as they are: ids, numbers and dates stay. What is here already stays as well."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import TypeVar

from tinyagi.domain.board import NO_PROJECT_PREFIX, Comment, Project, Task
from tinyagi.domain.errors import Conflict, InvalidInput
from tinyagi.store.sqlite.operations.projects import find_project, free_prefix
from tinyagi.store.sqlite.operations.tasks import end_of_column, find_task
from tinyagi.store.sqlite.transaction import Transaction

RowT = TypeVar("RowT", Project, Task, Comment)


@dataclass(frozen=True, slots=True)
class TakeOver:
    projects: Sequence[Project]
    tasks: Sequence[Task]
    comments: Sequence[Comment]


def take_over(tx: Transaction, requests: Sequence[TakeOver]) -> list[int]:
    """Returns for each how many rows are new."""
    return [
        _projects(tx, request.projects) + _tasks(tx, request.tasks) + _comments(tx, request.comments)
        for request in requests
    ]


def _projects(tx: Transaction, projects: Sequence[Project]) -> int:
    new = _new(tx, "project", projects)
    for project in new:
        stored = replace(project, prefix=free_prefix(tx, project.prefix, project.id))
        tx.connection.execute(tx.sql["insert_project"], astuple(stored))
    return len(new)


def _tasks(tx: Transaction, tasks: Sequence[Task]) -> int:
    new = _new(tx, "task", tasks)
    # First of all: what is numbered here must come after every number that is brought along.
    tx.connection.executemany(tx.sql["raise_task_number"], [_last_number(task) for task in new if task.number])
    for task in new:
        prefix = NO_PROJECT_PREFIX if task.project_id is None else find_project(tx, task.project_id).prefix
        stored = task if task.number else _numbered(tx, task, prefix)
        if tx.connection.execute(tx.sql["identifier_in_use"], (stored.identifier,)).fetchone() is not None:
            raise Conflict(f"The identifier {stored.identifier} is taken. Give the task number 0 to get the next one.")
        placed = replace(stored, position=end_of_column(tx, task.status))
        tx.connection.execute(tx.sql["insert_task"], astuple(placed))
    return len(new)


def _last_number(task: Task) -> tuple[str, int]:
    """A prefix and a number that was given under it."""
    prefix, _, number = task.identifier.rpartition("-")
    if number != str(task.number):
        raise InvalidInput(f"{task.identifier} is no identifier of number {task.number}. It is PREFIX-NUMBER.")
    return prefix, task.number


def _numbered(tx: Transaction, task: Task, prefix: str) -> Task:
    number: int = tx.connection.execute(tx.sql["next_task_number"], (prefix,)).get
    return replace(task, number=number, identifier=f"{prefix}-{number}")


def _comments(tx: Transaction, comments: Sequence[Comment]) -> int:
    new = _new(tx, "comment", comments)
    for comment in new:
        find_task(tx, comment.task_id)
        tx.connection.execute(tx.sql["insert_comment"], astuple(comment))
    return len(new)


def _new(tx: Transaction, statement: str, rows: Sequence[RowT]) -> list[RowT]:
    """Those whose ids are not here yet, each once."""
    given = {row.id: row for row in rows}
    return [row for row in given.values() if tx.connection.execute(tx.sql[statement], (row.id,)).fetchone() is None]
