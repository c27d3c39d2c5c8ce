"""Makes a tree of a conversation's messages. Pure: it knows neither store nor clock."""

from collections.abc import Sequence
from typing import Final

from tinyagi.api.traces import AttemptSpan, Span, Standing, Trace
from tinyagi.domain.messages import Status, Usage
from tinyagi.domain.traces import Attempt, TracedMessage

DEEPEST: Final = 50
"""Levels of the tree. What lies deeper stands beside its parent, which it still names: JSON must not nest for ever."""

_OPEN: Final = frozenset({Status.PENDING, Status.PROCESSING})
_NOTHING: Final = Usage()


def trace_of(messages: Sequence[TracedMessage]) -> Trace:
    """The tree of a conversation, given its messages in the order they came; there is at least one."""
    first = messages[0].message
    # A run that several messages share is told with each of them, but what it used only with one.
    runs = [run for traced in messages for run in traced.attempts]
    return Trace(
        conversation_id=first.conversation_id,
        team=first.conversation_team,
        status=standing(
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


def standing(open_messages: int, dead_messages: int) -> Standing:
    """How a conversation stands."""
    if open_messages:
        return "open"
    return "dead" if dead_messages else "done"


def _spans(messages: Sequence[TracedMessage]) -> tuple[Span, ...]:
    parents = _parents(messages)
    children: dict[str | None, list[Span]] = {}
    # Children come after their parents, so from the end everything is complete when it is reached.
    for traced in reversed(messages):
        name = traced.message.message_id
        span = _span(traced, tuple(reversed(children.pop(name, []))))
        children.setdefault(parents[name], []).append(span)
    return tuple(reversed(children.pop(None, [])))


def _parents(messages: Sequence[TracedMessage]) -> dict[str, str | None]:
    """Under what each message hangs; None for a root: a part, or one whose parent is not among those before it."""
    parents: dict[str, str | None] = {}
    depths: dict[str, int] = {}
    for traced in messages:
        name, parent = traced.message.message_id, traced.message.parent_message_id
        above = None if parent is None or parent not in parents else str(parent)
        if above is not None and depths[above] >= DEEPEST:
            above = parents[above]
        parents[name] = above
        depths[name] = 1 if above is None else depths[above] + 1
    return parents


def _span(traced: TracedMessage, children: tuple[Span, ...]) -> Span:
    message, attempts = traced.message, traced.attempts
    told = next((run.usage for run in reversed(attempts) if run.usage is not None), _NOTHING)
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
        provider=told.provider,
        model=told.model,
        tokens=sum(_tokens(run) for run in attempts),
        cost=sum(_cost(run) for run in attempts),
        last_error=message.last_error,
        answer=traced.answer,
        answered_by=message.answered_by,
        attempts=tuple(_attempt(run) for run in attempts),
        children=children,
    )


def _attempt(run: Attempt) -> AttemptSpan:
    usage = run.usage or _NOTHING
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
    usage = run.usage or _NOTHING
    return (usage.input_tokens or 0) + (usage.output_tokens or 0) + (usage.cache_tokens or 0)


def _cost(run: Attempt) -> float:
    return (run.usage or _NOTHING).cost or 0.0
