"""The board on SQLite: projects, tasks and comments."""

from collections.abc import Callable, Mapping, Sequence

from tinyagi.domain.board import (
    AUTHOR_TYPES,
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
from tinyagi.domain.errors import InvalidInput
from tinyagi.store.records import Work
from tinyagi.store.sqlite.operations.projects import (
    ChangeProject,
    add_projects,
    change_projects,
    delete_projects,
    no_project,
    project_of,
)
from tinyagi.store.sqlite.operations.take_over import TakeOver, take_over
from tinyagi.store.sqlite.operations.tasks import (
    AddComment,
    AddTask,
    ChangeTask,
    Reorder,
    add_comments,
    add_tasks,
    change_tasks,
    comment_of,
    delete_comments,
    delete_tasks,
    every_task,
    no_task,
    reorder,
    task_of,
)
from tinyagi.store.sqlite.readers import Readers
from tinyagi.store.sqlite.writer import Writer


class SqliteBoard:
    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def projects(self) -> tuple[Project, ...]:
        return tuple(map(project_of, await self._readers.rows("projects")))

    async def project(self, project: ProjectId) -> Project:
        row = await self._readers.row("project", (project,))
        if row is None:
            raise no_project(project)
        return project_of(row)

    async def add_project(self, new: NewProject) -> Project:
        return await self._writer.write(add_projects, new)

    async def change_project(self, project: ProjectId, fields: ProjectFields) -> Project:
        return await self._writer.write(change_projects, ChangeProject(project, fields))

    async def delete_project(self, project: ProjectId) -> None:
        await self._writer.write(delete_projects, project)

    async def tasks(self, *, project: ProjectId | None = None, status: TaskStatus | None = None) -> tuple[Task, ...]:
        return tuple(map(task_of, await self._readers.rows("tasks", every_task(project, status))))

    async def task(self, task: TaskId) -> Task:
        row = await self._readers.row("task", (task,))
        if row is None:
            raise no_task(task)
        return task_of(row)

    async def add_task(self, new: NewTask, *, work: Work | None = None) -> Task:
        return await self._writer.write(add_tasks, AddTask(new, work))

    async def change_task(
        self, task: TaskId, fields: TaskFields, *, check: Callable[[Task], None] | None = None, work: Work | None = None
    ) -> Task:
        return await self._writer.write(change_tasks, ChangeTask(task, fields, check, work))

    async def reorder(
        self, columns: Mapping[TaskStatus, Sequence[TaskId]], *, work: Work | None = None
    ) -> tuple[Task, ...]:
        return await self._writer.write(reorder, Reorder(columns, work))

    async def delete_task(self, task: TaskId) -> None:
        await self._writer.write(delete_tasks, task)

    async def comments(self, task: TaskId) -> tuple[Comment, ...]:
        comments = tuple(map(comment_of, await self._readers.rows("comments", (task,))))
        if not comments:
            await self.task(task)
        return comments

    async def add_comment(self, task: TaskId, *, author: str, author_type: str, content: str) -> Comment:
        _check_author(author_type)
        return await self._writer.write(add_comments, AddComment(task, author, author_type, content))

    async def delete_comment(self, comment: CommentId) -> None:
        await self._writer.write(delete_comments, comment)

    async def take_over(self, projects: Sequence[Project], tasks: Sequence[Task], comments: Sequence[Comment]) -> int:
        for comment in comments:
            _check_author(comment.author_type)
        return await self._writer.write(take_over, TakeOver(projects, tasks, comments))


def _check_author(author_type: str) -> None:
    if author_type not in AUTHOR_TYPES:
        raise InvalidInput(f"{author_type!r} is no kind of author: it is one of {', '.join(AUTHOR_TYPES)}.")
