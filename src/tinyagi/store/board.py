"""The board: projects, tasks and comments, and the import of another board. tasks.py has the other writes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, replace
from typing import TypeVar

from tinyagi.domain.board import (
    AUTHOR_TYPES,
    NO_PROJECT_PREFIX,
    Comment,
    CommentId,
    NewProject,
    NewTask,
    Project,
    ProjectFields,
    ProjectId,
    Task,
    TaskFields,
    TaskId,
    TaskStatus,
)
from tinyagi.domain.errors import Conflict, InvalidInput
from tinyagi.store.readers import Readers
from tinyagi.store.tasks import (
    Work,
    add_comment,
    add_project,
    add_task,
    change_project,
    change_task,
    delete_comment,
    delete_project,
    delete_task,
    end_of_column,
    find_project,
    find_task,
    free_prefix,
    project_from_row,
    project_not_found,
    reorder,
    task_filter,
    task_from_row,
    task_not_found,
)
from tinyagi.store.transaction import Transaction
from tinyagi.store.writer import Writer

RowT = TypeVar("RowT", Project, Task, Comment)


class BoardStore:
    """Projects, tasks and comments. Moving a task into progress sends its message in the same transaction.

    Callbacks run inside the transaction, in the writer's thread, and may run twice, so they must have no side effects.
    An exception from a callback refuses the change.
    """

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def projects(self) -> tuple[Project, ...]:
        """Oldest first."""
        return tuple(map(project_from_row, await self._readers.rows("projects")))

    async def project(self, project: ProjectId) -> Project:
        """Raise NotFound when there is none."""
        row = await self._readers.row("project", (project,))
        if row is None:
            raise project_not_found(project)
        return project_from_row(row)

    async def add_project(self, new: NewProject) -> Project:
        """Raise Conflict when its prefix is taken, InvalidInput when it is not a prefix."""
        return await self._writer.run(add_project, new)

    async def change_project(self, project: ProjectId, fields: ProjectFields) -> Project:
        """Change these fields only; raise NotFound, Conflict or InvalidInput."""
        return await self._writer.run(change_project, project, fields)

    async def delete_project(self, project: ProjectId) -> None:
        """Delete it; its tasks stay, without a project. Raise NotFound."""
        await self._writer.run(delete_project, project)

    async def tasks(self, *, project: ProjectId | None = None, status: TaskStatus | None = None) -> tuple[Task, ...]:
        """Ordered by column, then by position."""
        return tuple(map(task_from_row, await self._readers.rows("tasks", task_filter(project, status))))

    async def task(self, task: TaskId) -> Task:
        """Raise NotFound when there is none."""
        row = await self._readers.row("task", (task,))
        if row is None:
            raise task_not_found(task)
        return task_from_row(row)

    async def add_task(self, new: NewTask, *, work: Work | None = None) -> Task:
        """Add it at the end of its column; raise InvalidInput when its project does not exist."""
        return await self._writer.run(add_task, new, work)

    async def change_task(
        self, task: TaskId, fields: TaskFields, *, check: Callable[[Task], None] | None = None, work: Work | None = None
    ) -> Task:
        """Change these fields only; `check` gets the changed task. Raise NotFound, and InvalidInput as `add_task`.

        Its number and identifier never change; in a new column it goes to the end.
        """
        return await self._writer.run(change_task, task, fields, check=check, work=work)

    async def reorder(
        self, columns: Mapping[TaskStatus, Sequence[TaskId]], *, work: Work | None = None
    ) -> tuple[Task, ...]:
        """Put tasks into these columns in this order and return all tasks; raise NotFound.

        The other tasks of these columns follow the named ones.
        """
        return await self._writer.run(reorder, columns, work)

    async def delete_task(self, task: TaskId) -> None:
        """Delete it with its comments; raise NotFound."""
        await self._writer.run(delete_task, task)

    async def comments(self, task: TaskId) -> tuple[Comment, ...]:
        """Oldest first; raise NotFound when there is no such task."""
        comments = tuple(Comment(*row) for row in await self._readers.rows("comments", (task,)))
        if not comments:
            await self.task(task)
        return comments

    async def add_comment(self, task: TaskId, *, author: str, author_type: str, content: str) -> Comment:
        """Raise NotFound when there is no such task."""
        _check_author(author_type)
        return await self._writer.run(add_comment, task, author=author, author_type=author_type, content=content)

    async def delete_comment(self, comment: CommentId) -> None:
        """Raise NotFound."""
        await self._writer.run(delete_comment, comment)

    async def import_board(
        self, projects: Sequence[Project], tasks: Sequence[Task], comments: Sequence[Comment]
    ) -> int:
        """Import rows of another board in one transaction and return how many are new; no message is sent.

        Rows whose ids are already stored stay unchanged. Tasks go to the end of their columns in this order; a task
        with number 0 gets the next number. Raise Conflict when a prefix or an identifier is taken, NotFound when the
        project of a task or the task of a comment does not exist.
        """
        for comment in comments:
            _check_author(comment.author_type)
        return await self._writer.run(import_board, projects, tasks, comments)


def _check_author(author_type: str) -> None:
    if author_type not in AUTHOR_TYPES:
        raise InvalidInput(f"{author_type!r} is not an author type: use one of {', '.join(AUTHOR_TYPES)}.")


def import_board(
    tx: Transaction, projects: Sequence[Project], tasks: Sequence[Task], comments: Sequence[Comment]
) -> int:
    """Returns the number of new rows."""
    return _import_projects(tx, projects) + _import_tasks(tx, tasks) + _import_comments(tx, comments)


def _import_projects(tx: Transaction, projects: Sequence[Project]) -> int:
    new = _not_stored(tx, "project", projects)
    for project in new:
        stored = replace(project, prefix=free_prefix(tx, project.prefix, project.id))
        tx.connection.execute(tx.sql["insert_project"], astuple(stored))
    return len(new)


def _import_tasks(tx: Transaction, tasks: Sequence[Task]) -> int:
    new = _not_stored(tx, "task", tasks)
    # Must come first: numbers assigned below have to be higher than every imported number.
    tx.connection.executemany(tx.sql["raise_task_number"], [_last_number(task) for task in new if task.number])
    for task in new:
        prefix = NO_PROJECT_PREFIX if task.project_id is None else find_project(tx, task.project_id).prefix
        stored = task if task.number else _numbered(tx, task, prefix)
        if tx.connection.execute(tx.sql["identifier_in_use"], (stored.identifier,)).fetchone() is not None:
            raise Conflict(f"The identifier {stored.identifier} is taken. Give the task number 0 to get the next one.")
        placed = replace(stored, position=end_of_column(tx, task.status))
        # Without the last field: the number of comments is counted, not stored.
        tx.connection.execute(tx.sql["insert_task"], astuple(placed)[:-1])
    return len(new)


def _last_number(task: Task) -> tuple[str, int]:
    """The prefix of an imported task and its number."""
    prefix, _, number = task.identifier.rpartition("-")
    if number != str(task.number):
        raise InvalidInput(f"{task.identifier} is not the identifier of number {task.number}. Use PREFIX-NUMBER.")
    return prefix, task.number


def _numbered(tx: Transaction, task: Task, prefix: str) -> Task:
    number: int = tx.connection.execute(tx.sql["next_task_number"], (prefix,)).get
    return replace(task, number=number, identifier=f"{prefix}-{number}")


def _import_comments(tx: Transaction, comments: Sequence[Comment]) -> int:
    new = _not_stored(tx, "comment", comments)
    for comment in new:
        find_task(tx, comment.task_id)
        tx.connection.execute(tx.sql["insert_comment"], astuple(comment))
    return len(new)


def _not_stored(tx: Transaction, statement: str, rows: Sequence[RowT]) -> list[RowT]:
    """Rows whose ids are not stored yet, each once."""
    unique = {row.id: row for row in rows}
    return [row for row in unique.values() if tx.connection.execute(tx.sql[statement], (row.id,)).fetchone() is None]
