"""The board: projects, their tasks, and what was said about them."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from tinyagi.api.base import Id, Instant, Model, Ok
from tinyagi.domain.board import AssigneeType, ProjectStatus, TaskStatus

KEY = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$"

Key = Annotated[str, Field(pattern=KEY)]
"""An id that we have made."""
Title = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]
Description = Annotated[str, Field(max_length=100_000)]
Prefix = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9]{0,9}$", description="What identifiers begin with.")]
Color = Annotated[str, Field(pattern=r"^[#A-Za-z0-9(),.% -]{1,64}$", description="As CSS writes it.")]


class Task(Model):
    id: str
    number: int
    identifier: Annotated[str, Field(description="`PRE-n`, as people say it.")]
    title: str
    description: str
    status: TaskStatus
    assignee: str | None = None
    assignee_type: AssigneeType | None = None
    project_id: str | None = None
    position: Annotated[int, Field(description="Its place in its column.")]
    created_at: Instant
    updated_at: Instant


class NewTask(Model):
    """One that starts `in_progress` is sent to its assignee."""

    title: Title
    description: Description = ""
    status: TaskStatus = TaskStatus.BACKLOG
    assignee: Id | None = None
    assignee_type: Annotated[AssigneeType | None, Field(description="Without one, an agent.")] = None
    project_id: Key | None = None


class TaskChanges(Model):
    """What is left out stays as it is. Null takes the assignee or the project away; elsewhere it changes nothing."""

    title: Title | None = None
    description: Description | None = None
    status: TaskStatus | None = None
    assignee: Id | None = None
    assignee_type: AssigneeType | None = None
    project_id: Key | None = None


class TaskSaved(Ok):
    task: Task


class Reorder(Model):
    """Columns from top to bottom; tasks that are not named stay, behind those that are."""

    columns: dict[TaskStatus, Annotated[tuple[Key, ...], Field(max_length=10_000)]]


class Reordered(Ok):
    tasks: tuple[Task, ...]


class Comment(Model):
    id: str
    task_id: str
    author: str
    author_type: str
    content: str
    created_at: Instant


class NewComment(Model):
    content: Annotated[str, Field(min_length=1, max_length=100_000)]
    author: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=256)] = "API"
    author_type: Literal["user", "agent"] = "user"


class CommentSaved(Ok):
    comment: Comment


class Project(Model):
    id: str
    name: str
    description: str
    prefix: str
    color: str | None = None
    status: ProjectStatus
    created_at: Instant
    updated_at: Instant


class NewProject(Model):
    name: Title
    description: Description = ""
    prefix: Annotated[Prefix | None, Field(description="Without one, it is made from the name.")] = None
    color: Color | None = None
    status: ProjectStatus = ProjectStatus.ACTIVE


class ProjectChanges(Model):
    """What is left out stays as it is. Null takes the color away; elsewhere it changes nothing."""

    name: Title | None = None
    description: Description | None = None
    prefix: Prefix | None = None
    color: Color | None = None
    status: ProjectStatus | None = None


class ProjectSaved(Ok):
    project: Project
