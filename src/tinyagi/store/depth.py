"""Result types of the queue's reads: counts per state, and what keeps a message waiting."""

from dataclasses import dataclass
from typing import NamedTuple

from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import Message


@dataclass(frozen=True, slots=True)
class LaneDepth:
    agent: str
    pending: int = 0
    processing: int = 0
    completed: int = 0
    dead: int = 0

    @property
    def queued(self) -> int:
        """Pending messages behind a run of the same lane."""
        return self.pending if self.processing else 0


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """How many messages and responses are in each state; triggers keep the counts."""

    pending: int
    processing: int
    completed: int
    dead: int
    outgoing: int
    open_conversations: int
    lanes: tuple[LaneDepth, ...]

    @property
    def queued(self) -> int:
        """Pending messages whose agent is running another one."""
        return sum(lane.queued for lane in self.lanes)


class ClaimableLane(NamedTuple):
    agent: AgentId
    pending: int
    has_due: bool
    """True when due messages are not in the ready set yet: `promote` moves them there."""


class WaitingRow(NamedTuple):
    """A pending message and what blocks it, apart from its lane."""

    message: Message
    waits_for: str | None
    """`time`, `thread` or `team`; the last two only after a claim has found the message blocked."""
    behind: int | None
    """The message of its thread that runs first."""


class Retrying(NamedTuple):
    """Messages in back-off, and when the first of them is due."""

    messages: int
    next_at: int | None
