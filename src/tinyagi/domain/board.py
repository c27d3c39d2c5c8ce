"""The board: projects, their tasks, and what was said about them."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count
from typing import Final, NewType, TypedDict

from tinyagi.domain.errors import InvalidInput

TaskId = NewType("TaskId", str)
ProjectId = NewType("ProjectId", str)
CommentId = NewType("CommentId", str)

NO_PROJECT_PREFIX: Final = "T"
"""Of tasks without a project; no project may have it."""
AUTHOR_TYPES: Final = ("user", "agent")

_PREFIX: Final = re.compile(r"[A-Z][A-Z0-9]{0,9}")
_LONGEST_MADE: Final = 5


class TaskStatus(StrEnum):
    BACKLOG = "backlog"
    TODO = "todo"
    IN_PROGRESS = "in_progress"
    REVIEW = "review"
    DONE = "done"


class ProjectStatus(StrEnum):
    ACTIVE = "active"
    ARCHIVED = "archived"


class AssigneeType(StrEnum):
    AGENT = "agent"
    TEAM = "team"


@dataclass(frozen=True, slots=True)
class Project:
    id: ProjectId
    name: str
    description: str
    prefix: str
    """What the identifiers of its tasks begin with; no two projects share one."""
    color: str | None
    status: ProjectStatus
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class Task:
    id: TaskId
    number: int
    """Counts within the project, or among the tasks without one."""
    identifier: str
    """`PRE-n`: stays as it is when the task moves to another project."""
    title: str
    description: str
    status: TaskStatus
    assignee: str | None
    assignee_type: AssigneeType | None
    project_id: ProjectId | None
    position: int
    """Its place in its column."""
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class Comment:
    id: CommentId
    task_id: TaskId
    author: str
    author_type: str
    """`user` or `agent`."""
    content: str
    created_at: int


@dataclass(frozen=True, slots=True)
class NewProject:
    name: str
    description: str = ""
    prefix: str | None = None
    """None is made from the name."""
    color: str | None = None
    status: ProjectStatus = ProjectStatus.ACTIVE


@dataclass(frozen=True, slots=True)
class NewTask:
    title: str
    description: str = ""
    status: TaskStatus = TaskStatus.BACKLOG
    assignee: str | None = None
    assignee_type: AssigneeType | None = None
    project_id: ProjectId | None = None


class ProjectFields(TypedDict, total=False):
    """Fields of a project that people change."""

    name: str
    description: str
    prefix: str
    color: str | None
    status: ProjectStatus


class TaskFields(TypedDict, total=False):
    """Fields of a task that people and agents change."""

    title: str
    description: str
    status: TaskStatus
    assignee: str | None
    assignee_type: AssigneeType | None
    project_id: ProjectId | None


def with_fields(task: Task, fields: TaskFields) -> Task:
    """The task with these fields changed. An assignee that is given without a type is an agent."""
    changed = replace(task, **fields)
    if changed.assignee is None:
        return replace(changed, assignee_type=None)
    if fields.keys() & {"assignee", "assignee_type"} and fields.get("assignee_type") is None:
        return replace(changed, assignee_type=AssigneeType.AGENT)
    return changed


def prefix_from(text: str) -> str:
    """The prefix that somebody chose, in capitals; raise InvalidInput when it is none."""
    prefix = text.strip().upper()
    if _PREFIX.fullmatch(prefix) is None:
        raise InvalidInput(f"{text!r} is no prefix: use up to 10 letters and digits, a letter first.")
    return prefix


def prefixes_for(name: str) -> Iterator[str]:
    """Prefixes made from a project's name, the best one first: its letters, then with a digit."""
    plain = unicodedata.normalize("NFKD", name).upper()
    letters = "".join(letter for letter in plain if "A" <= letter <= "Z")[:_LONGEST_MADE]
    base = letters if len(letters) > 1 else "PROJ"
    yield base
    for number in count(2):
        yield f"{base[: _LONGEST_MADE - len(str(number))]}{number}"
