"""Tasks of the board and their comments."""

from dataclasses import asdict
from typing import Annotated

from fastapi import Query, Request

from tinyagi.api import board as api
from tinyagi.api.base import Ok
from tinyagi.domain.board import CommentId, NewTask, ProjectId, TaskFields, TaskId, TaskStatus
from tinyagi.server.auditing import audited_router, tell
from tinyagi.server.errors import responses
from tinyagi.server.parameters import Key
from tinyagi.server.services import Use

router = audited_router()

Status = Annotated[TaskStatus | None, Query(description="Those of one column.")]
Project = Annotated[api.Key | None, Query(alias="projectId", description="Those of one project.")]


@router.get("/api/tasks", tags=["board"])
async def list_tasks(services: Use, status: Status = None, project: Project = None) -> tuple[api.Task, ...]:
    """The tasks of the board, column by column."""
    wanted = None if project is None else ProjectId(project)
    return tuple(api.Task(**asdict(task)) for task in await services.store.board.tasks(project=wanted, status=status))


@router.post("/api/tasks", tags=["board"], responses=responses(404))
async def add_task(services: Use, request: Request, new: api.NewTask) -> api.TaskSaved:
    """Add a task at the end of its column; one that starts in progress is sent to its assignee."""
    task = await services.engine.board.add_task(
        NewTask(
            title=new.title,
            description=new.description,
            status=new.status,
            assignee=new.assignee,
            assignee_type=new.assignee_type,
            project_id=None if new.project_id is None else ProjectId(new.project_id),
        )
    )
    tell(request, task.identifier)
    return api.TaskSaved(task=api.Task(**asdict(task)))


# Before the routes with an id, which would take `reorder` for one.
@router.put("/api/tasks/reorder", tags=["board"], responses=responses(404))
async def reorder_tasks(services: Use, request: Request, order: api.Reorder) -> api.Reordered:
    """Put tasks into columns in this order; those that come into progress are sent to their assignees."""
    columns = {status: tuple(map(TaskId, tasks)) for status, tasks in order.columns.items()}
    tasks = await services.engine.board.reorder(columns)
    tell(request, ", ".join(columns))
    return api.Reordered(tasks=tuple(api.Task(**asdict(task)) for task in tasks))


@router.get("/api/tasks/{task}", tags=["board"], responses=responses(404))
async def read_task(services: Use, task: Key) -> api.Task:
    """One task."""
    return api.Task(**asdict(await services.store.board.task(TaskId(task))))


@router.put("/api/tasks/{task}", tags=["board"], responses=responses(404))
async def change_task(services: Use, request: Request, task: Key, changes: api.TaskChanges) -> api.TaskSaved:
    """Change some fields of a task; one that moves into progress is sent to its assignee."""
    fields = _fields(changes)
    changed = await services.engine.board.change_task(TaskId(task), **fields)
    tell(request, f"{changed.identifier}: {', '.join(sorted(fields))}")
    return api.TaskSaved(task=api.Task(**asdict(changed)))


@router.delete("/api/tasks/{task}", tags=["board"], responses=responses(404))
async def delete_task(services: Use, task: Key) -> Ok:
    """Delete a task and its comments."""
    await services.store.board.delete_task(TaskId(task))
    return Ok()


@router.get("/api/tasks/{task}/comments", tags=["board"], responses=responses(404))
async def list_comments(services: Use, task: Key) -> tuple[api.Comment, ...]:
    """What was said about a task, oldest first."""
    return tuple(api.Comment(**asdict(comment)) for comment in await services.store.board.comments(TaskId(task)))


@router.post("/api/tasks/{task}/comments", tags=["board"], responses=responses(404))
async def add_comment(services: Use, task: Key, new: api.NewComment) -> api.CommentSaved:
    """Say something about a task."""
    comment = await services.engine.board.add_comment(
        TaskId(task), author=new.author, author_type=new.author_type, content=new.content
    )
    return api.CommentSaved(comment=api.Comment(**asdict(comment)))


@router.delete("/api/comments/{comment}", tags=["board"], responses=responses(404))
async def delete_comment(services: Use, comment: Key) -> Ok:
    """Delete a comment."""
    await services.store.board.delete_comment(CommentId(comment))
    return Ok()


def _fields(changes: api.TaskChanges) -> TaskFields:
    fields, said = TaskFields(), changes.model_fields_set
    if changes.title is not None:
        fields["title"] = changes.title
    if changes.description is not None:
        fields["description"] = changes.description
    if changes.status is not None:
        fields["status"] = changes.status
    if "assignee" in said:
        fields["assignee"] = changes.assignee
    if changes.assignee_type is not None:
        fields["assignee_type"] = changes.assignee_type
    if "project_id" in said:
        fields["project_id"] = None if changes.project_id is None else ProjectId(changes.project_id)
    return fields
