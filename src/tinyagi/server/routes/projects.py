"""Projects of the board."""

from dataclasses import asdict

from fastapi import Request

from tinyagi.api import board as api
from tinyagi.api.base import Ok
from tinyagi.domain.board import NewProject, ProjectFields, ProjectId
from tinyagi.server.auditing import audited_router, tell
from tinyagi.server.errors import responses
from tinyagi.server.parameters import Key
from tinyagi.server.services import Use

router = audited_router()


@router.get("/api/projects", tags=["board"])
async def list_projects(services: Use) -> tuple[api.Project, ...]:
    """Every project, oldest first."""
    return tuple(api.Project(**asdict(project)) for project in await services.store.board.projects())


@router.post("/api/projects", tags=["board"], responses=responses(409))
async def add_project(services: Use, request: Request, new: api.NewProject) -> api.ProjectSaved:
    """Add a project; no two share a prefix."""
    project = await services.engine.board.add_project(NewProject(**new.model_dump()))
    tell(request, f"{project.prefix} {project.name}")
    return api.ProjectSaved(project=api.Project(**asdict(project)))


@router.get("/api/projects/{project}", tags=["board"], responses=responses(404))
async def read_project(services: Use, project: Key) -> api.Project:
    """One project."""
    return api.Project(**asdict(await services.store.board.project(ProjectId(project))))


@router.put("/api/projects/{project}", tags=["board"], responses=responses(404, 409))
async def change_project(
    services: Use, request: Request, project: Key, changes: api.ProjectChanges
) -> api.ProjectSaved:
    """Change some fields of a project; identifiers of its tasks stay as they are."""
    fields = _fields(changes)
    changed = await services.engine.board.change_project(ProjectId(project), **fields)
    tell(request, f"{changed.name}: {', '.join(sorted(fields))}")
    return api.ProjectSaved(project=api.Project(**asdict(changed)))


@router.delete("/api/projects/{project}", tags=["board"], responses=responses(404))
async def delete_project(services: Use, project: Key) -> Ok:
    """Delete a project; its tasks stay, without one."""
    await services.store.board.delete_project(ProjectId(project))
    return Ok()


def _fields(changes: api.ProjectChanges) -> ProjectFields:
    fields = ProjectFields()
    if changes.name is not None:
        fields["name"] = changes.name
    if changes.description is not None:
        fields["description"] = changes.description
    if changes.prefix is not None:
        fields["prefix"] = changes.prefix
    if "color" in changes.model_fields_set:
        fields["color"] = changes.color
    if changes.status is not None:
        fields["status"] = changes.status
    return fields
