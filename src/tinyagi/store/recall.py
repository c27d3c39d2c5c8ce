"""Port of recall: an agent looks for something in its own past."""

from dataclasses import dataclass
from typing import Protocol

from tinyagi.domain.errors import NotFound
from tinyagi.domain.ids import AgentId


@dataclass(frozen=True, slots=True)
class Hit:
    """A piece of a line of the agent's history."""

    history_id: int
    role: str
    message_id: str
    conversation_id: str | None
    created_at: int
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Recollection:
    """What was found, best first, among what had been archived."""

    hits: tuple[Hit, ...]
    through_id: int
    """The last event that was looked at."""


class Recall(Protocol):
    async def search(self, agent: AgentId, query: str, *, limit: int = 10) -> Recollection:
        """Lines of this agent that fit the words best; raise NotFound when nothing is archived yet."""


class NoRecall:
    """Where nothing is archived."""

    async def search(self, agent: AgentId, query: str, *, limit: int = 10) -> Recollection:  # noqa: ARG002 - the port's
        raise NotFound(
            "There is nothing to recall: this installation has no pipeline. "
            "Install `tinyagi[pipeline]`, restart the daemon, then run `tinyagi pipeline run`."
        )
