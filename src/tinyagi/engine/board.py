"""The board as people and agents change it: checked, and with the message that sends a task to its assignee."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypedDict, Unpack

from tinyagi.domain.board import (
    AssigneeType,
    Comment,
    NewProject,
    NewTask,
    Project,
    ProjectId,
    ProjectStatus,
    Task,
    TaskId,
    TaskStatus,
)
from tinyagi.domain.errors import InvalidInput, NotFound
from tinyagi.domain.ids import AgentId, TeamId
from tinyagi.domain.messages import NewMessage
from tinyagi.domain.texts import check_text
from tinyagi.engine.inbox import Inbox, Incoming
from tinyagi.engine.rules import Rulebook
from tinyagi.store.records import Board


class TaskFields(TypedDict, total=False):
    """What of a task may be changed."""

    title: str
    description: str
    status: TaskStatus
    assignee: str | None
    assignee_type: AssigneeType | None
    project_id: ProjectId | None


class ProjectFields(TypedDict, total=False):
    """What of a project may be changed."""

    name: str
    description: str
    prefix: str
    color: str | None
    status: ProjectStatus


class TaskBoard:
    """Changes of the board. A task that moves into progress is sent to its assignee; without one it moves silently."""

    def __init__(self, board: Board, inbox: Inbox, rulebook: Rulebook) -> None:
        self._board = board
        self._inbox = inbox
        self._rulebook = rulebook

    async def add_project(self, new: NewProject) -> Project:
        """Raise InvalidInput, and Conflict when its prefix is taken."""
        _check_texts("A project needs a name.", new.name, new.description, new.color or "")
        return await self._board.add_project(new)

    async def change_project(self, project: ProjectId, **fields: Unpack[ProjectFields]) -> Project:
        """Change some fields; raise InvalidInput, NotFound or Conflict."""
        changed = replace(await self._board.project(project), **fields)
        _check_texts("A project needs a name.", changed.name, changed.description, changed.color or "")
        return await self._board.replace_project(changed)

    async def add_task(self, new: NewTask) -> Task:
        """Raise InvalidInput for what cannot be a task, among it an assignee or a project that is not there."""
        _check_texts("A task needs a title.", new.title, new.description)
        new = replace(new, assignee_type=self._assignee_type(new.assignee, new.assignee_type))
        await self._check_project(new.project_id)
        if new.status is not TaskStatus.IN_PROGRESS or new.assignee is None:
            return await self._board.add_task(new)
        # What the assignee reads names the task, and a task has no name before it is stored.
        task = replace(await self._board.add_task(replace(new, status=TaskStatus.TODO)), status=new.status)
        return await self._board.replace_task(task, work=self._work(task))

    async def change_task(self, task: TaskId, **fields: Unpack[TaskFields]) -> Task:
        """Change some fields; raise InvalidInput or NotFound."""
        stored = await self._board.task(task)
        changed = replace(stored, **fields)
        _check_texts("A task needs a title.", changed.title, changed.description)
        if "assignee" in fields or "assignee_type" in fields:
            # Whoever names another assignee and no type means an agent.
            named = fields.get("assignee_type") if "assignee" in fields else changed.assignee_type
            changed = replace(changed, assignee_type=self._assignee_type(changed.assignee, named))
        if changed.project_id != stored.project_id:
            await self._check_project(changed.project_id)
        starts = changed.status is TaskStatus.IN_PROGRESS and stored.status is not TaskStatus.IN_PROGRESS
        return await self._board.replace_task(changed, work=self._work(changed) if starts else None)

    async def reorder(self, columns: Mapping[TaskStatus, Sequence[TaskId]]) -> tuple[Task, ...]:
        """Put tasks into these columns in this order and return all; raise InvalidInput or NotFound."""
        stored = {task.id: task for task in await self._board.tasks()}
        starting = [stored[task] for task in columns.get(TaskStatus.IN_PROGRESS, ()) if task in stored]
        works = {task.id: self._work(task) for task in starting if task.status is not TaskStatus.IN_PROGRESS}
        return await self._board.reorder(columns, work={task: work for task, work in works.items() if work is not None})

    async def add_comment(self, task: TaskId, *, author: str, author_type: str, content: str) -> Comment:
        """Raise InvalidInput for an empty comment, and NotFound."""
        _check_texts("A comment needs a text.", content)
        _check_texts("A comment needs an author.", author)
        return await self._board.add_comment(task, author=author, author_type=author_type, content=content)

    def _work(self, task: Task) -> NewMessage | None:
        """What the assignee is told; None when the task has none."""
        if task.assignee is None:
            return None
        self._assignee_type(task.assignee, task.assignee_type)
        return self._inbox.addressed(
            Incoming(_text_of(task), task.assignee, channel="board", sender="Board", sender_id=task.id)
        )

    def _assignee_type(self, assignee: str | None, named: AssigneeType | None) -> AssigneeType | None:
        """What the assignee is, an agent when nothing is said; raise InvalidInput when there is none of that name."""
        if assignee is None:
            return None
        roster = self._rulebook.current.roster
        if named is AssigneeType.TEAM:
            if TeamId(assignee) not in roster.teams:
                raise InvalidInput(
                    f"There is no team {assignee!r} to assign it to; known are: {_listed(roster.teams)}."
                )
            return named
        if AgentId(assignee) not in roster.agents:
            raise InvalidInput(f"There is no agent {assignee!r} to assign it to; known are: {_listed(roster.agents)}.")
        return AssigneeType.AGENT

    async def _check_project(self, project: ProjectId | None) -> None:
        try:
            if project is not None:
                await self._board.project(project)
        except NotFound as error:
            raise InvalidInput(str(error)) from error


def _text_of(task: Task) -> str:
    parts = [
        f"Task {task.identifier}: {task.title}",
        task.description.strip(),
        f"It is yours now. When you are done, say what you did in a comment on task {task.id} of the board and move it "
        "to `review`, or to `done` if nobody needs to look at it. Your skill tasks tells how.",
    ]
    return "\n\n".join(filter(None, parts))


def _check_texts(complaint: str, needed: str, *others: str) -> None:
    if not needed.strip():
        raise InvalidInput(complaint)
    check_text("".join((needed, *others)))


def _listed(names: Mapping[AgentId, object] | Mapping[TeamId, object]) -> str:
    return ", ".join(names) or "none"
