"""Conversations as they went: who handed what to whom, how long it took, and what it cost."""

from typing import Annotated, Literal

from pydantic import Field

from tinyagi.api.base import Model

Standing = Literal["open", "done", "dead"]
"""Of a conversation: something is still to be done; all is done; nothing is to be done, but something died."""


class AttemptSpan(Model):
    """One run of a message."""

    claim_id: str
    number: int
    started_at: int
    ended_at: int | None
    wait_ms: int
    duration_ms: Annotated[int | None, Field(description="Null while it runs.")]
    outcome: Annotated[str, Field(description="`running`, or the type of the event that ended it.")]
    reason: str | None
    provider: str | None
    model: str | None
    input_tokens: int | None
    output_tokens: int | None
    cache_tokens: int | None
    cost: float | None


class Span(Model):
    """A message of the conversation, its runs, its answer, and what it was handed on as."""

    id: int
    message_id: str
    parent_message_id: str | None
    agent: str
    from_agent: str | None
    team: str | None
    hop: int
    channel: str
    sender: str
    text: str
    status: str
    created_at: int
    updated_at: int
    queue_wait_ms: Annotated[int | None, Field(description="Until its first run; null when there was none yet.")]
    provider: Annotated[str | None, Field(description="Of the last run that told it.")]
    model: str | None
    tokens: int
    cost: float
    last_error: str | None
    answer: str | None
    answered_by: Annotated[str | None, Field(description="The message whose run answered it too.")]
    attempts: tuple[AttemptSpan, ...]
    children: "tuple[Span, ...]"


class Trace(Model):
    """A conversation as a tree of spans. Several roots: its parts, or what is left when older ones are pruned."""

    conversation_id: str
    team: str | None
    status: Standing
    started_at: int
    updated_at: int
    messages: int
    hops: int
    tokens: int
    cost: float
    spans: tuple[Span, ...]


class Conversation(Model):
    """A conversation in a list."""

    id: str
    team: str | None
    channel: str
    sender: str
    agent: str
    message: Annotated[str, Field(description="The text it began with.")]
    status: Standing
    open: Annotated[int, Field(description="Messages that are pending or being run.")]
    total: int
    dead: int
    hops: int
    tokens: int
    cost: float
    started_at: int
    updated_at: int
