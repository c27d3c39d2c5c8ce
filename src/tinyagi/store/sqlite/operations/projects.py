"""Projects of the board: added, changed and deleted. Each prefix belongs to one of them."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from tinyagi.domain.board import (
    NO_PROJECT_PREFIX,
    NewProject,
    Project,
    ProjectFields,
    ProjectId,
    ProjectStatus,
    prefix_from,
    prefixes_for,
)
from tinyagi.domain.errors import Conflict, NotFound
from tinyagi.store.sqlite.transaction import Transaction


@dataclass(frozen=True, slots=True)
class ChangeProject:
    project: ProjectId
    fields: ProjectFields


def add_projects(tx: Transaction, requests: Sequence[NewProject]) -> list[Project]:
    return [_add(tx, new) for new in requests]


def change_projects(tx: Transaction, requests: Sequence[ChangeProject]) -> list[Project]:
    return [_change(tx, request) for request in requests]


def delete_projects(tx: Transaction, projects: Sequence[ProjectId]) -> list[None]:
    """The database itself takes their tasks out of them."""
    for project in projects:
        if not tx.change("delete_project", (project,)):
            raise no_project(project)
    return [None] * len(projects)


def find_project(tx: Transaction, project: ProjectId) -> Project:
    row = tx.connection.execute(tx.sql["project"], (project,)).fetchone()
    if row is None:
        raise no_project(project)
    return project_of(row)


def project_of(row: tuple[Any, ...]) -> Project:
    project = Project(*row)
    return replace(project, status=ProjectStatus(project.status))


def free_prefix(tx: Transaction, text: str, project: str = "") -> str:
    """The prefix in capitals, unless another project than this one has it."""
    prefix = prefix_from(text)
    if _is_taken(tx, prefix, project):
        raise Conflict(f"The prefix {prefix} is taken. Choose another one, or leave it out to get one.")
    return prefix


def no_project(project: ProjectId) -> NotFound:
    return NotFound(f"There is no project {project}. List the projects to see which there are.")


def _add(tx: Transaction, new: NewProject) -> Project:
    if new.prefix is None:
        prefix = next(prefix for prefix in prefixes_for(new.name) if not _is_taken(tx, prefix))
    else:
        prefix = free_prefix(tx, new.prefix)
    project = Project(
        ProjectId(tx.new_id("proj")), new.name, new.description, prefix, new.color, new.status, tx.now, tx.now
    )
    tx.connection.execute(tx.sql["insert_project"], astuple(project))
    return project


def _change(tx: Transaction, request: ChangeProject) -> Project:
    project = replace(find_project(tx, request.project), **request.fields, updated_at=tx.now)
    if "prefix" in request.fields:
        project = replace(project, prefix=free_prefix(tx, project.prefix, project.id))
    row = (project.id, project.name, project.description, project.prefix, project.color, project.status, tx.now)
    tx.connection.execute(tx.sql["update_project"], row)
    return project


def _is_taken(tx: Transaction, prefix: str, project: str = "") -> bool:
    if prefix == NO_PROJECT_PREFIX:
        return True
    return tx.connection.execute(tx.sql["prefix_in_use"], (prefix, project)).fetchone() is not None
