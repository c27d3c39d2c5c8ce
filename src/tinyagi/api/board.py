"""Models of the board: projects, tasks and comments."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StringConstraints, computed_field

from tinyagi.api.base import EmptyAsNone, Id, Instant, Model, Ok, PartialUpdate
from tinyagi.domain.board import AssigneeType, ProjectFields, ProjectStatus, TaskFields, TaskStatus

GENERATED_ID = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$"

GeneratedId = Annotated[str, Field(pattern=GENERATED_ID)]
"""An id that the store generated."""
BoardStatus = Annotated[TaskStatus, BeforeValidator(lambda value: "in_progress" if value == "in-progress" else value)]
EmptyIfNone = BeforeValidator(lambda value: "" if value is None else value)
Title = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]
Description = Annotated[str, Field(max_length=100_000)]
Prefix = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9]{0,9}$", description="The prefix of task identifiers.")]
Color = Annotated[str, Field(pattern=r"^[#A-Za-z0-9(),.% -]{1,64}$", description="A CSS color.")]


class Task(Model):
    id: str
    number: int
    identifier: Annotated[str, Field(description="`PRE-n`, for people.")]
    title: str
    description: str
    status: TaskStatus
    assignee: Annotated[str, EmptyIfNone, Field(description="Empty when there is none.")] = ""
    assignee_type: Annotated[AssigneeType | Literal[""], EmptyIfNone] = ""
    project_id: Annotated[str, EmptyIfNone, Field(description="Empty when there is none.")] = ""
    position: Annotated[int, Field(description="Position in its column.")]
    comment_count: int = 0
    created_at: Instant
    updated_at: Instant

    @computed_field(description="The same as `position`, for clients of the original.")  # type: ignore[prop-decorator]
    @property
    def sort_order(self) -> int:
        return self.position


class NewTask(Model):
    """A new task. It is sent to its assignee if it starts `in_progress`."""

    title: Title
    description: Description = ""
    status: BoardStatus = TaskStatus.BACKLOG
    assignee: EmptyAsNone[Id] = None
    assignee_type: Annotated[EmptyAsNone[AssigneeType], Field(description="Defaults to an agent.")] = None
    project_id: EmptyAsNone[GeneratedId] = None


class TaskChanges(PartialUpdate[TaskFields]):
    """Omitted fields keep their values. Null or an empty text removes the assignee or the project; for other fields
    null changes nothing."""

    removable = frozenset({"assignee", "project_id"})

    title: Title | None = None
    description: Description | None = None
    status: EmptyAsNone[BoardStatus] = None
    assignee: EmptyAsNone[Id] = None
    assignee_type: EmptyAsNone[AssigneeType] = None
    project_id: EmptyAsNone[GeneratedId] = None


class TaskSaved(Ok):
    task: Task


class Reorder(Model):
    """Tasks of each column from top to bottom; omitted tasks stay in their column, after the listed ones."""

    columns: dict[BoardStatus, Annotated[tuple[GeneratedId, ...], Field(max_length=10_000)]]


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
    color: Annotated[str, Field(description="Defaults to a color derived from the id.")]
    status: ProjectStatus
    created_at: Instant
    updated_at: Instant


class NewProject(Model):
    name: Title
    description: Description = ""
    prefix: Annotated[EmptyAsNone[Prefix], Field(description="Defaults to one derived from the name.")] = None
    color: EmptyAsNone[Color] = None
    status: ProjectStatus = ProjectStatus.ACTIVE


class ProjectChanges(PartialUpdate[ProjectFields]):
    """Omitted fields keep their values. Null or an empty text removes the color; for other fields null changes
    nothing."""

    removable = frozenset({"color"})

    name: Title | None = None
    description: Description | None = None
    prefix: EmptyAsNone[Prefix] = None
    color: EmptyAsNone[Color] = None
    status: ProjectStatus | None = None


class ProjectSaved(Ok):
    project: Project
