"""The board: projects, their tasks and comments."""

import re
import unicodedata
import zlib
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
"""Prefix of tasks without a project; no project may use it."""
AUTHOR_TYPES: Final = ("user", "agent")

_COLORS: Final = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948", "#9c755f")
_PREFIX: Final = re.compile(r"[A-Z][A-Z0-9]{0,9}")
_LONGEST_MADE: Final = 5
_PREFIXED: Final = re.compile(r"^\s*@\S+\s")
_TASK_TAG: Final = re.compile(r"\[task:([A-Za-z0-9][A-Za-z0-9_.-]{0,127})\]")


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
    """Starts the identifiers of its tasks; unique among projects."""
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
    """`PRE-n`; does not change when the task moves to another project."""
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
    comment_count: int = 0
    """Counted when the task is read, not stored."""


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
    """None derives it from the name."""
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


def with_task_fields(task: Task, fields: TaskFields) -> Task:
    """The task with these fields changed. An assignee without a type is an agent."""
    changed = replace(task, **fields)
    if changed.assignee is None:
        return replace(changed, assignee_type=None)
    if fields.keys() & {"assignee", "assignee_type"} and fields.get("assignee_type") is None:
        return replace(changed, assignee_type=AssigneeType.AGENT)
    return changed


def task_named_in(text: str) -> TaskId | None:
    """The task of the last tag `[task:<id>]` in the text, or None."""
    tags = _TASK_TAG.findall(text) if "[task:" in text else []
    return TaskId(tags[-1]) if tags else None


def is_only_the_task(text: str, title: str, description: str) -> bool:
    """True when the text holds only the title and the description, as a client sends a task to its assignee."""
    return _words(_PREFIXED.sub("", text, count=1)) == _words(f"{title} {description}")


def _words(text: str) -> list[str]:
    return _TASK_TAG.sub(" ", text).split()


def color_of(project: Project) -> str:
    """The project's colour; without one, a fixed colour derived from its id."""
    return project.color or _COLORS[zlib.crc32(project.id.encode()) % len(_COLORS)]


def prefix_from(text: str) -> str:
    """The chosen prefix in capitals; raise InvalidInput when it is not valid."""
    prefix = text.strip().upper()
    if _PREFIX.fullmatch(prefix) is None:
        raise InvalidInput(f"{text!r} is not a valid prefix: use up to 10 letters and digits, starting with a letter.")
    return prefix


def prefixes_for(name: str) -> Iterator[str]:
    """Prefixes derived from a project's name, best first: its letters, then letters with a number."""
    plain = unicodedata.normalize("NFKD", name).upper()
    letters = "".join(letter for letter in plain if "A" <= letter <= "Z")[:_LONGEST_MADE]
    base = letters if len(letters) > 1 else "PROJ"
    yield base
    for number in count(2):
        yield f"{base[: _LONGEST_MADE - len(str(number))]}{number}"
