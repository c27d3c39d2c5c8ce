"""Models of conversations, histories and recall; builds a conversation's trace as a tree. Pure: no store, no clock."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from tinyagi.api.base import Instant, Model
from tinyagi.domain.limits import Usage
from tinyagi.domain.messages import Status
from tinyagi.domain.traces import Attempt, TracedMessage

ConversationState = Literal["open", "done", "dead"]
"""`open`: a message is pending or running. `dead`: none is, but at least one died. `done`: all completed."""

MAX_DEPTH: Final = 50
"""Levels of the tree. A deeper span becomes a sibling of its parent, which it still names: JSON must not nest without
limit."""

_OPEN: Final = frozenset({Status.PENDING, Status.PROCESSING})
_NO_USAGE: Final = Usage()


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
    """A message of the conversation with its runs, its answer and its hand-offs."""

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
    queue_wait_ms: Annotated[int | None, Field(description="Wait for its first run; null before it.")]
    provider: Annotated[str | None, Field(description="Provider of the last run that reported one.")]
    model: str | None
    tokens: int
    cost: float
    last_error: str | None
    answer: str | None
    answered_by: Annotated[str | None, Field(description="The message whose run also answered this one.")]
    attempts: tuple[AttemptSpan, ...]
    children: "tuple[Span, ...]"


class Trace(Model):
    """A conversation as a tree of spans. It has several roots if it has several parts, or if parents were pruned."""

    conversation_id: str
    team: str | None
    status: ConversationState
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
    message: Annotated[str, Field(description="The first message.")]
    status: ConversationState
    open: Annotated[int, Field(description="Pending and running messages.")]
    total: int
    dead: int
    hops: int
    tokens: int
    cost: float
    started_at: int
    updated_at: int


class HistoryLine(Model):
    """A line in an agent's history."""

    model_config = ConfigDict(alias_generator=None)

    id: int
    agent_id: str
    role: Literal["user", "assistant"]
    channel: str
    sender: str
    message_id: str
    content: str
    created_at: int
    from_agent: str | None


class RecallHit(Model):
    """A part of a line in the agent's history."""

    history_id: Annotated[int, Field(description="The `id` of the line in /api/agents/{agent}/messages.")]
    role: Literal["user", "assistant"]
    message_id: str
    conversation_id: str | None
    at: Annotated[Instant, Field(description="When the line was written.")]
    text: str
    score: Annotated[float, Field(description="Relevance; comparable only within one answer.")]


class Recalled(Model):
    """The matching parts, best first."""

    hits: tuple[RecallHit, ...]
    through_at: Annotated[Instant, Field(description="Later lines are not archived yet and were not searched.")]


def trace_of(messages: Sequence[TracedMessage]) -> Trace:
    """Build the tree of a conversation from its messages, at least one, in order of arrival."""
    first = messages[0].message
    # A run shared by several messages is listed with each of them, but has its usage only with one.
    runs = [run for traced in messages for run in traced.attempts]
    return Trace(
        conversation_id=first.conversation_id,
        team=first.conversation_team,
        status=conversation_state(
            sum(traced.message.status in _OPEN for traced in messages),
            sum(traced.message.status == Status.DEAD for traced in messages),
        ),
        started_at=first.conversation_started_at,
        updated_at=max(traced.message.updated_at for traced in messages),
        messages=len(messages),
        hops=max(traced.message.hop for traced in messages),
        tokens=sum(_tokens(run) for run in runs),
        cost=sum(_cost(run) for run in runs),
        spans=_spans(messages),
    )


def conversation_state(open_messages: int, dead_messages: int) -> ConversationState:
    """Return the state of a conversation."""
    if open_messages:
        return "open"
    return "dead" if dead_messages else "done"


def _spans(messages: Sequence[TracedMessage]) -> tuple[Span, ...]:
    parents = _parents(messages)
    children: dict[str | None, list[Span]] = {}
    # Children come after their parents, so in reverse order all children of a span exist before it.
    for traced in reversed(messages):
        name = traced.message.message_id
        span = _span(traced, tuple(reversed(children.pop(name, []))))
        children.setdefault(parents[name], []).append(span)
    return tuple(reversed(children.pop(None, [])))


def _parents(messages: Sequence[TracedMessage]) -> dict[str, str | None]:
    """Map each message to its parent in the tree; None for a root, whose parent is missing among earlier messages."""
    parents: dict[str, str | None] = {}
    depths: dict[str, int] = {}
    for traced in messages:
        name, parent = traced.message.message_id, traced.message.parent_message_id
        above = None if parent is None or parent not in parents else str(parent)
        if above is not None and depths[above] >= MAX_DEPTH:
            above = parents[above]
        parents[name] = above
        depths[name] = 1 if above is None else depths[above] + 1
    return parents


def _span(traced: TracedMessage, children: tuple[Span, ...]) -> Span:
    message, attempts = traced.message, traced.attempts
    usage = next((run.usage for run in reversed(attempts) if run.usage is not None), _NO_USAGE)
    return Span(
        id=message.id,
        message_id=message.message_id,
        parent_message_id=message.parent_message_id,
        agent=message.agent,
        from_agent=message.from_agent,
        team=message.team,
        hop=message.hop,
        channel=message.channel,
        sender=message.sender,
        text=message.message,
        status=message.status,
        created_at=message.created_at,
        updated_at=message.updated_at,
        queue_wait_ms=attempts[0].wait_ms if attempts else None,
        provider=usage.provider,
        model=usage.model,
        tokens=sum(_tokens(run) for run in attempts),
        cost=sum(_cost(run) for run in attempts),
        last_error=message.last_error,
        answer=traced.answer,
        answered_by=message.answered_by,
        attempts=tuple(_attempt(run) for run in attempts),
        children=children,
    )


def _attempt(run: Attempt) -> AttemptSpan:
    usage = run.usage or _NO_USAGE
    return AttemptSpan(
        claim_id=run.claim_id,
        number=run.number,
        started_at=run.started_at,
        ended_at=run.ended_at,
        wait_ms=run.wait_ms,
        duration_ms=None if run.ended_at is None else max(0, run.ended_at - run.started_at),
        outcome=run.outcome,
        reason=run.reason,
        provider=usage.provider,
        model=usage.model,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_tokens=usage.cache_tokens,
        cost=usage.cost,
    )


def _tokens(run: Attempt) -> int:
    usage = run.usage or _NO_USAGE
    return (usage.input_tokens or 0) + (usage.output_tokens or 0) + (usage.cache_tokens or 0)


def _cost(run: Attempt) -> float:
    return (run.usage or _NO_USAGE).cost or 0.0
