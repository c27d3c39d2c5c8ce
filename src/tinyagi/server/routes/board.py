"""The board over HTTP: projects, tasks and comments."""

from dataclasses import asdict
from typing import Annotated

from fastapi import Query, Request

from tinyagi.api import board as api
from tinyagi.api.base import EmptyAsNone, Ok
from tinyagi.domain.board import CommentId, NewProject, NewTask, Project, ProjectId, TaskId, color_of
from tinyagi.server.agent_scope import caller_of, own_name
from tinyagi.server.dependencies import KeyPath, ServicesDep
from tinyagi.server.errors import responses
from tinyagi.server.routes.audit import audited_router, set_audit_detail

router = audited_router()

StatusQuery = Annotated[EmptyAsNone[api.BoardStatus], Query(description="Only tasks in this column.")]
ProjectQuery = Annotated[
    EmptyAsNone[api.GeneratedId], Query(alias="projectId", description="Only tasks of this project.")
]


@router.get("/api/tasks", tags=["board"])
async def list_tasks(
    services: ServicesDep, status: StatusQuery = None, project: ProjectQuery = None
) -> tuple[api.Task, ...]:
    """List the tasks of the board, column by column."""
    wanted = None if project is None else ProjectId(project)
    return tuple(api.Task(**asdict(task)) for task in await services.store.board.tasks(project=wanted, status=status))


@router.post("/api/tasks", tags=["board"], responses=responses(404))
async def add_task(services: ServicesDep, request: Request, new: api.NewTask) -> api.TaskSaved:
    """Add a task at the end of its column. A task in progress is sent to its assignee."""
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
    set_audit_detail(request, task.identifier)
    return api.TaskSaved(task=api.Task(**asdict(task)))


# Declared before the routes with an id, which would match `reorder`.
@router.put("/api/tasks/reorder", tags=["board"], responses=responses(404))
async def reorder_tasks(services: ServicesDep, request: Request, order: api.Reorder) -> api.Reordered:
    """Set the order of tasks in columns. Tasks that move into progress are sent to their assignees."""
    columns = {status: tuple(map(TaskId, tasks)) for status, tasks in order.columns.items()}
    tasks = await services.engine.board.reorder(columns)
    set_audit_detail(request, ", ".join(columns))
    return api.Reordered(tasks=tuple(api.Task(**asdict(task)) for task in tasks))


@router.get("/api/tasks/{task}", tags=["board"], responses=responses(404))
async def read_task(services: ServicesDep, task: KeyPath) -> api.Task:
    """Read a task."""
    return api.Task(**asdict(await services.store.board.task(TaskId(task))))


@router.put("/api/tasks/{task}", tags=["board"], responses=responses(404))
async def change_task(
    services: ServicesDep, request: Request, task: KeyPath, changes: api.TaskChanges
) -> api.TaskSaved:
    """Change some fields of a task. A task that moves into progress is sent to its assignee."""
    fields = changes.fields()
    changed = await services.engine.board.change_task(TaskId(task), **fields)
    set_audit_detail(request, f"{changed.identifier}: {', '.join(sorted(fields))}")
    return api.TaskSaved(task=api.Task(**asdict(changed)))


@router.delete("/api/tasks/{task}", tags=["board"], responses=responses(404))
async def delete_task(services: ServicesDep, task: KeyPath) -> Ok:
    """Delete a task and its comments."""
    await services.store.board.delete_task(TaskId(task))
    return Ok()


@router.get("/api/tasks/{task}/comments", tags=["board"], responses=responses(404))
async def list_comments(services: ServicesDep, task: KeyPath) -> tuple[api.Comment, ...]:
    """List the comments on a task, oldest first."""
    return tuple(api.Comment(**asdict(comment)) for comment in await services.store.board.comments(TaskId(task)))


@router.post("/api/tasks/{task}/comments", tags=["board"], responses=responses(404))
async def add_comment(services: ServicesDep, request: Request, task: KeyPath, new: api.NewComment) -> api.CommentSaved:
    """Add a comment to a task."""
    author = own_name(request, new.author if "author" in new.model_fields_set else None)
    comment = await services.engine.board.add_comment(
        TaskId(task),
        author=author or new.author,
        author_type=new.author_type if caller_of(request.scope) is None else "agent",
        content=new.content,
    )
    return api.CommentSaved(comment=api.Comment(**asdict(comment)))


@router.delete("/api/comments/{comment}", tags=["board"], responses=responses(404))
async def delete_comment(services: ServicesDep, comment: KeyPath) -> Ok:
    """Delete a comment."""
    await services.store.board.delete_comment(CommentId(comment))
    return Ok()


@router.get("/api/projects", tags=["board"])
async def list_projects(services: ServicesDep) -> tuple[api.Project, ...]:
    """List the projects, oldest first."""
    return tuple(_project(project) for project in await services.store.board.projects())


@router.post("/api/projects", tags=["board"], responses=responses(409))
async def add_project(services: ServicesDep, request: Request, new: api.NewProject) -> api.ProjectSaved:
    """Add a project; its prefix must be unique."""
    project = await services.engine.board.add_project(NewProject(**new.model_dump()))
    set_audit_detail(request, f"{project.prefix} {project.name}")
    return api.ProjectSaved(project=_project(project))


@router.get("/api/projects/{project}", tags=["board"], responses=responses(404))
async def read_project(services: ServicesDep, project: KeyPath) -> api.Project:
    """Read a project."""
    return _project(await services.store.board.project(ProjectId(project)))


@router.put("/api/projects/{project}", tags=["board"], responses=responses(404, 409))
async def change_project(
    services: ServicesDep, request: Request, project: KeyPath, changes: api.ProjectChanges
) -> api.ProjectSaved:
    """Change some fields of a project; the identifiers of its tasks do not change."""
    fields = changes.fields()
    changed = await services.engine.board.change_project(ProjectId(project), **fields)
    set_audit_detail(request, f"{changed.name}: {', '.join(sorted(fields))}")
    return api.ProjectSaved(project=_project(changed))


@router.delete("/api/projects/{project}", tags=["board"], responses=responses(404))
async def delete_project(services: ServicesDep, project: KeyPath) -> Ok:
    """Delete a project; its tasks stay, without a project."""
    await services.store.board.delete_project(ProjectId(project))
    return Ok()


def _project(project: Project) -> api.Project:
    return api.Project(**{**asdict(project), "color": color_of(project)})
