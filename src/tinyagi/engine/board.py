"""Changes of the board: checks them, and makes the message that sends a task to its assignee."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Unpack

from tinyagi.domain.board import (
    AssigneeType,
    Comment,
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
from tinyagi.domain.ids import AgentId, TeamId
from tinyagi.domain.messages import NewMessage
from tinyagi.domain.texts import check_text
from tinyagi.engine.inbox import Inbox, Incoming
from tinyagi.settings.effective import EffectiveSettingsCache
from tinyagi.store.board import BoardStore


class TaskBoard:
    """Changes of the board. A task that moves into progress is sent to its assignee; without one it moves silently."""

    def __init__(self, board: BoardStore, inbox: Inbox, effective: EffectiveSettingsCache) -> None:
        self._board = board
        self._inbox = inbox
        self._effective = effective

    async def add_project(self, new: NewProject) -> Project:
        """Raise InvalidInput for an invalid project, and Conflict when its prefix is taken."""
        _check_texts("A project needs a name.", new.name, new.description, new.color)
        return await self._board.add_project(new)

    async def change_project(self, project: ProjectId, **fields: Unpack[ProjectFields]) -> Project:
        """Change some fields; raise InvalidInput, NotFound or Conflict."""
        _check_texts("A project needs a name.", fields.get("name"), fields.get("description"), fields.get("color"))
        return await self._board.change_project(project, fields)

    async def add_task(self, new: NewTask) -> Task:
        """Raise InvalidInput for an invalid task, also when its assignee or project does not exist."""
        _check_texts("A task needs a title.", new.title, new.description)
        new = replace(new, assignee_type=self._assignee_type(new.assignee, new.assignee_type))
        return await self._board.add_task(new, work=self._work)

    async def change_task(self, task: TaskId, **fields: Unpack[TaskFields]) -> Task:
        """Change some fields; raise InvalidInput or NotFound."""
        _check_texts("A task needs a title.", fields.get("title"), fields.get("description"))
        # A task may keep a deleted assignee until it is reassigned or starts.
        check = self._check_assignee if fields.keys() & {"assignee", "assignee_type"} else None
        return await self._board.change_task(task, fields, check=check, work=self._work)

    async def reorder(self, columns: Mapping[TaskStatus, Sequence[TaskId]]) -> tuple[Task, ...]:
        """Put tasks into these columns in this order and return all; raise InvalidInput or NotFound."""
        return await self._board.reorder(columns, work=self._work)

    async def add_comment(self, task: TaskId, *, author: str, author_type: str, content: str) -> Comment:
        """Raise InvalidInput for an empty comment, and NotFound."""
        _check_texts("A comment needs a text.", content)
        _check_texts("A comment needs an author.", author)
        return await self._board.add_comment(task, author=author, author_type=author_type, content=content)

    def _work(self, task: Task) -> NewMessage | None:
        """The message for the assignee; None when the task has none."""
        if task.assignee is None:
            return None
        self._check_assignee(task)
        return self._inbox.addressed(
            Incoming(_text_of(task), task.assignee, channel="board", sender="Board", sender_id=task.id)
        )

    def _check_assignee(self, task: Task) -> None:
        self._assignee_type(task.assignee, task.assignee_type)

    def _assignee_type(self, assignee: str | None, named: AssigneeType | None) -> AssigneeType | None:
        """The type of the assignee, by default an agent; raise InvalidInput when there is none with this name."""
        if assignee is None:
            return None
        roster = self._effective.current.roster
        if named is AssigneeType.TEAM:
            if TeamId(assignee) not in roster.teams:
                raise InvalidInput(
                    f"There is no team {assignee!r} to assign it to. There are: {_listed(roster.teams)}."
                )
            return named
        if AgentId(assignee) not in roster.agents:
            raise InvalidInput(f"There is no agent {assignee!r} to assign it to. There are: {_listed(roster.agents)}.")
        return AssigneeType.AGENT


def _text_of(task: Task) -> str:
    parts = [
        f"Task {task.identifier}: {task.title}",
        task.description.strip(),
        f"It is yours now. When you are done, say what you did in a comment on task {task.id} of the board and move it "
        "to `review`, or to `done` if no one has to review it. See your skill `tasks`.",
    ]
    return "\n\n".join(filter(None, parts))


def _check_texts(complaint: str, needed: str | None, *others: str | None) -> None:
    """Raise InvalidInput when the needed text is empty or a text cannot be stored; None means no change."""
    if needed is not None and not needed.strip():
        raise InvalidInput(complaint)
    check_text("".join(filter(None, (needed, *others))))


def _listed(names: Mapping[AgentId, object] | Mapping[TeamId, object]) -> str:
    return ", ".join(names) or "none"
