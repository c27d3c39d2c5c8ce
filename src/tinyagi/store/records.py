"""Ports of what is kept beside the queue: the board, schedules, pairing, the audit log, and how conversations went."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tinyagi.domain.board import (
    Comment,
    CommentId,
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
from tinyagi.domain.ids import ConversationId
from tinyagi.domain.messages import Message, NewMessage
from tinyagi.domain.pairing import PairedSender, PairingRequest
from tinyagi.domain.schedules import NewSchedule, Schedule, ScheduleFields, ScheduleId
from tinyagi.domain.traces import ConversationSummary, TracedMessage


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An administrative action: who did what to which thing, and when."""

    id: int
    at: int
    who: str
    action: str
    target: str
    detail: str


Work = Callable[[Task], NewMessage | None]
"""Makes the message for a task that moves into progress, None for none. The two are stored together."""


class Board(Protocol):
    """Projects, tasks and comments. Moving a task into progress sends its message in the same transaction.

    Callbacks run inside the transaction, in the writer's thread, and may run twice: they must have no effect of their
    own. What they raise refuses the change.
    """

    async def projects(self) -> tuple[Project, ...]:
        """Oldest first."""

    async def project(self, project: ProjectId) -> Project:
        """Raise NotFound when there is none."""

    async def add_project(self, new: NewProject) -> Project:
        """Raise Conflict when its prefix is taken, InvalidInput when it is none."""

    async def change_project(self, project: ProjectId, fields: ProjectFields) -> Project:
        """Change these fields only; raise NotFound, Conflict or InvalidInput."""

    async def delete_project(self, project: ProjectId) -> None:
        """Its tasks stay, without a project; raise NotFound."""

    async def tasks(self, *, project: ProjectId | None = None, status: TaskStatus | None = None) -> tuple[Task, ...]:
        """In the order of their columns: by status, then by position."""

    async def task(self, task: TaskId) -> Task:
        """Raise NotFound when there is none."""

    async def add_task(self, new: NewTask, *, work: Work | None = None) -> Task:
        """At the end of its column; raise InvalidInput when it names a project that does not exist."""

    async def change_task(
        self, task: TaskId, fields: TaskFields, *, check: Callable[[Task], None] | None = None, work: Work | None = None
    ) -> Task:
        """Change these fields only; `check` gets the changed task. Raise NotFound, and InvalidInput as `add_task`.

        Its number and identifier stay as they are; in another column it stands at the end.
        """

    async def reorder(
        self, columns: Mapping[TaskStatus, Sequence[TaskId]], *, work: Work | None = None
    ) -> tuple[Task, ...]:
        """Put tasks into these columns in this order and return all; raise NotFound.

        What stands in such a column and is not named comes after what is.
        """

    async def delete_task(self, task: TaskId) -> None:
        """With its comments; raise NotFound."""

    async def comments(self, task: TaskId) -> tuple[Comment, ...]:
        """Oldest first; raise NotFound when there is no such task."""

    async def add_comment(self, task: TaskId, *, author: str, author_type: str, content: str) -> Comment:
        """Raise NotFound when there is no such task."""

    async def delete_comment(self, comment: CommentId) -> None:
        """Raise NotFound."""

    async def take_over(self, projects: Sequence[Project], tasks: Sequence[Task], comments: Sequence[Comment]) -> int:
        """Store rows of another board as they are, together, and return how many are new; nothing is sent.

        What is here already, by its id, stays as it is. Tasks stand at the end of their columns in this order; one
        of number 0 gets the next number. Raise Conflict when a prefix or an identifier is somebody else's, NotFound
        when a task has no project or a comment no task.
        """


class Schedules(Protocol):
    """Messages that are sent when they are due, each due time once. Callbacks run as those of `Board` do."""

    async def all(self) -> tuple[Schedule, ...]:
        """Oldest first."""

    async def add(self, new: NewSchedule, *, next_at: int | None) -> Schedule:
        """Raise Conflict when the label is taken."""

    async def change(
        self, schedule: ScheduleId, fields: ScheduleFields, *, next_at: Callable[[Schedule, Schedule], int | None]
    ) -> Schedule:
        """Change these fields only; raise NotFound, Conflict or InvalidInput.

        `next_at` gets the schedule before and after the change and returns the instant at which it is due next.
        """

    async def delete(self, schedule: ScheduleId) -> None:
        """Raise NotFound."""

    async def due(self, now: int) -> tuple[Schedule, ...]:
        """Enabled schedules whose next instant has come."""

    async def next_due_at(self) -> int | None:
        """The next instant at which one is due, or None."""

    async def fire(
        self,
        schedule: ScheduleId,
        due_at: int,
        *,
        message: Callable[[Schedule], NewMessage | None],
        next_at: Callable[[Schedule], int | None],
    ) -> Message | None:
        """Enqueue its message for this due time and move on, together; a schedule without a next instant is disabled.

        Nothing happens when it is not due at this instant any more: another process was first, or it was changed,
        disabled or deleted. A `message` of None passes over the due time. Raise what the callbacks raise, InvalidInput
        and DuplicateMessage; the schedule is due as before then.
        """


class Pairing(Protocol):
    """Who may write from a chat."""

    async def is_approved(self, channel: str, sender_id: str) -> bool:
        """True when this person may write."""

    async def ask(self, channel: str, sender_id: str, sender: str) -> tuple[PairingRequest, bool] | None:
        """The person's code, and whether it is new (then it has to be told); None when too many wait already.

        Who is approved already gets a code like anybody; to approve it again changes nothing but the name.
        """

    async def pending(self) -> tuple[PairingRequest, ...]:
        """Codes that have not expired, oldest first."""

    async def approved(self) -> tuple[PairedSender, ...]:
        """Oldest first."""

    async def approve(self, code: str) -> PairedSender:
        """Raise NotFound when the code is unknown or has expired. Letters may be small."""

    async def reject(self, code: str) -> None:
        """Raise NotFound when the code is unknown or has expired."""

    async def unpair(self, channel: str, sender_id: str) -> None:
        """Raise NotFound when this person is not approved."""

    async def take_over(self, people: Sequence[PairedSender]) -> int:
        """Store people approved elsewhere as they are, and return how many are new; who is here stays as they are."""


class AuditLog(Protocol):
    """Administrative actions, kept for ever."""

    async def record(self, who: str, action: str, target: str, detail: str = "") -> None:
        """Append an entry."""

    async def recent(self, *, before: int | None = None, limit: int = 100) -> tuple[AuditEntry, ...]:
        """Newest first, below an id."""


class Traces(Protocol):
    """Conversations as they went, for as long as their messages are kept."""

    async def conversation(self, conversation: ConversationId) -> tuple[TracedMessage, ...]:
        """Its messages in the order they came, each with its runs; empty when nothing is known of it."""

    async def recent(self, *, limit: int = 50) -> tuple[ConversationSummary, ...]:
        """The conversations that began last, newest first."""
