"""What an agent finds in its own past."""

from typing import Annotated, Literal

from pydantic import Field

from tinyagi.api.base import Instant, Model


class RecallHit(Model):
    """A piece of a line of the agent's history."""

    history_id: Annotated[int, Field(description="The line, as /api/agents/{agent}/messages has it.")]
    role: Literal["user", "assistant"]
    message_id: str
    conversation_id: str | None
    at: Annotated[Instant, Field(description="When it was said.")]
    text: str
    score: Annotated[float, Field(description="How well it fits; comparable within one answer only.")]


class Recalled(Model):
    """What fits the words, best first."""

    hits: tuple[RecallHit, ...]
    through_at: Annotated[Instant, Field(description="What was said later is not archived yet and was not looked at.")]
