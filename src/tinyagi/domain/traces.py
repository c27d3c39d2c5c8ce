"""Traces: the messages of a conversation, each with its runs."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tinyagi.domain.events import (
    ChainStepDone,
    ChainStepStart,
    MessageDead,
    MessageFailed,
    MessageRecovered,
    MessageReleased,
    MessageStopped,
)
from tinyagi.domain.limits import Usage
from tinyagi.domain.messages import Message

RunEnd = MessageFailed | MessageDead | MessageStopped | MessageReleased | MessageRecovered
"""How one message of a run without an answer ended."""
RunEvent = ChainStepStart | ChainStepDone | RunEnd
_WITH_USAGE: Final = (ChainStepDone, MessageFailed, MessageDead)

RUN_EVENTS: Final[Mapping[str, type[RunEvent]]] = {
    event.type: event
    for event in (
        ChainStepStart,
        ChainStepDone,
        MessageFailed,
        MessageDead,
        MessageStopped,
        MessageReleased,
        MessageRecovered,
    )
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run, from its claim to its end."""

    claim_id: str
    number: int
    started_at: int
    wait_ms: int
    """How long its primary message had waited."""
    ended_at: int | None
    outcome: str
    """`running`, or the type of the event that ended it: chain_step_done, message_failed, …"""
    reason: str | None
    usage: Usage | None
    """Set for the primary message only, so that a sum counts each run once."""


@dataclass(frozen=True, slots=True)
class TracedMessage:
    message: Message
    attempts: tuple[Attempt, ...]
    answer: str | None


@dataclass(frozen=True, slots=True)
class ConversationSummary:
    id: str
    team: str | None
    channel: str
    sender: str
    agent: str
    message: str
    """The text of the first message."""
    open: int
    total: int
    dead: int
    hops: int
    tokens: int
    cost: float
    started_at: int
    updated_at: int


def build_trace(messages: Iterable[Message], log: Iterable[tuple[int, RunEvent]]) -> tuple[TracedMessage, ...]:
    """Join messages with the events of their runs, each with its instant, in the order of the log."""
    runs: dict[int, dict[str, _Run]] = defaultdict(dict)
    for at, event in log:
        if event.claim_id is None:
            # The message died without a run.
            continue
        for number in event.ids if isinstance(event, ChainStepStart | ChainStepDone) else (event.id,):
            runs[number].setdefault(event.claim_id, _Run()).add(at, event)
    return tuple([_traced(message, runs[message.id]) for message in messages])


def _traced(message: Message, runs: "Mapping[str, _Run]") -> TracedMessage:
    attempts = tuple([run.attempt(message, claim_id) for claim_id, run in runs.items()])
    answers = [run.done.content for run in runs.values() if run.done and run.done.ids[0] == message.id]
    return TracedMessage(message, attempts, answers[-1] if answers else None)


class _Run:
    """The events of one run and one of its messages; the first ones may have been pruned."""

    def __init__(self) -> None:
        self.start: ChainStepStart | None = None
        self.done: ChainStepDone | None = None
        self.end: RunEnd | None = None
        self._started_at: int | None = None
        self._ended_at: int | None = None

    def add(self, at: int, event: RunEvent) -> None:
        match event:
            case ChainStepStart():
                self.start, self._started_at = event, at
            case ChainStepDone():
                self.done, self._ended_at = event, at
            case _:
                self.end, self._ended_at = event, at

    def attempt(self, message: Message, claim_id: str) -> Attempt:
        start, ending = self.start, self.done or self.end
        is_primary = self.done is None or self.done.ids[0] == message.id
        return Attempt(
            claim_id,
            number=self.end.attempt if self.end else start.attempt if start else message.attempt,
            started_at=self._began_at(),
            wait_ms=start.wait_ms if start else 0,
            ended_at=self._ended_at,
            outcome=ending.type if ending else "running",
            reason=self.end.reason if self.end else None,
            usage=ending.usage if isinstance(ending, _WITH_USAGE) and is_primary else None,
        )

    def _began_at(self) -> int:
        if self._started_at is not None:
            return self._started_at
        return (self._ended_at or 0) - (self.done.duration_ms if self.done else 0)
